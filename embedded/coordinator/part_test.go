package coordinator

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// company makes the running member the leader of three agreed slots; the other members' nodes report the facts that
// tell sets.
func (w *world) company(t *testing.T, tell func(f *plan.Facts)) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.member.Members = []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b", Connected: true}, {ID: 3, Slot: "c", Connected: true}}
	w.member.Near = []uint64{2, 3}
	l, _, err := readLedger(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	w.member.Set = &plan.SlotSet{Record: l.Record.ID, Serial: 1, Slots: []string{"a", "b", "c"}}
	w.nodes = nil
	for i, slot := range []string{"b", "c"} {
		f := plan.Facts{Version: 1, Slot: slot, Slots: w.member.Set.Slots, Disk: "disk-" + slot, Running: true, Member: uint64(i + 2), Phase: plan.PhaseData, Record: l.Record}
		if tell != nil {
			tell(&f)
		}
		state, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, Node{Name: "n" + string('2'+byte(i)), Live: true, State: state, Stamp: [2]uint64{uint64(time.Now().UnixNano())}})
	}
}

// heirLeads makes b on n2 lead after a hand-over, and say which other members are connected to it. Its facts are of the
// generation that is running here.
func (w *world) heirLeads(t *testing.T, connected ...uint64) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := ReadFacts(w.nodes[0].State)
	if err != nil {
		t.Fatal(err)
	}
	f.Leader, f.CID, f.Members = true, 77, nil
	for i, slot := range []string{"a", "b", "c"} {
		id := uint64(i + 1)
		f.Members = append(f.Members, plan.MemberInfo{ID: id, Slot: slot, Connected: slices.Contains(connected, id)})
	}
	state, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	w.says = map[string][]byte{"n2": state}
	w.heir = func() { w.member.Leader = false }
}

func (w *world) change(f func(m *plan.Member)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.member.Members = slices.Clone(w.member.Members) // others may still read the old slice
	f(&w.member)
}

func (w *world) alarm(name string) {
	w.change(func(m *plan.Member) { m.Alarms = []plan.Alarm{{Name: name}} })
}

// A process that is told to stop waits for its turn, for stop.wait minus the time for a hand-over, and only while
// waiting helps.
func TestStopWaitsForItsTurn(t *testing.T) {
	const at = 3 * time.Second // when something happens
	for _, c := range []struct {
		name  string
		tell  func(f *plan.Facts)
		begin func(w *world)
		then  func(w *world)
		wait  time.Duration // of the configuration
		want  time.Duration // how long the stop takes
		holds string        // purpose of the remaining lock
	}{
		{name: "nothing is in the way", wait: 10 * time.Second, want: 0, holds: "stop"},
		{name: "another one holds the lock", begin: func(w *world) { w.lockBy("b", "n2") }, wait: 10 * time.Second, want: 8 * time.Second},
		{name: "and gives it back", begin: func(w *world) { w.lockBy("b", "n2") }, wait: 10 * time.Second, want: at, holds: "stop",
			then: func(w *world) { w.mu.Lock(); w.lock(nil); w.mu.Unlock() }},
		{name: "its own lock of before", begin: func(w *world) { w.lockBy("a", "n1") }, wait: 10 * time.Second, want: 0, holds: "stop"},
		{name: "one is away and comes back", begin: func(w *world) { w.change(func(m *plan.Member) { m.Members[1].Connected = false }) }, wait: 10 * time.Second, want: at, holds: "stop",
			then: func(w *world) { w.change(func(m *plan.Member) { m.Members[1].Connected = true }) }},
		{name: "the quorum is lost meanwhile", begin: func(w *world) { w.lockBy("b", "n2") }, wait: 10 * time.Second, want: at,
			then: func(w *world) { w.change(func(m *plan.Member) { m.Near = nil }) }},
		{name: "NOSPACE: nobody can take the lock", begin: func(w *world) { w.alarm(plan.NoSpace) },
			wait: 10 * time.Second, want: 0},
		{name: "NOSPACE, and another one is told to stop", tell: func(f *plan.Facts) { f.Stopping = f.Slot == "b" },
			begin: func(w *world) { w.alarm(plan.NoSpace) }, wait: 10 * time.Second, want: 0},
		{name: "NOSPACE, and another one goes first", tell: func(f *plan.Facts) {
			if f.Slot == "b" {
				f.Slot, f.Stopping = "A", true
			}
		}, begin: func(w *world) { w.alarm(plan.NoSpace) }, wait: 10 * time.Second, want: 8 * time.Second},
		{name: "CORRUPT: the same", begin: func(w *world) { w.alarm(plan.Corrupt) },
			wait: 10 * time.Second, want: 0},
		{name: "NOSPACE, and one is away and comes back", begin: func(w *world) {
			w.alarm(plan.NoSpace)
			w.change(func(m *plan.Member) { m.Members[1].Connected = false })
		}, wait: 10 * time.Second, want: at, then: func(w *world) {
			w.change(func(m *plan.Member) { m.Members[1].Connected = true })
		}},
		{name: "all are told to end", tell: func(f *plan.Facts) { f.Stopping = true }, begin: func(w *world) { w.lockBy("b", "n2") }, wait: 10 * time.Second, want: 0},
		{name: "no time to wait", begin: func(w *world) { w.lockBy("b", "n2") }, want: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				co := w.coordinator("a")
				co.cfg.StopWait = c.wait
				stop := live(t, co)
				time.Sleep(5 * time.Second) // virtual
				w.company(t, c.tell)
				if c.begin != nil {
					c.begin(w)
				}
				if c.then != nil {
					time.AfterFunc(at, func() { c.then(w) })
				}
				begin := time.Now()
				if err := stop(); err != nil {
					t.Error(err)
				}
				if now := co.Now(); !now.Observation.Stopping || now.Action.Text() != stoppingWhy {
					t.Errorf("stopping: %t, it says: %s", now.Observation.Stopping, now.Action.Text())
				}
				if took := time.Since(begin); took < c.want || took > c.want+time.Second {
					t.Errorf("took %s, want %s", took, c.want)
				}
				var l plan.Lock
				if w.locked != nil && json.Unmarshal(w.locked, &l) != nil || c.holds != "" && (l.Node != "n1" || l.Purpose != c.holds) || c.holds == "" && l.Node == "n1" {
					t.Errorf("the lock is %s", w.locked)
				}
				time.Sleep(10 * time.Second)
			})
		})
	}
}

// While all members are being stopped, etcd no longer answers. Once that is known, nothing is waited for, and nobody is
// left to hand over to.
func TestStopHurriesWithTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := live(t, w.coordinator("a"))
		time.Sleep(5 * time.Second)
		w.company(t, nil)
		w.mu.Lock()
		w.mute = true
		w.mu.Unlock()
		time.AfterFunc(250*time.Millisecond, func() { w.company(t, func(f *plan.Facts) { f.Stopping = true }) })
		begin := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took, most := time.Since(begin), 250*time.Millisecond+2*lookToPart; took > most {
			t.Errorf("took %s, want at most %s", took, most)
		}
		if len(w.handed) != 1 || w.handed[0] != 0 {
			t.Errorf("time to hand over: got %v, want none", w.handed)
		}
		time.Sleep(10 * time.Second)
	})
}

// stop.wait counts from when the process is told to stop, also while an action ends.
func TestActionTakesOfTheStopsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := replacing(t, &plan.Facts{Version: 1, Slot: "b", Disk: "disk-b2", Phase: plan.PhaseData})
		w.change(func(m *plan.Member) { m.Near = []uint64{3} }) // b is away, so the stop waits
		var once sync.Once
		w.asking = func() { once.Do(func() { time.Sleep(6 * time.Second) }) } // virtual
		c := w.coordinator("a", "b", "c")
		stop := live(t, c)
		time.Sleep(time.Second)
		if now := c.Now(); !now.Busy || now.Action.Kind != plan.Replace {
			t.Fatalf("it does %s, want a replacement", now.Action.Text())
		}
		begin, most := time.Now(), c.cfg.StopWait
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < 5*time.Second || took > most {
			t.Errorf("the stop took %s, want at most %s", took, most)
		}
	})
}

// If the volume is lost while the process waits for its turn, the process ends at once.
func TestVolumeLostWhileWaitingToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := live(t, w.coordinator("a"))
		time.Sleep(5 * time.Second)
		w.company(t, nil)
		w.lockBy("b", "n2")
		time.AfterFunc(time.Second, func() { w.lost <- errors.New("pulled") })
		begin := time.Now()
		if err := stop(); !errors.Is(err, ErrVolumeLost) || time.Since(begin) > 1100*time.Millisecond {
			t.Errorf("got %v after %s", err, time.Since(begin))
		}
		if !w.killed {
			t.Error("etcd was not killed")
		}
		time.Sleep(20 * time.Second)
	})
}

// A drained node keeps its volume and its lock, and starts again on an order; then the lock is returned.
func TestDrainAndUndrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		if _, err := c.Drain(t.Context(), DrainOptions{}); err == nil {
			t.Error("drained before there was anything to drain")
		}
		stop := live(t, c)
		// The node is busy during an action, and a drain reports that; this test is not about that.
		drain := func(opt DrainOptions) (DrainReport, error) {
			synctest.Wait()
			return c.Drain(t.Context(), opt)
		}
		time.Sleep(5 * time.Second)
		if r, err := drain(DrainOptions{}); err != nil || r.Drained || !strings.Contains(r.Risk, "only voter") || w.holder() != nil {
			t.Errorf("the only voter: got %+v, %v; lock %v", r, err, w.holder())
		}
		w.company(t, nil)
		w.lockBy("b", "n2")
		if r, err := drain(DrainOptions{}); err != nil || r.Drained || !strings.HasPrefix(r.Risk, "n2 (slot b) holds") {
			t.Errorf("another's lock: got %+v, %v", r, err)
		}
		w.mu.Lock()
		w.lock(nil)
		w.mu.Unlock()
		if r, err := drain(DrainOptions{Dry: true}); err != nil || r.Drained || r.Risk != "" || w.holder() != nil {
			t.Errorf("dry run: got %+v, %v; lock %v", r, err, w.holder())
		}
		const away = "slot c on n3 is not connected"
		w.set(func() { w.silent = []uint64{3} })
		if r, err := drain(DrainOptions{}); err != nil || r.Drained || !strings.HasPrefix(r.Risk, away) {
			t.Errorf("one that no longer answers: got %+v, %v", r, err)
		}
		w.set(func() { w.silent = nil })
		if r, err := drain(DrainOptions{}); err != nil || r.Drained || !strings.Contains(r.Risk, "still leads") {
			t.Errorf("no hand-over: got %+v, %v", r, err)
		}
		w.heirLeads(t, 1)
		if r, err := drain(DrainOptions{}); err != nil || r.Drained || !strings.HasPrefix(r.Risk, away) {
			t.Errorf("the heir does not hear it: got %+v, %v", r, err)
		}
		w.heirLeads(t, 1, 3)
		starts := len(w.starts)
		if r, err := drain(DrainOptions{}); err != nil || !r.Drained || r.Risk != "" {
			t.Fatalf("got %+v, %v", r, err)
		}
		time.Sleep(3 * time.Minute)
		if now := c.Now(); now.State() != "drained" || len(w.starts) != starts || len(w.released) != 0 {
			t.Errorf("3 minutes later: %s, started %d times, released %v", now.State(), len(w.starts)-starts, w.released)
		}
		refreshed := 0
		for _, q := range w.asked {
			if strings.HasPrefix(q, "n2 "+askToRefresh+string(w.locked)) {
				refreshed++
			}
		}
		if refreshed < 10 {
			t.Errorf("the lock was refreshed %d times", refreshed)
		}
		if _, err := drain(DrainOptions{}); err == nil {
			t.Error("drained twice")
		}
		if err := c.SetVolumeAside(t.Context()); err == nil || !strings.Contains(err.Error(), "is drained") {
			t.Errorf("to set aside data with which nothing is wrong: got %v", err)
		}
		if err := c.Undrain(false); err != nil {
			t.Error(err)
		}
		if err := c.Undrain(false); err == nil {
			t.Error("undrained twice")
		}
		time.Sleep(5 * time.Second)
		if now := c.Now(); now.State() != "leader" || w.holder() != nil {
			t.Errorf("undrained: %s (%s), lock %v", now.State(), now.Action.Text(), w.holder())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// During a drain, such as one whose command was interrupted, undrain does not say that the node is not drained: it
// would be soon after.
func TestUndrainDuringADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual
		w.company(t, nil)
		w.heirLeads(t, 1, 3)
		heir, during := w.heir, error(nil)
		w.set(func() { w.heir = func() { heir(); during = c.Undrain(false) } })
		synctest.Wait()
		if r, err := c.Drain(t.Context(), DrainOptions{}); err != nil || !r.Drained || !errors.Is(during, errBusy) {
			t.Errorf("drain: got %+v, %v; undrain meanwhile: %v, want %v", r, err, during, errBusy)
		}
		if err := errors.Join(c.Undrain(true), c.Undrain(false), stop()); err != nil {
			t.Error(err)
		}
	})
}

// While an operator's order is carried out, the status and the log name no step for what is half done.
func TestStatusDuringAnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		var decided []string
		c.world.Decided = func(a plan.Action) { w.note(&decided, string(a.Kind)+": "+a.Text()) }
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual
		w.company(t, nil)
		w.heirLeads(t, 1, 3)
		time.Sleep(5 * time.Second)
		pause := func() { w.mu.Unlock(); time.Sleep(5 * time.Second); w.mu.Lock() }
		heir := w.heir
		w.set(func() { w.heir, w.stopped = func() { heir(); pause() }, pause })
		synctest.Wait()
		w.set(func() { decided = nil })
		if r, err := c.Drain(t.Context(), DrainOptions{}); err != nil || !r.Drained {
			t.Errorf("drain: got %+v, %v", r, err)
		}
		time.Sleep(time.Second)
		w.set(func() {
			if len(decided) != 1 || !strings.Contains(decided[0], "is drained by an operator") {
				t.Errorf("decided %q", decided)
			}
		})
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// While the volume is released, the member has stopped, and the node does not look like a leader any more.
func TestStateAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual
		last := ""
		w.giving = func() { last = c.Now().State() }
		if err := stop(); err != nil || last != "waiting" {
			t.Errorf("state %q, %v", last, err)
		}
	})
}

// If the others do not serve without the drained member, it comes back by itself, unless the operator insisted.
func TestDrainThatCostsTheQuorum(t *testing.T) {
	for _, force := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c := w.coordinator("a")
			stop := live(t, c)
			time.Sleep(5 * time.Second)
			w.company(t, nil)
			w.heirLeads(t, 1, 3)
			w.stopped = func() { w.says = nil }
			synctest.Wait()
			begin := time.Now()
			r, err := c.Drain(t.Context(), DrainOptions{Force: force})
			took, then := time.Since(begin), c.Now().State()
			time.Sleep(5 * time.Second)
			now := c.Now()
			if force && then != "drained" {
				t.Errorf("right after the drain: %s", then)
			}
			if force && (err != nil || !r.Drained || now.State() != "drained") ||
				!force && (err == nil || r.Drained || took > drainProof || now.State() != "leader" || w.holder() != nil) {
				t.Errorf("force %t: got %+v, %v after %s; then %s, lock %v", force, r, err, took, now.State(), w.holder())
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Another process has the name of the leading node, and the gossip takes it for the node. The leader's report on
// connected members is still obtained, and accepted from no other node.
func TestDrainWhileTheLeaderIsHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second)
		w.company(t, nil)
		words := map[string][]byte{}
		tell := func(process string, state []byte, leads bool) {
			f, err := ReadFacts(state)
			if err != nil {
				t.Fatal(err)
			}
			f.Leader, f.CID = leads, c.Now().Observation.Disk.ClusterID
			f.Members = []plan.MemberInfo{{ID: 1, Slot: "a", Connected: true}, {ID: 2, Slot: "b"}, {ID: 3, Slot: "c", Connected: true}}
			if words[process], err = json.Marshal(f); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadFacts(words[process]); err != nil {
				t.Fatal(err)
			}
		}
		tell("n2#1", w.nodes[0].State, true)
		tell("n3", w.nodes[1].State, false)
		w.set(func() {
			w.nodes = slices.Clone(w.nodes) // the loop may be reading the list
			w.nodes[0].State = nil          // the impostor has published nothing
			w.member.Leader = false
			w.asking = func() {
				node, _, _ := strings.Cut(w.asked[len(w.asked)-1], " ")
				w.answer = words[node]
			}
		})
		for _, hidden := range [][]string{nil, {"n2#1"}} {
			w.set(func() { w.twins = hidden })
			synctest.Wait()
			r, err := c.Drain(t.Context(), DrainOptions{Dry: true})
			if err != nil || (r.Risk == "") != (hidden != nil) {
				t.Errorf("%v: got %+v, %v", hidden, r, err)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A member refreshes the lock of a drained one.
func TestAnswerToRefresh(t *testing.T) {
	w := newWorld(t)
	c := w.coordinator("a")
	w.lockBy("b", "n2")
	if _, ok, err := c.Answer(t.Context(), append([]byte(askToRefresh), w.locked...)); !ok || err != nil {
		t.Errorf("got %t, %v", ok, err)
	}
	if _, ok, err := c.Answer(t.Context(), []byte(askToRefresh+"another")); !ok || !errors.Is(err, plan.ErrConflict) {
		t.Errorf("a lock that is gone: got %t, %v", ok, err)
	}
	if _, ok, _ := c.Answer(t.Context(), []byte("what?")); ok {
		t.Error("answered a question of somebody else")
	}
}
