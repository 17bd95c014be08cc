package coordinator

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// staling runs a node that leads until its authorities change, which change may modify, and for ten more seconds. then
// is called with the world locked.
func staling(t *testing.T, change func(w *world), then func(t *testing.T, w *world, c *Coordinator)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual
		change(w)
		w.change(func(m *plan.Member) { m.Stale = true })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.mu.Lock()
		then(t, w, c)
		w.stopErr = nil
		w.mu.Unlock()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// two makes the running member the leader of two.
func (w *world) two(t *testing.T, says plan.Facts) {
	w.company(t, nil)
	r := record("a", "b")
	says.Version, says.Slot, says.Disk, says.Phase, says.Record, says.Running, says.Member = 1, "b", "disk-b", plan.PhaseData, &r, true, 2
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	if w.answer, err = json.Marshal(says); err != nil {
		t.Fatal(err)
	}
	set := *w.member.Set // a look may still be reading the old one
	set.Slots = set.Slots[:2]
	w.member.Members, w.nodes, w.member.Set = w.member.Members[:2], w.nodes[:1], &set
}

// The member is stopped under the lock and started in the same process, which returns the lock when it serves.
func TestReload(t *testing.T) {
	staling(t, func(*world) {}, func(t *testing.T, w *world, c *Coordinator) {
		if len(w.left) != 1 || !strings.Contains(w.left[0], `"purpose":"reload"`) || len(w.starts) != 2 {
			t.Errorf("stopped with the locks %q, started %d times; want once under the lock, and twice", w.left, len(w.starts))
		}
		if w.member.Lock != nil || w.locked != nil || c.Now().State() != "leader" {
			t.Errorf("the lock is %q, and the node is %s: %s", w.locked, c.Now().State(), c.Now().Action.Text())
		}
		if !w.starts[1].TrustWAL || w.starts[1].DataDir != w.starts[0].DataDir {
			t.Errorf("started with %+v", w.starts[1])
		}
		all := c.History(time.Time{}).Entries
		for _, kind := range []plan.Kind{plan.Reload, plan.Start, plan.Unlock} {
			if !slices.ContainsFunc(all, func(e Entry) bool { return e.Kind == string(kind) && e.Outcome == Done }) {
				t.Errorf("the history does not tell of %s: %+v", kind, all)
			}
		}
	})
}

// An obstacle that appears only after the decision prevents the stop, and the lock is returned.
func TestReloadWaits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		lock   string // that is held in the end
		failed string
	}{
		"another one has just taken the lock": {func(w *world) { w.set(func() { w.locked = []byte(`{"slot":"b","node":"n2"}`) }) }, "n2", ""},
		"a follower says that it is stale":    {func(w *world) { w.two(t, plan.Facts{Stale: true}) }, "", ""},
		"a follower does not serve":           {func(w *world) { w.two(t, plan.Facts{}); w.set(func() { w.answer = nil }) }, "", "about its member"},
		"it cannot hand over":                 {func(w *world) { w.two(t, plan.Facts{}) }, "", "still leads"},
	} {
		t.Run(name, func(t *testing.T) {
			staling(t, c.change, func(t *testing.T, w *world, now *Coordinator) {
				if got := string(w.locked); len(w.left) != 0 || len(w.starts) != 1 || !strings.Contains(got, c.lock) || (got == "") != (c.lock == "") {
					t.Errorf("stopped with the locks %q, started %d times, the lock is %q: %s", w.left, len(w.starts), got, now.Now().Action.Text())
				}
				if a := now.Now().Action; a.Kind != plan.Reload {
					t.Errorf("it does %s: %s", a.Kind, a.Why)
				}
				failed := slices.ContainsFunc(w.failed, func(s string) bool { return strings.Contains(s, c.failed) })
				if (c.failed != "") != failed || c.failed == "" && len(w.failed) > 0 {
					t.Errorf("failed: %q, want %q", w.failed, c.failed)
				}
			})
		})
	}
}

// If etcd does not stop, the lock is kept, because the member does not serve. The stop is tried again.
func TestReloadThatIsStuck(t *testing.T) {
	staling(t, func(w *world) { w.set(func() { w.stopErr = errors.New("etcd did not close in time") }) }, func(t *testing.T, w *world, c *Coordinator) {
		if len(w.left) < 2 || !strings.Contains(string(w.locked), `"purpose":"reload"`) {
			t.Errorf("tried %d times, and the lock is %q", len(w.left), w.locked)
		}
		if !slices.ContainsFunc(w.failed, func(s string) bool { return strings.Contains(s, "reload: stop etcd") }) {
			t.Errorf("failed: %q", w.failed)
		}
	})
}

// Without a leader, nobody is asked and no lock is taken. A learner still shows the leader that it had.
func TestReloadWithoutALeader(t *testing.T) {
	for _, alone := range []plan.Status{{}, {HasLead: true, LeaderID: 2, Learner: true}} {
		staling(t, func(w *world) {
			w.set(func() { w.locked = []byte(`{"slot":"b","node":"n2"}`) })
			w.change(func(m *plan.Member) { m.Status = alone })
		}, func(t *testing.T, w *world, c *Coordinator) {
			if len(w.left) != 1 || len(w.starts) != 2 || !strings.Contains(string(w.locked), "n2") {
				t.Errorf("%+v: stopped %d times, started %d times, the lock is %q: %s", alone, len(w.left), len(w.starts),
					w.locked, c.Now().Action.Text())
			}
		})
	}
}

// Members that refuse each other's new connections are restarted without the lock, which another may hold for long: its
// holder finds no member before.
func TestReloadAtOnce(t *testing.T) {
	staling(t, func(w *world) {
		w.set(func() { w.locked = []byte(`{"slot":"b","node":"n2"}`) })
		w.change(func(m *plan.Member) { m.Trusts, m.Issuer = []string{"old"}, "new" })
	}, func(t *testing.T, w *world, c *Coordinator) {
		if len(w.left) == 0 || !strings.Contains(string(w.locked), "n2") {
			t.Errorf("stopped %d times, started %d times, the lock is %q: %s", len(w.left), len(w.starts), w.locked, c.Now().Action.Text())
		}
	})
}
