package coordinator

import (
	"time"
)

// leaderless is how long a member must have been without a leader before it tells where its log ends: an election is no
// loss. logAge is how long what it tells is good for; a log without a leader does not grow.
const (
	leaderless = 5 * time.Second
	logAge     = 5 * time.Second
)
