package coordinator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// database is the world's: what a defragmentation leaves of it, and what was done to it.
type database struct {
	reading  bool  // for a backup
	live     int64 // what a defragmentation leaves; 0: it fails
	history  int64 // what a compaction frees
	defrags  int
	unlocked int // defragmentations without the lock
	compacts int
	disarms  int
}

func (w *world) Quiet() bool { w.mu.Lock(); defer w.mu.Unlock(); return !w.db.reading }

func (w *world) Defragment(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.db.defrags++
	if w.member.Lock == nil {
		w.db.unlocked++
	}
	if w.db.live == 0 {
		return errors.New("the disk is full")
	}
	w.member.Space.Size = w.db.live
	w.member.Space.InUse = min(w.member.Space.InUse, w.db.live)
	return nil
}

func (w *world) Compact(_ context.Context, revision int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.db.compacts++
	w.member.Compacted = revision
	w.member.Space.InUse -= w.db.history
	w.db.live, w.db.history = w.member.Space.InUse, 0
	return nil
}

func (w *world) Disarm(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.db.disarms++
	w.member.Alarms = nil
	return nil
}

func (w *world) HandOver(context.Context) error { return nil }

// caring lives a node for an hour, an only member, after it serves and its database was made what it should be.
func caring(t *testing.T, change func(w *world)) (w *world, now Situation) {
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t)
		c := w.coordinator("a")
		c.cfg.Plan.Upkeep = plan.Upkeep{FreePercent: 50, FreeBytes: 100 << 20, FullPercent: 90, Cure: true}
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual
		w.mu.Lock()
		w.member.Revision, w.member.Space = 100, plan.Space{Size: 800 << 20, InUse: 100 << 20, Quota: 1000 << 20}
		change(w)
		w.mu.Unlock()
		time.Sleep(time.Hour)
		now = c.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return w, now
}

func TestDefragmentsOnceUnderTheLock(t *testing.T) {
	w, now := caring(t, func(w *world) { w.db.live = 100 << 20 })
	if w.db.defrags != 1 || w.db.unlocked != 0 || w.locked != nil {
		t.Errorf("defragmented %d times, %d without the lock, which is %q now", w.db.defrags, w.db.unlocked, w.locked)
	}
	if u := now.Upkeep; u.Defrags != 1 || u.Failures != 0 || u.Fragmented || u.Last == nil || u.Last.Before != 800<<20 || u.Last.After != 100<<20 {
		t.Errorf("the account is %+v, last %+v", u, u.Last)
	}
}

func TestDefragmentationThatFailsIsTriedEverMoreSeldom(t *testing.T) {
	for name, live := range map[string]int64{"fails": 0, "gains nothing": 800 << 20} {
		w, now := caring(t, func(w *world) { w.db.live = live })
		if w.db.defrags < 3 || w.db.defrags > 7 || w.locked != nil {
			t.Errorf("%s: defragmented %d times in an hour, lock %q; want a few", name, w.db.defrags, w.locked)
		}
		u := now.Upkeep
		if u.Failures != w.db.defrags || u.Last == nil || u.Last.Error == "" || u.Last.Again == nil {
			t.Errorf("%s: the account is %+v, last %+v", name, u, u.Last)
		}
		if !strings.Contains(now.Action.Why, "the last attempt failed") {
			t.Errorf("%s: it does %s: %s", name, now.Action.Kind, now.Action.Why)
		}
	}
}

func TestDefragmentationLeavesABackupAlone(t *testing.T) {
	w, _ := caring(t, func(w *world) { w.db.live, w.db.reading = 100<<20, true })
	if w.db.defrags != 0 || w.locked != nil {
		t.Errorf("defragmented %d times, lock %q", w.db.defrags, w.locked)
	}
}

func TestNoSpaceIsCured(t *testing.T) {
	w, now := caring(t, func(w *world) {
		w.member.Space.Size, w.member.Space.InUse, w.db.history = 950<<20, 950<<20, 500<<20
		w.member.Alarms = []string{plan.NoSpace}
	})
	if w.db.compacts != 1 || w.db.disarms != 1 || w.db.defrags != 1 {
		t.Errorf("compacted %d, defragmented %d, disarmed %d times; want each once", w.db.compacts, w.db.defrags, w.db.disarms)
	}
	if w.db.unlocked != 1 || now.Upkeep.Cures != 1 {
		t.Errorf("%d without the lock, which nobody could take; the account is %+v", w.db.unlocked, now.Upkeep)
	}
}

func TestNoSpaceStaysWhereAllIsLive(t *testing.T) {
	w, now := caring(t, func(w *world) {
		w.member.Space.Size, w.member.Space.InUse = 950<<20, 950<<20
		w.member.Alarms = []string{plan.NoSpace}
	})
	if w.db.compacts != 1 || w.db.disarms != 0 || w.db.defrags != 1 {
		t.Errorf("compacted %d, defragmented %d, disarmed %d times; want once, once, never", w.db.compacts, w.db.defrags, w.db.disarms)
	}
	if !strings.Contains(now.Action.Why, "full of live data (slots a)") {
		t.Errorf("it does %s: %s", now.Action.Kind, now.Action.Why)
	}
}

// The leader asks every member before it disarms: what the gossip says may be old.
func TestDisarmAsksTheOthers(t *testing.T) {
	w := replacing(t, &plan.Facts{Version: 1, Slot: "b", Running: true, Member: 2, Full: true})
	o := plan.Observation{Member: plan.Member{Leader: true}}
	o.Peers = []plan.Peer{{Node: "n2", Live: true, Facts: &plan.Facts{Member: 2}}}
	c, room := w.coordinator("a"), func(f plan.Facts) bool { return !f.Full }
	if err := c.confirms(t.Context(), o, plan.MemberInfo{ID: 2, Slot: "b"}, room); !errors.Is(err, errNotYet) {
		t.Errorf("a full member: got %v, want %v", err, errNotYet)
	}
	if err := c.confirms(t.Context(), o, plan.MemberInfo{ID: 3, Slot: "c"}, room); !errors.Is(err, errNotYet) {
		t.Errorf("a member that nobody holds: got %v, want %v", err, errNotYet)
	}
	w.answer = []byte(`{"version":1,"slot":"b","running":true,"member":2}`)
	if err := c.confirms(t.Context(), o, plan.MemberInfo{ID: 2, Slot: "b"}, room); err != nil {
		t.Errorf("a member with room: %v", err)
	}
}

func TestGrowth(t *testing.T) {
	var g growth
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3000 { // minutes
		g.add(at.Add(time.Duration(i)*time.Minute), int64(i)*1000)
		if n := g.perDay(); (n != nil) != (i >= 60) || n != nil && *n != 24*60*1000 {
			t.Fatalf("after %d minutes: %v", i, n)
		}
	}
	if len(g.sizes) > 24*6+2 {
		t.Errorf("%d samples are kept", len(g.sizes))
	}
}
