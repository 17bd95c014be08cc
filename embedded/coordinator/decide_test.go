package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

func TestPanicIsToldAndWaitedFor(t *testing.T) {
	w := newWorld(t)
	c := w.coordinator("a")
	bug := c.status.bugs.guard(theDecision, func() { panic(errors.New("a nil map")) })
	if want := "the decision failed: a nil map; this is a bug"; !strings.HasPrefix(bug, want) {
		t.Errorf("got %q, want %q …", bug, want)
	}
	if got := c.status.looked(plan.Observation{}); !slices.Equal(got.Bugs, []string{bug}) || !slices.Contains(health.Texts(got.Findings()), bug) {
		t.Errorf("bugs: got %q, problems %q", got.Bugs, got.Findings())
	}
	if got := c.History(time.Time{}).Entries; len(got) != 1 || got[0].Kind != entryBug || got[0].Error != bug {
		t.Errorf("history: got %+v", got)
	}
	c.status.bugs.guard(theDecision, func() { panic(errors.New("a nil map")) })
	if len(c.History(time.Time{}).Entries) != 1 {
		t.Error("the same bug was told twice")
	}
	if bug := c.status.bugs.guard(theDecision, func() {}); bug != "" || c.status.looked(plan.Observation{}).Bugs != nil {
		t.Errorf("afterwards: %q, %q", bug, c.Now().Bugs)
	}
}

// TestNodeOutlivesPanics makes every decision panic for a while.
func TestNodeOutlivesPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		var broken atomic.Bool
		broken.Store(true)
		c.loop.decider.plan = func(o plan.Observation) plan.Action {
			if broken.Load() {
				panic("index out of range")
			}
			return plan.Next(o)
		}
		stop := live(t, c)
		time.Sleep(3 * time.Second)
		if now := c.Now(); now.Action.Kind != plan.Wait || !strings.Contains(now.Action.Text(), "index out of range") || len(now.Findings()) != 1 {
			t.Errorf("got %s: %s, problems %q", now.Action.Kind, now.Action.Text(), now.Findings())
		}
		broken.Store(false)
		time.Sleep(5 * time.Second)
		if now := c.Now(); now.State() != "leader" || now.Findings() != nil {
			t.Errorf("afterwards: got %s (%s), problems %q", now.State(), now.Action.Text(), now.Findings())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// refused is an answer of AWS.
type refused struct{ request string }

func (r refused) Error() string            { return "AccessDenied (HTTP 403, request " + r.request + ")" }
func (r refused) ServiceRequestID() string { return r.request }

// A store that refuses every request is decided about once, although each answer has another ID.
func TestErrorThatLastsIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var asked atomic.Int32
		decided := 0
		w.store = func(context.Context) (string, error) {
			return "", fmt.Errorf("look at the store: %w", refused{fmt.Sprintf("REQUEST%09d", asked.Add(1))})
		}
		c := w.coordinator("a")
		c.world.Decided = func(plan.Action) { decided++ }
		stop := live(t, c)
		time.Sleep(time.Minute)
		if why := c.Now().Action.Text(); !strings.Contains(why, "AccessDenied") || strings.Contains(why, "REQUEST") {
			t.Errorf("it says: %s", why)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if asked.Load() < 30 || decided > 5 {
			t.Errorf("the store was asked %d times, and that led to %d decisions", asked.Load(), decided)
		}
	})
}

// A backup that is being fetched is not given up because a node has just started, or the store does not answer.
func TestFetchIsNotOvertakenByAMoment(t *testing.T) {
	w, p := restorable(t)
	d := w.holding().loop.decider
	d.plan = func(plan.Observation) plan.Action { return plan.Action{Kind: plan.Wait} }
	for name, tc := range map[string]struct {
		s    plan.Store
		want bool
	}{
		"it was aborted":           {plan.Store{ID: "S"}, true},
		"the store is down":        {plan.Store{Unknown: "timeout"}, false},
		"a node has just started":  {plan.Store{ID: "S", Late: []string{"n2"}}, false},
		"nothing is open any more": {plan.Store{ID: "S", Met: []string{"n2"}}, true},
	} {
		if got := d.overtaken(plan.Observation{Store: tc.s}, plan.Action{Kind: plan.Prepare, Restore: &p}); got != tc.want {
			t.Errorf("%s: overtaken %v, want %v", name, got, tc.want)
		}
	}
}

// TestMembersStayWhileARestoreIsOpen proposes a restore between a decision and its action.
func TestMembersStayWhileARestoreIsOpen(t *testing.T) {
	for step, want := range map[string]struct{ removed, added int }{"": {1, 1}, "before-remove": {0, 0}, "before-add": {1, 0}} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := replacing(t, &plan.Facts{Version: 1, Slot: "b", Disk: "disk-b2", Phase: plan.PhaseVacant})
				r := record("a", "b", "c")
				w.knows.Record = &r
				c := w.coordinator("a", "b", "c")
				c.world.Step = func(name string) {
					if name == step {
						time.Sleep(time.Millisecond) // the leader's first look is over
						p := NewRestore(r, 0, Backup{Name: "b1", Digest: strings.Repeat("0f", 32)}, 0, 1)
						w.mu.Lock()
						w.knows.Restore = &p
						w.mu.Unlock()
						c.generations.stored(c.generations.read(t.Context()), time.Now())
					}
				}
				stop := live(t, c)
				time.Sleep(watchProposals / 2) // before the leader aborts it
				synctest.Wait()
				if len(w.removed) != want.removed || len(w.added) != want.added {
					t.Errorf("removed %v, added %v; want %+v; it does %s: %s", w.removed, w.added, want, c.Now().Action.Kind, c.Now().Action.Text())
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
