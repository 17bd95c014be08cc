package coordinator

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

func TestReleasedVolumeIsNotClaimedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		if _, err := c.GiveUp(t.Context()); err == nil {
			t.Error("gave up a volume before one was held")
		}
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual
		id, err := c.GiveUp(t.Context())
		if err != nil || id.Slot != "a" {
			t.Fatalf("got %+v, %v", id, err)
		}
		time.Sleep(time.Minute)
		if now := c.Now(); now.Action.Kind != plan.Wait || !strings.Contains(now.Action.Text(), "released") || now.Volume.Path != "" {
			t.Errorf("a minute later: got %s: %s, path %q", now.Action.Kind, now.Action.Text(), now.Volume.Path)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(w.starts) != 1 || !slices.Equal(w.released, []Release{Drop}) {
			t.Errorf("started %d times, released %v: want once and dropped", len(w.starts), w.released)
		}
	})
}

// A drained node that gives its volume up has nothing to start again, and lets its lock expire.
func TestReleaseEndsADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second)
		w.company(t, nil)
		w.heirLeads(t, 1, 3)
		synctest.Wait()
		if r, err := c.Drain(t.Context(), DrainOptions{}); err != nil || !r.Drained {
			t.Fatalf("got %+v, %v", r, err)
		}
		if _, err := c.GiveUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		asked := len(w.asked)
		time.Sleep(3 * time.Minute)
		for _, q := range w.asked[asked:] {
			if strings.Contains(q, askToRefresh) {
				t.Fatalf("the lock is still refreshed: %s", q)
			}
		}
		if err := c.Undrain(false); err == nil {
			t.Error("undrained a node without a volume")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// An observation made in the middle of a release shows a stopped member on a held volume. It is not started after the
// release.
func TestNothingIsBegunOnWhatAReleaseShows(t *testing.T) {
	w := newWorld(t)
	c := w.holding()
	look(t, c)
	start := plan.Action{Kind: plan.Start}
	release := func() { // the volume is held again afterwards
		t.Helper()
		if _, err := c.holding.order(c.status, held.releasable); err != nil {
			t.Fatal(err)
		}
	}
	over := func() { c.holding.open(); c.holding.ended() }

	alone, since := c.holding.undisturbed()
	release()
	over()
	if c.loop.decide(start, alone, since) {
		t.Error("a release began after the observation, and it is acted on")
	}
	release()
	alone, since = c.holding.undisturbed()
	over()
	if c.loop.decide(start, alone, since) {
		t.Error("a release was under way at the observation, and it is acted on")
	}
	if alone, since = c.holding.undisturbed(); !c.loop.decide(start, alone, since) {
		t.Error("nothing is in the way, and it is not acted on")
	}
}

// While a volume is released, the loop looks again. From then on, nothing is written to its path, where another disk or
// none is mounted by then.
func TestNothingIsWrittenWhereAVolumeWasReleased(t *testing.T) {
	w, _ := serving(t)
	c := w.holding()
	c.status.looked(look(t, c))
	c.history.remember(command(1))
	w.giving = func() {
		c.status.looked(look(t, c))
		c.history.remember(command(2))
		c.history.flush()
		if c.holding.now().begun() {
			t.Error("addresses may be written")
		}
	}
	if err := c.holding.drop(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	c.history.remember(command(3))
	c.history.flush()
	if all := ReadHistory(w.dir).Entries; len(all) != 1 {
		t.Errorf("%d entries were written, want only the one from before: %+v", len(all), all)
	}
}

func TestMemberThatCannotStopKeepsItsVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second)
		hangs := errors.New("it hangs")
		w.failStop(hangs)
		if _, err := c.GiveUp(t.Context()); !errors.Is(err, hangs) {
			t.Errorf("got %v, want %v", err, hangs)
		}
		w.failStop(nil)
		time.Sleep(5 * time.Second)
		if got := c.Now().State(); got != "leader" {
			t.Errorf("state: got %s (%s), want it to go on", got, c.Now().Action.Text())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if !slices.Equal(w.released, []Release{Keep}) {
			t.Errorf("released %v, want only at the end, kept", w.released)
		}
	})
}

func (w *world) failStop(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopErr = err
}

// A machine that must go gives its volume back at once, and claims again when its provider allows it. One that only may
// go does so in its turn, or not at all.
func TestHandBack(t *testing.T) {
	for name, test := range map[string]struct {
		mute, must, paused bool
		refused            string
	}{
		"must, in turn":        {false, true, false, ""},
		"must, no turn":        {true, true, false, ""},
		"must, paused":         {false, true, true, ""},
		"need not, only voter": {false, false, false, "the only voter"},
		"need not, no turn":    {true, false, false, "lock"},
		"need not, and paused": {false, false, true, "me has paused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := w.coordinator("a")
				if _, _, err := c.HandBack(t.Context(), "it goes", test.must); err == nil {
					t.Error("gave back a volume before one was held")
				}
				stop := live(t, c)
				time.Sleep(5 * time.Second) // virtual
				w.mu.Lock()
				w.mute = test.mute
				if test.paused {
					w.member.Paused = &plan.Pause{By: "me", Record: c.Now().Observation.Disk.Ledger.Record.ID}
				}
				w.mu.Unlock()
				id, dropped, err := c.HandBack(t.Context(), "it goes", test.must)
				released := test.refused == ""
				if (err == nil) != released || dropped != released || id.Slot != "a" ||
					err != nil && !strings.Contains(err.Error(), test.refused) {
					t.Errorf("got %+v, %v", id, err)
				}
				time.Sleep(time.Minute)
				starts, drops := 1, 0
				if released {
					starts, drops = 2, 1
				}
				w.mu.Lock()
				if len(w.starts) != starts || len(w.released) != drops {
					t.Errorf("started %d times, released %v: want %d and %d times", len(w.starts), w.released, starts, drops)
				}
				w.mu.Unlock()
				if now := c.Now(); now.Volume.Path == "" {
					t.Errorf("a minute later: got %s: %s, want a volume held", now.Action.Kind, now.Action.Text())
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A slot that a node gives back voluntarily is left to a standby for a while: this node could be quicker, and the
// standby would wait forever. If no node takes it, this node serves it again.
func TestHandBackLeavesTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := replacing(t, nil)
		w.nodes, w.member.Members[1].Connected = nil, true
		c := w.coordinator("a", "b", "c")
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual
		if _, dropped, err := c.HandBack(t.Context(), "it may go", false); err != nil || !dropped {
			t.Fatal(dropped, err)
		}
		time.Sleep(leftTime - time.Second)
		if now := c.Now(); now.Volume.Path != "" || !strings.Contains(now.Action.Text(), "was given back for another node to take") {
			t.Errorf("before its time: held %q, %s: %s", now.Volume.Path, now.Action.Kind, now.Action.Text())
		}
		time.Sleep(leftTime)
		if now := c.Now(); now.Volume.Path == "" {
			t.Errorf("nobody has taken it: %s: %s, want the volume held", now.Action.Kind, now.Action.Text())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A volume that is unmounted but not yet detached looks blank: it is not announced.
func TestVolumeThatLeavesIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		held := true
		w.giving = func() {
			time.Sleep(10 * time.Second) // virtual
			held = c.Now().Observation.Claim.Held
		}
		stop := live(t, c)
		time.Sleep(5 * time.Second)
		if !c.Now().Observation.Claim.Held {
			t.Error("got no volume before it is released")
		}
		if _, err := c.GiveUp(t.Context()); err != nil || held {
			t.Errorf("got %v; while it is released the volume counts as held: %t, want false", err, held)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// An order to drain waits for a short action, and is refused during a longer one.
func TestDrainWaitsForAnAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWorld(t).coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual
		busy := func(is bool) {     // like another order
			c.holding.mu.Lock()
			c.holding.held.gate.closed = is
			c.holding.mu.Unlock()
		}
		busy(true)
		time.AfterFunc(drainPatience/2, func() { busy(false) })
		if _, err := c.Drain(t.Context(), DrainOptions{Dry: true}); err != nil {
			t.Errorf("beside what takes moments: %v", err)
		}
		busy(true)
		began := time.Now()
		r, err := c.Drain(t.Context(), DrainOptions{})
		if err != nil || !strings.HasPrefix(r.Risk, errBusy.Error()) || r.Drained || time.Since(began) != drainPatience {
			t.Errorf("beside what takes longer: %+v, %v after %s", r, err, time.Since(began))
		}
		if _, err := c.Drain(t.Context(), DrainOptions{Force: true}); !errors.Is(err, errBusy) {
			t.Errorf("by force: %v", err)
		}
		busy(false)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
