package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// database is the world's database: the effect of a defragmentation, and what was done.
type database struct {
	reading  bool  // for a backup
	live     int64 // what a defragmentation leaves; 0: it fails
	history  int64 // what a compaction frees
	defrags  int
	unlocked int // defragmentations without the lock
	compacts int
	disarms  int
	raises   int
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

func (w *world) Raise(context.Context, string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.db.raises++
	w.member.Alarms = []plan.Alarm{{Name: plan.NoSpace}}
	return nil
}

func (w *world) Disarm(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.db.disarms++
	w.member.Alarms = nil
	return nil
}

func (w *world) TransferLeadership(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heir != nil {
		w.heir()
	}
	return w.heirless
}

// caring runs a node for an hour, as the only member, after it serves and change has set up its database.
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

// A database that is rewritten all the time becomes half free again and again.
func TestDefragmentsOnceAnHour(t *testing.T) {
	w, now := caring(t, func(w *world) {
		w.db.live = 100 << 20
		go func() {
			for range 11 {
				time.Sleep(5 * time.Minute)
				w.mu.Lock()
				w.member.Space.Size = 800 << 20
				w.mu.Unlock()
			}
		}()
	})
	if w.db.defrags > 2 || now.Upkeep.Failures != 0 { // at the beginning, and perhaps after the hour
		t.Errorf("defragmented %d times in an hour, failed %d", w.db.defrags, now.Upkeep.Failures)
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
		if !strings.Contains(now.Action.Text(), "the last attempt failed") {
			t.Errorf("%s: it does %s: %s", name, now.Action.Kind, now.Action.Text())
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
		w.member.Alarms = []plan.Alarm{{Name: plan.NoSpace}}
	})
	if w.db.compacts != 1 || w.db.disarms != 1 || w.db.defrags != 1 {
		t.Errorf("compacted %d, defragmented %d, disarmed %d times; want each once", w.db.compacts, w.db.defrags, w.db.disarms)
	}
	if w.db.unlocked != 1 || now.Upkeep.Cures != 1 {
		t.Errorf("%d without the lock, which nobody could take; the account is %+v", w.db.unlocked, now.Upkeep)
	}
}

// Without its reserve, the member makes etcd refuse writes; the alarm is disarmed when there is enough room.
func TestReserve(t *testing.T) {
	w, now := caring(t, func(w *world) { w.room, w.member.Space.InUse = plan.Room{Free: 100 << 20, Size: 4 << 30}, 700<<20 })
	if w.db.raises != 1 || w.db.disarms != 0 {
		t.Errorf("raised %d, disarmed %d times; want once and never", w.db.raises, w.db.disarms)
	}
	if !now.Observation.Claim.Short || now.Rooms.Volume != w.room || !strings.Contains(now.Action.Text(), "nearly full") {
		t.Errorf("rooms %+v, short: %t: %s", now.Rooms, now.Observation.Claim.Short, now.Action.Text())
	}
	w, now = caring(t, func(w *world) {
		w.room, w.member.Alarms, w.member.Space.InUse = plan.Room{Free: 200 << 20, Size: 4 << 30}, []plan.Alarm{{Name: plan.NoSpace}}, 700<<20
	})
	if w.db.raises != 0 || w.db.disarms != 1 || now.Upkeep.Cures != 1 {
		t.Errorf("raised %d, disarmed %d times; want never and once", w.db.raises, w.db.disarms)
	}
}

func TestNoSpaceStaysWhereAllIsLive(t *testing.T) {
	w, now := caring(t, func(w *world) {
		w.member.Space.Size, w.member.Space.InUse = 950<<20, 950<<20
		w.member.Alarms = []plan.Alarm{{Name: plan.NoSpace}}
	})
	if w.db.compacts != 1 || w.db.disarms != 0 || w.db.defrags != 1 {
		t.Errorf("compacted %d, defragmented %d, disarmed %d times; want once, once, never", w.db.compacts, w.db.defrags, w.db.disarms)
	}
	if !strings.Contains(now.Action.Text(), "full of live data (slots a)") {
		t.Errorf("it does %s: %s", now.Action.Kind, now.Action.Text())
	}
}

// Deletions that continue for a while are compacted and defragmented again and again; soon after they end, the alarm is
// disarmed.
func TestNoSpaceIsCuredSoonAfterDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		c.cfg.Plan.Upkeep = plan.Upkeep{FullPercent: 60, Cure: true}
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual, like all that follow
		change := func(f func()) { w.mu.Lock(); defer w.mu.Unlock(); f() }
		change(func() {
			w.member.Revision, w.member.Space = 100, plan.Space{Size: 950 << 20, InUse: 950 << 20, Quota: 1000 << 20}
			w.member.Alarms = []plan.Alarm{{Name: plan.NoSpace}}
		})
		time.Sleep(time.Minute)
		for range 40 { // 950 to 630 MiB
			change(func() { w.member.Revision++; w.db.history += 8 << 20 })
			time.Sleep(700 * time.Millisecond)
		}
		change(func() { w.member.Revision++; w.db.history += 100 << 20 })
		disarmed := func() (n int) { change(func() { n = w.db.disarms }); return n }
		if disarmed() != 0 {
			t.Fatal("disarmed before there was room")
		}
		begin := time.Now()
		for disarmed() == 0 && time.Since(begin) < time.Hour {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("disarmed %s after the last deletion, want 5 s at most", took)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := w.db.compacts; n < 10 || n > 18 || w.db.defrags > 10 {
			t.Errorf("compacted %d and defragmented %d times for deletions of 28 s", n, w.db.defrags)
		}
	})
}

// spaceless is a world of three members under NOSPACE, seen by slot a; answer is what the others answer.
func spaceless(t *testing.T, leads bool, answer plan.Facts) *world {
	answer.Version, answer.Slot, answer.Phase, answer.Running = 1, "c", plan.PhaseData, true
	answer.Member, answer.Disk = 3, "disk-c"
	w := replacing(t, &answer)
	r := record("a", "b", "c")
	w.member.Leader, w.member.Alarms, w.member.Members[1].Connected = leads, []plan.Alarm{{Name: plan.NoSpace}}, true
	w.nodes = nil
	for i, slot := range []string{"b", "c"} {
		f := plan.Facts{Version: 1, Slot: slot, Disk: "disk-" + slot, Phase: plan.PhaseData, Record: &r, Store: "store",
			Running: true, Member: uint64(i + 2), Full: true}
		state, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, Node{Name: "n" + f.Slot, Live: true, State: state, Stamp: [2]uint64{1, 1}})
	}
	return w
}

// The leader's permission needs no time, only that every other member says right now that it will not defragment.
func TestPermitAsksTheOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		answer  plan.Facts
		silent  bool
		itself  bool
		refusal string
	}{
		"nobody else":         {},
		"another asks":        {answer: plan.Facts{Defragging: true}, refusal: "slot c has not said"},
		"one says nothing":    {silent: true, refusal: "slot c has not said"},
		"the leader is at it": {itself: true, refusal: "the leader itself"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := spaceless(t, true, tc.answer)
				if tc.silent {
					w.answer = nil
				}
				c := w.coordinator("a", "b", "c")
				c.cfg.Plan.Upkeep.Cure = true
				stop := live(t, c)
				time.Sleep(3 * time.Second)
				c.upkeep.asking.Store(tc.itself)
				got := c.turn.permit(t.Context(), "b")
				if (got == "") != (tc.refusal == "") || !strings.Contains(got, tc.refusal) {
					t.Errorf("the answer is %q, want %q", got, tc.refusal)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A member says that it defragments, from before it asks for permission until it is done: otherwise two could have it.
func TestDefragmentationIsSaidBeforeItIsAsked(t *testing.T) {
	for name, refused := range map[string]bool{"granted": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := spaceless(t, false, plan.Facts{})
				c := w.coordinator("a", "b", "c")
				stop := live(t, c)
				time.Sleep(3 * time.Second)
				says := func() bool {
					data, _, err := c.Answer(t.Context(), []byte(askForFacts))
					f, err2 := ReadFacts(data)
					if err != nil || err2 != nil {
						t.Fatal(err, err2)
					}
					return f.Defragging
				}
				if says() {
					t.Error("it says so before")
				}
				w.asking, w.answer = func() {
					if !says() {
						t.Error("it asks without having said so")
					}
				}, []byte(`""`)
				if refused {
					w.answer = []byte(`"no"`)
				}
				o, _ := c.observer.observe()
				release, err := c.turn.mayDefragment(t.Context(), o)
				if (err != nil) != refused || says() == refused {
					t.Errorf("got %v, and it says %t", err, says())
				}
				if release != nil {
					release()
				}
				if says() {
					t.Error("it says so still")
				}
				w.asking = nil
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A leader that cannot hand over at the moment has not failed to defragment: it tries again soon.
func TestDefragmentationWaitsForAnHeir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spaceless(t, true, plan.Facts{})
		w.heirless = plan.ErrUnhealthy
		w.told = func(node string) ([]byte, error) {
			return w.nodes[slices.IndexFunc(w.nodes, func(n Node) bool { return n.Name == node })].State, nil
		}
		tried := 0
		w.heir = func() { tried++ }
		c := w.coordinator("a", "b", "c")
		c.cfg.Plan.Upkeep.Cure = true
		stop := live(t, c)
		time.Sleep(3 * time.Second)
		o, _ := c.observer.observe()
		if err := c.turn.defragment(t.Context(), o); !errors.Is(err, errNotYet) {
			t.Errorf("got %v, want %v", err, errNotYet)
		}
		if got := c.upkeep.status(); got.Failures != 0 || got.Last != nil || w.db.defrags != 0 {
			t.Errorf("%d failures are told, the last is %+v, after %d defragmentations", got.Failures, got.Last, w.db.defrags)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if tried == 0 {
			t.Error("it did not try to hand over")
		}
	})
}

// The leader asks every member before it disarms, because the gossip may be out of date.
func TestDisarmAsksTheOthers(t *testing.T) {
	o := plan.Observation{Member: plan.Member{Status: plan.Status{Leader: true}}}
	o.Peers = []plan.Peer{{Node: "n2", Live: true, Facts: &plan.Facts{Member: 2}}}
	for name, tc := range map[string]struct {
		says plan.Facts
		want error
	}{
		"a full member":         {plan.Facts{Member: 2, Full: true}, errNotYet},
		"a member without room": {plan.Facts{Member: 2, Short: true}, errNotYet},
		"a member with room":    {plan.Facts{Member: 2}, nil},
		"another member there":  {plan.Facts{Member: 3}, errNotYet},
	} {
		tc.says.Version, tc.says.Slot, tc.says.Disk, tc.says.Phase, tc.says.Running = 1, "b", "disk-b", plan.PhaseData, true
		w := replacing(t, &tc.says)
		if err := w.coordinator("a").turn.peers.confirms(t.Context(), o, plan.MemberInfo{ID: 2, Slot: "b"}, roomy); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	if err := replacing(t, nil).coordinator("a").turn.peers.confirms(t.Context(), o, plan.MemberInfo{ID: 3, Slot: "c"}, roomy); !errors.Is(err, errNotYet) {
		t.Errorf("a member that nobody holds: got %v, want %v", err, errNotYet)
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
