package coordinator

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

const (
	// lookToPart is how often a process that was told to stop checks whether its member may go down now.
	lookToPart = 100 * time.Millisecond
	// tryToPart bounds one attempt to take the disruption lock, and one question to the leader: a quorum that is being
	// lost must not delay the stop.
	tryToPart = time.Second
	// stoppingWhy is the node's status from when its member goes down.
	stoppingWhy = "the node is stopping"
)

// part waits until this member may go down, and returns how long it may take to hand over, 0 if nobody stays to take
// over. told is when the process was told to stop. This slot's next process returns the lock.
func (l *loop) part(ctx context.Context, told time.Time) (handOver time.Duration) {
	l.observer.stopping.Store(true)
	o := l.lookAround()
	if l.cfg.StopWait > 0 {
		o, handOver = l.waitToPart(ctx, told, l.cfg.StopWait)
	}
	l.decide(plan.Action{Kind: plan.Wait, Why: stoppingWhy}, false, 0)
	if o.Deserted() {
		return 0
	}
	return handOver
}

// lookAround observes, and reports the observation to the other nodes and the status.
func (l *loop) lookAround() plan.Observation {
	o, _ := l.observer.observe()
	l.report(o)
	return o
}

// waitToPart waits until this member has the disruption lock and a majority is connected without it, for at most the
// greater part of wait since begin. It returns its last observation, and the time left for handing over. It logs a
// remaining risk, because the process stops anyway (R14).
func (l *loop) waitToPart(ctx context.Context, begin time.Time, wait time.Duration) (o plan.Observation,
	left time.Duration) {
	least, p := wait/5, new(parting)
	for {
		o = l.lookAround()
		if why := o.Haste(); why != "" {
			l.lg.Info("stopping at once", zap.String("why", why))
			break
		}
		risk, hurry := l.ask(ctx, o, p)
		if hurry {
			continue
		}
		if risk == "" {
			break
		}
		if time.Since(begin) >= wait-least {
			l.lg.Warn("stopped although that is a risk: the cluster may be without a quorum", zap.String("risk", risk),
				zap.Duration("waited", time.Since(begin)))
			break
		}
		l.decide(plan.Action{Kind: plan.Wait, Why: "shutdown requested; waiting for a moment to go down: " + risk}, false, 0)
		select {
		case <-l.world.Mesh.Changed():
		case <-time.After(lookToPart):
		}
	}
	o, _ = l.observer.observe() // the lock and the leader's answer have taken a while
	return o, max(wait-time.Since(begin), least)
}

// parting is the lock of a stopping process, and when it was last refreshed.
type parting struct {
	value []byte
	since time.Time
}

// ask takes the disruption lock, unless it is held already, and returns the remaining risk. It gives up and returns
// hurry if there is a reason to hurry: a quorum that is stopping as well never answers.
func (l *loop) ask(ctx context.Context, o plan.Observation, p *parting) (risk string, hurry bool) {
	if lock := o.Member.Lock; lock != nil && lock.Slot != o.Claim.Slot {
		return lock.String(), false
	}
	ctx, cancel := context.WithCancel(ctx)
	var look sync.WaitGroup
	look.Go(func() {
		for every(ctx, lookToPart) {
			if now, _ := l.observer.observe(); now.Haste() != "" {
				hurry = true
				cancel()
			}
		}
	})
	risk = l.mayPart(ctx, o, p)
	cancel()
	look.Wait()
	return risk, hurry && risk != ""
}

// mayPart tries to take the lock, and asks the leader. Under an alarm etcd refuses the lock as it does every write, so
// waiting for it would not help: what the others say is all that can be had.
func (l *loop) mayPart(ctx context.Context, o plan.Observation, p *parting) (risk string) {
	switch locks := !o.Member.Alarmed(plan.NoSpace) && !o.Member.Alarmed(plan.Corrupt); {
	case !locks && o.Leaving() != "":
		return o.Leaving()
	case locks && (p.value == nil || time.Since(p.since) > l.cfg.Hold/4):
		ctx, cancel := context.WithTimeout(ctx, tryToPart)
		defer cancel()
		value, err := l.turn.lock(ctx, "stop", l.cfg.Hold)
		if err != nil {
			return lockRisk(err)
		}
		p.value, p.since = value, time.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, tryToPart)
	defer cancel()
	return l.turn.risk(ctx)
}
