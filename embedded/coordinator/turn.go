package coordinator

import (
	"time"
)

// lockTimeout bounds one call about the disruption lock.
const lockTimeout = 3 * time.Second

// askToRefresh begins the question for a refresh of the disruption lock; its value follows.
const askToRefresh = "refresh-lock "
