package coordinator

import (
	"context"
	"errors"
	"time"

	"holdfast/embedded/plan"
)

// pace says when the next action may begin.
type pace struct {
	kind     plan.Kind // of the action that is to be done or was done last
	repeated bool      // it is the one that was done before
	idle     bool      // what was done before changed nothing: only that rests until retry
	retry    time.Time
	pause    time.Duration // after the next failure
}

// next notes what is to be done now, and what was before. The long pauses after a failed fetch of a backup hold up
// nothing else, nor does the rest after what changed nothing.
func (p *pace) next(a, before plan.Action) {
	p.repeated = a.Kind == before.Kind && a.Text() == before.Text()
	if p.kind != a.Kind && p.limit() == maxFetch || p.idle && !p.repeated {
		p.retry, p.pause = time.Time{}, tick
	}
	p.kind = a.Kind
}

func (p *pace) due() bool { return !time.Now().Before(p.retry) }

// rested is told when what is to be done may begin, nil if it may already, or nothing is.
func (p *pace) rested() <-chan time.Time {
	if p.kind == plan.Wait || p.due() {
		return nil
	}
	return time.After(time.Until(p.retry))
}

func (p *pace) limit() time.Duration {
	if p.kind == plan.Prepare || p.kind == plan.Propose {
		return maxFetch
	}
	return maxRetry
}

// did notes how the action went.
func (p *pace) did(err error) {
	p.idle = err == nil && p.repeated
	switch {
	case err == nil:
		p.pause, p.retry = tick, time.Time{}
		if p.repeated {
			p.retry = time.Now().Add(tick / 2) // it changes nothing: no reason to spin
		}
	case errors.Is(err, errNotYet):
		p.retry, p.pause = time.Now().Add(tick/2), tick
	default:
		p.pause = max(p.pause, tick)
		p.retry, p.pause = time.Now().Add(p.pause), min(2*p.pause, p.limit())
	}
}

// every waits for a while, and reports false when ctx has ended.
func every(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
