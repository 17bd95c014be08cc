package coordinator

import (
	"context"
	"time"

	"holdfast/embedded/plan"
)

// inFlight is an action that is being carried out.
type inFlight struct {
	action plan.Action
	began  time.Time
	done   chan error
	cancel context.CancelFunc
}
