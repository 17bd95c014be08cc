package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"

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
	d.lg.Info("dropped a change of the members: it is no longer due", zap.String("action", string(a.Kind)),
		zap.String("slot", a.Slot), zap.String("now", string(now.Kind)), zap.String("why", now.Text()))
	return false
}

// overtaken reports whether a long action with a backup is no longer the one to do. A store that does not answer for a
// moment has not changed that, nor has a node that has just started and was not found in the store yet.
func (d *decider) overtaken(o plan.Observation, doing plan.Action) bool {
	var a plan.Action
	bug := d.bugs.guard(theDecision, func() { a = d.plan(o) })
	switch {
	case bug != "": // nothing was decided
		return false
	case a.Kind == plan.Wait && (o.Store.Unknown != "" || len(o.Store.Late) > 0):
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

// A panic in a decision is our bug, and must not end the process. All nodes see the same, so all would end, again at
// each start, and nobody could inspect them. The panic is reported, and the node waits (R20).

// The names of what has panicked, in reports.
const (
	theDecision = "the decision"
	theFacts    = "what is told to the other nodes"
	theNames    = "who answers for the members' names"
	theCampaign = "whether to start an election"
)

// entryBug is the kind of a history entry about a panic.
const entryBug = "bug"

// bugs remembers what panics at present.
type bugs struct {
	lg      *zap.Logger
	history *history

	mu    sync.Mutex
	shown map[string]string // by what has failed
}

// guard calls f. It returns "", or a report for people if f panicked. The caller must hold no lock.
func (b *bugs) guard(what string, f func()) (bug string) {
	var stack []byte
	func() {
		defer func() {
			if r := recover(); r != nil {
				stack = debug.Stack()
				bug = fmt.Sprintf("%s failed: %v; this is a bug: please report it with the log, which has the stack, "+
					"and with `holdfast history`", what, r)
			}
		}()
		f()
	}()
	b.mu.Lock()
	news := bug != b.shown[what]
	if bug == "" {
		delete(b.shown, what)
	} else {
		b.shown[what] = bug
	}
	b.mu.Unlock()
	if bug != "" && news {
		b.lg.Error("a decision panicked", zap.String("why", bug), zap.ByteString("stack", stack))
		b.history.remember(Entry{Kind: entryBug, Why: what, Error: bug})
	}
	return bug
}

// all are the current reports.
func (b *bugs) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Values(b.shown))
}
