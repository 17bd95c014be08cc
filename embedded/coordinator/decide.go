package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// next decides, and waits where that panics.
func (c *Coordinator) next(o plan.Observation) (a plan.Action) {
	if bug := c.guard(theDecision, func() { a = c.plan(o) }); bug != "" {
		c.world.Failed(plan.Action{Kind: "decide"}, errors.New(bug))
		return plan.Action{Kind: plan.Wait, Why: bug}
	}
	return a
}

// told encodes what this node says of itself.
func (c *Coordinator) told(o plan.Observation, quiet bool) (data []byte, err error) {
	if bug := c.guard(theFacts, func() {
		f := o.Facts(c.removed(o))
		if quiet {
			f = f.Quiet()
		}
		data, err = json.Marshal(f)
	}); bug != "" {
		return nil, errors.New(bug)
	}
	return data, err
}

// guard calls f. It returns "", or what to tell people when f panicked. The caller must not hold the lock.
func (c *Coordinator) guard(what string, f func()) (bug string) {
	var stack []byte
	func() {
		defer func() {
			if r := recover(); r != nil {
				stack = debug.Stack()
				bug = fmt.Sprintf("%s failed: %v; this is a bug: please report it with the log, which has the stack, and with `holdfast history`", what, r)
			}
		}()
		f()
	}()
	c.mu.Lock()
	news := bug != c.bugs[what]
	if bug == "" {
		delete(c.bugs, what)
	} else {
		c.bugs[what] = bug
	}
	c.mu.Unlock()
	if bug != "" && news {
		c.lg.Error("a decision panicked", zap.String("why", bug), zap.ByteString("stack", stack))
		c.Remember(Entry{Kind: EntryBug, Why: what, Error: bug})
	}
	return bug
}

// faults are the bugs that show at present. The caller holds the lock.
func (c *Coordinator) faults() []string { return slices.Sorted(maps.Values(c.bugs)) }

// resumed decides as for a cluster that is not paused. Where that panics it says nothing.
func resumed(o plan.Observation) (a plan.Action) {
	defer func() {
		if recover() != nil {
			a = plan.Action{Kind: plan.Wait}
		}
	}()
	return plan.Resumed(o)
}

// phase sums up the disk. Where that panics nothing is known of it.
func phase(o plan.Observation) (p plan.Phase) {
	defer func() {
		if recover() != nil {
			p = plan.PhaseWaiting
		}
	}()
	return o.Facts(nil).Phase
}

// unheard are the nodes whose word does not count, and why.
func unheard(o plan.Observation) map[string]string {
	var all map[string]string
	for _, p := range o.Peers {
		if p.Unread != "" {
			if all == nil {
				all = map[string]string{}
			}
			all[p.Node] = p.Unread
		}
	}
	return all
}

// stands reports whether a change of the members is still what there is to do, as of now: since it was decided a node was asked, or
// a backup was made, and meanwhile a restore may have been proposed, which counts on the members that it saw.
func (c *Coordinator) stands(a plan.Action) bool {
	o, _ := c.observe()
	now := c.next(o)
	if now.Kind == a.Kind && now.Slot == a.Slot && now.Node == a.Node && now.Disk == a.Disk && now.Member == a.Member && reflect.DeepEqual(now.Set, a.Set) {
		return true
	}
	c.lg.Info("a change of the members is put off: it is not what there is to do any more",
		zap.String("action", string(a.Kind)), zap.String("slot", a.Slot), zap.String("now", string(now.Kind)), zap.String("why", now.Text()))
	return false
}
