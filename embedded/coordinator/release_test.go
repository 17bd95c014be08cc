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
