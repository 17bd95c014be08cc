package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// loop observes, decides, and has actions carried out, one at a time.
type loop struct {
	env
	history     *history
	holding     *holding
	status      *status
	names       *names
	generations *generations
	observer    *observer
	announcer   *announcer
	decider     *decider
	actor       *actor
	turn        *turn

	lost   chan error             // why the volume was lost
	ending atomic.Pointer[string] // what the end of the process waits for
}

// at notes what the end of the process waits for.
func (l *loop) at(what string) { l.ending.Store(&what) }

// leave releases in reverse order what the node has taken, after the action that is being carried out, if any: etcd may
// have ended by itself during it, and a fetch of a backup takes long. It tells the other nodes and the status that no
// member runs here any more: otherwise they would still take this node for the leader.
func (l *loop) leave(doing *inFlight) error {
	told := time.Now()
	if doing != nil {
		doing.cancel()
		l.at(fmt.Sprintf("the action %s (%s)", doing.action.Kind, doing.action.Text()))
		l.lg.Info("waiting for the action to end before etcd stops", zap.String("action", string(doing.action.Kind)))
		<-doing.done
	}
	l.at("etcd")
	ctx := context.Background() // the caller's has ended; every step below is bounded
	if err := l.world.Etcd.Stop(ctx, l.part(ctx, told)); err != nil {
		return err
	}
	l.lookAround()
	v := l.holding.leave()
	if v == nil {
		return nil
	}
	l.history.leave()
	l.at("the release of the volume")
	return v.Release(ctx, Keep)
}

// live is the loop: observe, decide, act. The volume is watched until watching ends. live returns the action that is
// still being carried out, nil for none.
func (l *loop) live(ctx, watching context.Context) (doing *inFlight, err error) {
	var (
		watched Volume
		pace    pace
	)
	for {
		if doing == nil {
			l.holding.recheckUnfit()
		}
		alone, since := l.holding.undisturbed()
		o, ended := l.observer.observe()
		if ended != nil {
			return doing, fmt.Errorf("etcd ended by itself: %w", ended)
		}
		l.report(o)
		l.generations.recheck(o)
		watched = l.attend(watching, o, watched)
		switch {
		case doing != nil && l.decider.overtaken(o, doing.action):
			doing.cancel()
		case doing == nil:
			a := l.decider.next(o)
			if !alone && a.Kind != plan.Wait { // what an order has half done is no reason for a step
				break
			}
			pace.next(a, l.status.last().Action)
			if l.decide(a, a.Kind != plan.Wait && pace.due(), since) {
				doing = l.begin(ctx, o, a)
			}
		}
		var done chan error
		var rested <-chan time.Time
		if doing != nil {
			done = doing.done
		} else {
			rested = pace.rested()
		}
		select {
		case <-ctx.Done():
			return doing, nil
		case err := <-done:
			doing.cancel()
			l.acted(doing, err)
			doing = nil
			pace.did(err)
		case <-l.world.Mesh.Changed():
		case <-l.world.Etcd.Changed():
		case <-l.again:
		case <-rested:
		case <-time.After(together(tick)):
		}
	}
}

// report passes an observation on to the other nodes, the resolver and the status.
func (l *loop) report(o plan.Observation) {
	l.announcer.publish(o)
	l.names.update(o, l.holding.now().accepted())
	l.world.Looked(l.status.looked(o))
}

// attend makes the volume show the record that was observed on it, and watches the volume unless it is watched already.
// It returns the watched volume.
func (l *loop) attend(ctx context.Context, o plan.Observation, watched Volume) Volume {
	now := l.holding.now()
	v := now.volume
	if v == nil {
		return watched
	}
	if r := o.Disk.Ledger.Record; r != nil && now.ledger.Record != nil { // it was not given up meanwhile
		v.SetRecord(r.Token())
	}
	if v != watched {
		go l.watch(ctx, v)
	}
	return v
}

// watch waits for the loss of a volume. Then nothing new begins, the loss is reported, etcd is killed, and Run returns,
// whatever the others are doing. watch ends when the volume is released.
func (l *loop) watch(ctx context.Context, v Volume) {
	err := v.Watch(ctx)
	if err == nil {
		return
	}
	l.holding.lose()
	// Log first: the following steps may end the process at any moment, and the history is on the lost volume.
	l.lg.Error("the volume was lost: etcd is killed, and the process ends without touching the volume", zap.Error(err))
	l.world.Ending(fmt.Sprintf("the volume was lost: %v", err))
	l.world.Etcd.Kill()
	l.lost <- fmt.Errorf("%w: %w", ErrVolumeLost, err)
}

// decide records a decision, logs a new one, and reports whether to carry it out: no order may have come since the
// observation.
func (l *loop) decide(a plan.Action, act bool, since uint64) bool {
	act = l.holding.begin(act, since)
	changed := l.status.decided(a, act)
	if changed {
		l.lg.Info("decided", zap.String("action", string(a.Kind)), zap.String("why", a.Text()))
		l.world.Decided(a)
	}
	switch {
	case a.Kind == plan.Wait && changed:
		l.history.remember(Entry{Kind: string(a.Kind), Why: a.Text()})
	case act && changed:
		l.history.remember(Entry{Kind: string(a.Kind), Why: a.Text(), Outcome: Begun})
	}
	return act
}

// inFlight is an action in progress.
type inFlight struct {
	action plan.Action
	began  time.Time
	done   chan error
	cancel context.CancelFunc
}

func (l *loop) begin(ctx context.Context, o plan.Observation, a plan.Action) *inFlight {
	ctx, cancel := context.WithCancel(ctx)
	d := &inFlight{a, time.Now(), make(chan error, 1), cancel}
	go func() { d.done <- l.actor.act(ctx, o, a) }()
	return d
}

// acted records how an action ended, and logs a new failure.
func (l *loop) acted(d *inFlight, err error) {
	a := d.action
	changed := l.status.acted(err)
	l.holding.ended()
	if errors.Is(err, errNotYet) {
		return
	}
	l.history.remember(Entry{Kind: string(a.Kind), Why: a.Text(), Outcome: Done, Seconds: time.Since(d.began).Seconds(),
		Error: text(err)})
	if err == nil {
		return
	}
	if changed {
		l.lg.Error("action failed", zap.String("action", string(a.Kind)), zap.String("why", a.Text()), zap.Error(err))
	}
	l.world.Failed(a, err)
}

// pace says when the next action may begin.
type pace struct {
	kind     plan.Kind // of the action to do, or done last
	repeated bool      // the action is the same as the last one
	idle     bool      // the last action changed nothing: it rests until retry, but others may begin
	retry    time.Time
	pause    time.Duration // after the next failure
}

// next notes the action to do now, and the last one. The long pauses after a failed fetch of a backup delay no other
// action, and neither does the rest after an action that changed nothing. A slot that has become free is claimed at
// once.
func (p *pace) next(a, before plan.Action) {
	p.repeated = a.Kind == before.Kind && a.Text() == before.Text()
	free := false
	for slot := range before.Avoid {
		free = free || a.Kind == plan.Acquire && a.Avoid[slot] == ""
	}
	if p.kind != a.Kind && p.limit() == maxFetch || p.idle && !p.repeated || free {
		p.retry, p.pause = time.Time{}, tick
	}
	p.kind = a.Kind
}

func (p *pace) due() bool { return !time.Now().Before(p.retry) }

// rested signals when the action may begin; nil if it already may, or without an action.
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
	p.idle = err == nil && p.repeated || errors.Is(err, errOvertaken)
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
