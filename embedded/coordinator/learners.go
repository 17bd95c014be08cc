package coordinator

import (
	"time"
)

const (
	// stuckAfter is how long a learner that lags may make no progress before it is stuck; stuckReceiving is the same
	// while it is being sent a whole database, of which raft tells nothing before it is there.
	stuckAfter     = 5 * time.Minute
	stuckReceiving = 30 * time.Minute
)

type progressed struct {
	matched uint64
	since   time.Time
}
