package coordinator

import (
	"errors"
	"reflect"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// decider asks the plan what to do.
type decider struct {
	env
	bugs     *bugs
	observer *observer
	plan     func(plan.Observation) plan.Action // [plan.Next]
}

// next decides; if the plan panics, it waits.
func (d *decider) next(o plan.Observation) (a plan.Action) {
	if bug := d.bugs.guard(theDecision, func() { a = d.plan(o) }); bug != "" {
		d.world.Failed(plan.Action{Kind: "decide"}, errors.New(bug))
		return plan.Action{Kind: plan.Wait, Why: bug}
	}
	return a
}

// stands reports whether a change of the member list is still what the plan decides. Since the decision, a node was
// asked or a backup was made; meanwhile a restore may have been proposed, which relies on the members that it counted.
func (d *decider) stands(a plan.Action) bool {
	o, _ := d.observer.observe()
	now := d.next(o)
	if now.Kind == a.Kind && now.Slot == a.Slot && now.Node == a.Node && now.Disk == a.Disk && now.Member == a.Member &&
		now.PeerURL == a.PeerURL && reflect.DeepEqual(now.Set, a.Set) {
		return true
	}
	d.lg.Info("dropped a change of the members: it is no longer due",
		zap.String("action", string(a.Kind)), zap.String("slot", a.Slot),
		zap.String("now", string(now.Kind)), zap.String("why", now.Text()))
	return false
}

// overtaken reports whether a long action with a backup is no longer the one to do. A store that does not answer for a
// moment has not changed that.
func (d *decider) overtaken(o plan.Observation, doing plan.Action) bool {
	var a plan.Action
	bug := d.bugs.guard(theDecision, func() { a = d.plan(o) })
	switch {
	case bug != "": // nothing was decided
		return false
	case a.Kind == plan.Wait && o.Store.Unknown != "":
		return false
	case doing.Kind == plan.Prepare:
		return a.Kind != plan.Prepare || a.Restore.ID != doing.Restore.ID
	case doing.Kind == plan.Propose:
		return a.Kind != plan.Propose || !reflect.DeepEqual(a.Request, doing.Request)
	}
	return false
}

// orElse returns what f returns, or otherwise if f panics.
func orElse[T any](otherwise T, f func() T) (is T) {
	defer func() {
		if recover() != nil {
			is = otherwise
		}
	}()
	return f()
}
