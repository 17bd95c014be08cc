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
		if now := c.Now(); now.Action.Kind != plan.Wait || !strings.Contains(now.Action.Text(), "released") || now.Path != "" {
			t.Errorf("a minute later: got %s: %s, path %q", now.Action.Kind, now.Action.Text(), now.Path)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(w.starts) != 1 || !slices.Equal(w.released, []Release{Drop}) {
			t.Errorf("started %d times, released %v: want once and dropped", len(w.starts), w.released)
		}
	})
}

// What was observed in the middle of a release shows a stopped member on a held volume. It is not started when the release is over.
func TestNothingIsBegunOnWhatAReleaseShows(t *testing.T) {
	w := newWorld(t)
	c := w.holding()
	look(t, c)
	start := plan.Action{Kind: plan.Start}
	release := func() { // of a volume that is held again
		t.Helper()
		if _, err := c.beginRelease(); err != nil {
			t.Fatal(err)
		}
	}
	over := func() { c.mu.Lock(); c.adopting, c.now.Busy = false, false; c.mu.Unlock() }

	alone, since := c.undisturbed()
	release()
	over()
	if c.decide(start, alone, since) {
		t.Error("a release began after the observation, and it is acted on")
	}
	release()
	alone, since = c.undisturbed()
	over()
	if c.decide(start, alone, since) {
		t.Error("a release was under way at the observation, and it is acted on")
	}
	if alone, since = c.undisturbed(); !c.decide(start, alone, since) {
		t.Error("nothing is in the way, and it is not acted on")
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
