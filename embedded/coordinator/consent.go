package coordinator

import (
	"errors"
)

// askToConsent begins the question to a member with a leader to commit a consent; the consent follows.
const askToConsent = "consent "

// ErrUnled is wrapped by Confirm where no member can commit a consent.
var ErrUnled = errors.New("no member that has a leader answers")
