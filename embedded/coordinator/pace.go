package coordinator

import (
	"context"
	"errors"
	"time"

	"holdfast/embedded/plan"
)

// pace says when the next action may begin.
type pace struct {
	kind     plan.Kind // of the action to do, or done last
	repeated bool      // the action is the same as the last one
	idle     bool      // the last action changed nothing: it rests until retry, but others may begin
	retry    time.Time
	pause    time.Duration // after the next failure
}

// next notes the action to do now, and the last one. The long pauses after a failed fetch of a backup delay no other
// action, and neither does the rest after an action that changed nothing.
func (p *pace) next(a, before plan.Action) {
	p.repeated = a.Kind == before.Kind && a.Text() == before.Text()
	if p.kind != a.Kind && p.limit() == maxFetch || p.idle && !p.repeated {
		p.retry, p.pause = time.Time{}, tick
	}
	p.kind = a.Kind
}

func (p *pace) due() bool { return !time.Now().Before(p.retry) }

// rested signals when the action may begin; nil if it already may, or if there is none.
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

// did notes how the action ended.
func (p *pace) did(err error) {
	p.idle = err == nil && p.repeated
	switch {
	case err == nil:
		p.pause, p.retry = tick, time.Time{}
		if p.repeated {
			p.retry = time.Now().Add(tick / 2) // it changed nothing: do not spin
		}
	case errors.Is(err, errNotYet):
		p.retry, p.pause = time.Now().Add(tick/2), tick
	default:
		p.pause = max(p.pause, tick)
		p.retry, p.pause = time.Now().Add(p.pause), min(2*p.pause, p.limit())
	}
}

// every waits for d, and returns false if ctx has ended.
func every(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(together(d)):
		return true
	}
}

// together returns a pause of at most d. All such pauses end at the same moments, because waking an idle process costs
// more than a look does.
func together(d time.Duration) time.Duration {
	if d < tick {
		return d
	}
	now := time.Now()
	return now.Add(d).Truncate(tick / 2).Sub(now)
}
