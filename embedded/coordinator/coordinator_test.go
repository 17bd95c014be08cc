package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// live runs the coordinator until the test ends it, in virtual time.
func live(t *testing.T, c *Coordinator) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return func() error { cancel(); return <-done }
}

// If etcd ends by itself during an action, that is cancelled, and the process ends: a restart is the cure.
func TestEtcdThatEndsDuringAnAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.claiming = true
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- w.coordinator("a").Run(ctx) }()
		time.Sleep(5 * time.Second) // virtual
		why := errors.New("a listener ended")
		w.set(func() { w.ended = why })
		select {
		case err := <-done:
			if !errors.Is(err, why) {
				t.Errorf("got %v, want %v", err, why)
			}
		case <-time.After(time.Minute):
			t.Error("the process has not ended")
		}
	})
}

func TestOneNodeFoundsAndKeepsItsVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual
		if got := c.Now().State(); got != "leader" {
			t.Errorf("state: got %s (%s)", got, c.Now().Action.Text())
		}
		l, _, err := readLedger(w.dir)
		if err != nil || l.Record == nil || l.Started != "disk-a" || l.Etcd != "3.7.3" {
			t.Errorf("ledger: got %+v, %v", l, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(w.released) != 1 || w.released[0] != Keep {
			t.Errorf("released: got %v, want once, kept", w.released)
		}
		if w.borne != l.Record.Token() {
			t.Errorf("the volume bears %q, want %q", w.borne, l.Record.Token())
		}
	})
}

func TestStoreThatHangsHoldsUpFoundingAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		answer := make(chan struct{})
		w.store = func(context.Context) (string, error) { <-answer; return "store", nil } // ignores its context, like a dead NFS
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(time.Minute)
		if got := c.Now(); got.State() != "founding" || !strings.Contains(got.Action.Text(), "no answer within") {
			t.Errorf("got %s: %s", got.State(), got.Action.Text())
		}
		if age := time.Since(c.Now().Looked); age > 2*time.Second {
			t.Errorf("the world was last looked at %s ago", age)
		}
		if err := stop(); err != nil { // does not wait for the store either
			t.Error(err)
		}
		close(answer)
	})
}

func TestLostVolumeKillsEtcdEvenWhileAnActionHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hang = make(chan struct{})
		c := w.coordinator("a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(3 * time.Second) // Start hangs now
		w.lost <- errors.New("the directory is gone")
		if err := <-done; !errors.Is(err, ErrVolumeLost) {
			t.Errorf("got %v, want ErrVolumeLost", err)
		}
		if !w.killed || len(w.released) != 0 {
			t.Errorf("killed %v, released %v: want etcd killed and the volume not touched", w.killed, w.released)
		}
		if want := []string{"the volume was lost: the directory is gone, etcd killed: false"}; !slices.Equal(w.ending, want) {
			t.Errorf("told %q, want %q: before etcd is killed, which may end the process", w.ending, want)
		}
		close(w.hang)
		synctest.Wait() // the action that hung writes into the test's directory
	})
}

func TestFailedActionIsShownAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.startErr = errors.New("address in use")
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(20 * time.Second)
		if now := c.Now(); !strings.Contains(now.Err, "address in use") || now.Action.Kind != plan.Start {
			t.Errorf("got %s, error %q", now.Action.Kind, now.Err)
		}
		if n := len(w.starts); n < 4 || n > 8 {
			t.Errorf("started %d times in 20 s, want a few", n)
		}
		w.mu.Lock()
		w.startErr = nil
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		if now := c.Now(); now.Err != "" || now.State() != "leader" {
			t.Errorf("after the cause was gone: got %s, error %q", now.State(), now.Err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A node that finds every volume held stands by. A node whose disk fails does not: it keeps claiming, and says why it
// fails.
func TestStandsByOnlyWhereNoVolumeIsFree(t *testing.T) {
	for want, err := range map[string]error{
		"standby":  fmt.Errorf("%w: held by n2", ErrNoVolume),
		"claiming": errors.New("read-only file system"),
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.unclaimed = err
			c := w.coordinator("a")
			stop := live(t, c)
			time.Sleep(10 * time.Second)
			now := c.Now()
			if got := now.State(); got != want || (now.Err != "") != (want == "claiming") ||
				!strings.Contains(now.Action.Why, err.Error()) {
				t.Errorf("%v: got %s with error %q, want %s", err, got, now.Err, want)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A blank disk waits to be admitted until it has room for a copy of the leader's database.
func TestBlankDiskTakesTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := record("a", "b")
		state, err := json.Marshal(plan.Facts{Version: 1, Slot: "b", Disk: "disk-b", Epoch: 1, Phase: plan.PhaseData,
			Record: &r, Member: 2, CID: 77, Running: true, Confirmed: true, Leader: true, Term: 2,
			Members: []plan.MemberInfo{{ID: 2, Slot: "b"}}})
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = []Node{{Name: "n2", Live: true, State: state, Stamp: [2]uint64{1, 1}}}
		w.room, w.database = plan.Room{Free: 2 << 30, Size: 2 << 30}, 2<<30
		c := w.coordinator("a", "b")
		stop := live(t, c)
		time.Sleep(5 * time.Second)
		now := c.Now()
		if said := strings.Join(now.Action.Obstacles, " "); now.Observation.Disk.Ledger.Record != nil ||
			!strings.Contains(said, "has less than 2368 MiB free") || !strings.Contains(said, "database (2048 MiB)") {
			t.Errorf("without room: %s: %s; %q", now.Action.Kind, now.Action.Text(), said)
		}
		w.set(func() { w.room = plan.Room{Free: 4 << 30, Size: 4 << 30} })
		time.Sleep(10 * time.Second)
		if now := c.Now(); now.Observation.Disk.Ledger.Record == nil {
			t.Errorf("with room: %s: %s", now.Action.Kind, now.Action.Text())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A joiner was killed before the leader sent it anything, and was then removed, so it never gets an entry. It must not
// wait for one, or it never learns that it was removed.
func TestJoinerIsBornWithoutAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := record("a", "b", "c")
		l := ledgerV1{Version: 1, Etcd: "3.7.3", Ledger: plan.Ledger{Record: &r, Role: plan.RoleJoiner, Join: 1}}
		if err := l.write(w.dir); err != nil {
			t.Fatal(err)
		}
		w.data = plan.DataDir{WAL: true, Unborn: true, Member: 1, ClusterID: 77}
		stop := live(t, w.coordinator("a", "b", "c"))
		time.Sleep(5 * time.Second)
		if l, _, err := readLedger(w.dir); err != nil || l.Started != "disk-a" || len(w.starts) != 1 {
			t.Errorf("ledger: got %+v, %v after %d starts; want it to say that the member has started", l, err, len(w.starts))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A founder that is killed before its log has an entry begins again, and etcd's files are not kept: they would fill the
// volume. If the disk has started, they are kept, with the database beside them.
func TestEmptyLogIsNotKept(t *testing.T) {
	for name, tc := range map[string]struct {
		started string
		unborn  bool
		want    []string
	}{
		"an empty log":                 {"", true, nil},
		"an empty log that has begun":  {"disk-a", true, []string{"unborn"}},
		"files where the log would be": {"", false, []string{"unborn"}},
	} {
		w := newWorld(t)
		r := record("a", "b", "c")
		l := ledgerV1{Version: 1, Etcd: "3.7.3", Ledger: plan.Ledger{Record: &r, Role: plan.RoleFounder, Started: tc.started}}
		dir := filepath.Join(w.dir, EtcdDir)
		if err := errors.Join(l.write(w.dir), os.MkdirAll(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
		w.data = plan.DataDir{WAL: tc.unborn, Unborn: tc.unborn, Member: 1, ClusterID: 77}
		if err := w.holding().loop.actor.makeRoom(dir, plan.Action{Kind: plan.Start, Record: &r}); err != nil {
			t.Fatal(err)
		}
		var kept []string
		for _, reason := range reclaimable {
			if _, err := os.Stat(dir + "-" + reason); err == nil {
				kept = append(kept, reason)
			}
		}
		if !slices.Equal(kept, tc.want) {
			t.Errorf("%s: kept as %q, want %q", name, kept, tc.want)
		}
	}
}

// replacing makes a leader that sees slot b vacant on n2, which answers the direct question with answer.
func replacing(t *testing.T, answer *plan.Facts) *world {
	w := newWorld(t)
	r := record("a", "b", "c")
	l := ledgerV1{Version: 1, Etcd: "3.7.3", Ledger: plan.Ledger{Record: &r, Role: plan.RoleFounder, Started: "disk-a"}}
	if err := l.write(w.dir); err != nil {
		t.Fatal(err)
	}
	w.data = plan.DataDir{WAL: true, Member: 1, ClusterID: 77}
	w.member = plan.Member{Running: true, Ready: true, Status: plan.Status{HasLead: true, Confirmed: true, Leader: true}, ID: 1,
		Members: []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}, {ID: 3, Slot: "c", Connected: true}}}
	gossiped, err := json.Marshal(plan.Facts{Version: 1, Slot: "b", Disk: "disk-b2", Phase: plan.PhaseVacant, Record: &r, Store: "store"})
	if err != nil {
		t.Fatal(err)
	}
	w.nodes = []Node{{Name: "n2", Live: true, State: gossiped, Stamp: [2]uint64{1, 1}}}
	if answer != nil {
		answer.Record = &r
		if w.answer, err = json.Marshal(answer); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func TestReplaceBelievesTheDirectAnswerOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		answer *plan.Facts
		want   bool
	}{
		"vacant":      {&plan.Facts{Version: 1, Slot: "b", Disk: "disk-b2", Phase: plan.PhaseVacant}, true},
		"has data":    {&plan.Facts{Version: 1, Slot: "b", Disk: "disk-b2", Phase: plan.PhaseData}, false},
		"other disk":  {&plan.Facts{Version: 1, Slot: "b", Disk: "disk-b3", Phase: plan.PhaseVacant}, false},
		"other slot":  {&plan.Facts{Version: 1, Slot: "c", Disk: "disk-b2", Phase: plan.PhaseVacant}, false},
		"runs":        {&plan.Facts{Version: 1, Slot: "b", Disk: "disk-b2", Phase: plan.PhaseVacant, Running: true}, false},
		"answers not": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := replacing(t, tc.answer)
				c := w.coordinator("a", "b", "c")
				stop := live(t, c)
				time.Sleep(3 * time.Second)
				if err := stop(); err != nil {
					t.Error(err)
				}
				if got := len(w.removed) > 0; got != tc.want {
					t.Errorf("removed %v, added %v; want removal %v (failures %q)", w.removed, w.added, tc.want, w.failed)
				}
				if tc.want && (w.removed[0] != 2 || w.added[0] != "http://b.test:2380") {
					t.Errorf("removed %v, added %v", w.removed, w.added)
				}
			})
		})
	}
}

// If a node claims another's lock, the gossip's word about the other does not count, but it keeps its seat: the leader
// asks it.
func TestReplaceAsksWhoIsSaidToBeGone(t *testing.T) {
	for name, lives := range map[string]bool{"it lives": true, "it is gone": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := replacing(t, nil)
				r := record("a", "b", "c")
				say := func(f plan.Facts) []byte {
					f.Version, f.Slot, f.Disk, f.Record, f.Lock, f.Store = 1, "b", "disk-b", &r, "boot/1/2", "store"
					said, err := json.Marshal(f)
					if err != nil {
						t.Fatal(err)
					}
					return said
				}
				victim := say(plan.Facts{Phase: plan.PhaseData, Running: true, Member: 2, Epoch: 1})
				w.nodes = []Node{{Name: "n2", Live: true, State: victim, Stamp: [2]uint64{1, 1}},
					{Name: "n3", Live: true, State: say(plan.Facts{Phase: plan.PhaseVacant, Running: true, Epoch: 2}), Stamp: [2]uint64{2, 1}}}
				w.told = func(node string) ([]byte, error) {
					switch {
					case node == "n3":
						return say(plan.Facts{Phase: plan.PhaseVacant, Epoch: 2}), nil
					case lives:
						return victim, nil
					}
					return nil, syscall.ECONNREFUSED
				}
				stop := live(t, w.coordinator("a", "b", "c"))
				time.Sleep(3 * time.Second)
				if err := stop(); err != nil {
					t.Error(err)
				}
				if got := len(w.removed) > 0; got == lives {
					t.Errorf("removed %v, want removal %t (failures %q)", w.removed, !lives, w.failed)
				}
			})
		})
	}
}

func TestActionThatChangesNothingDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := replacing(t, &plan.Facts{Version: 1, Slot: "b", Disk: "disk-b2", Phase: plan.PhaseVacant})
		w.deaf = true
		c := w.coordinator("a", "b", "c")
		stop := live(t, c)
		time.Sleep(10 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := len(w.removed); n < 10 || n > 25 {
			t.Errorf("tried %d times in 10 s, want about two a second", n)
		}
	})
}

func TestOperatorsOrdersAreRefusedWhereDataIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		if err := c.Order(plan.Orders{New: true}, false); err == nil || !strings.Contains(err.Error(), "holds no volume") {
			t.Errorf("without a volume: got %v", err)
		}
		stop := live(t, c)
		time.Sleep(5 * time.Second)
		if err := c.Order(plan.Orders{New: true}, false); err == nil || !strings.Contains(err.Error(), "has etcd data") {
			t.Errorf("with data: got %v", err)
		}
		if err := c.SetVolumeAside(t.Context()); err == nil || !strings.Contains(err.Error(), "etcd runs") {
			t.Errorf("set aside while running: got %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestOrderWithNothingToGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a", "b") // b never comes
		stop := live(t, c)
		time.Sleep(5 * time.Second)
		for _, order := range []plan.Orders{{New: true}, {Abandon: true}} {
			if err := c.Order(order, false); err == nil || !strings.Contains(err.Error(), "nothing to give up") {
				t.Errorf("%+v: got %v", order, err)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A cluster of etcd-manager in the store can be given up: before that nothing is founded, and afterwards a cluster is.
func TestOrderToFoundBesideAManagedCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.knows.Managed = "control/etcd-cluster-created"
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(time.Minute)
		if len(w.starts) > 0 {
			t.Error("founded beside it")
		}
		if err := c.Order(plan.Orders{New: true}, false); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if len(w.starts) != 1 {
			t.Errorf("started %d times, want once: %s", len(w.starts), c.Now().Action.Text())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestOrderIsVoidWhenItsOccasionHasPassed(t *testing.T) {
	r := record("a", "b")
	blank := plan.Observation{}
	promised := plan.Observation{Disk: plan.Disk{Ledger: plan.Ledger{Promises: []plan.Charter{r.Charter}}}}
	accepted := promised
	accepted.Disk.Ledger.Record, accepted.Disk.Ledger.Role = &r, plan.RoleFounder
	stored := blank
	stored.Store.Record = &r
	seen := map[string]bool{}
	for _, o := range []plan.Observation{blank, promised, accepted, stored} {
		seen[occasion(o)] = true
	}
	if len(seen) != 4 {
		t.Errorf("occasions: got %v, want four different ones", seen)
	}
}

func TestTwinKeepsANodeFromEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twin = netip.MustParseAddr("127.0.0.9")
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second)
		if now := c.Now(); now.Observation.Claim.Held || !strings.Contains(now.Action.Text(), "127.0.0.9") {
			t.Errorf("got %+v", now.Action)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// While the disk has a record, the mesh may forget witnesses; once the disk is blank, it needs them at once.
func TestBlankDiskNeedsWitnesses(t *testing.T) {
	r := record("a", "b")
	for _, blank := range []bool{false, true} {
		w := newWorld(t)
		c := w.coordinator("a")
		c.holding.held.volume, c.holding.held.id, c.holding.held.ledger.Record = w, w.Identity(), &r
		w.nodes = []Node{{Name: "b", State: []byte(`{"version":1,"slot":"b"}`)}}
		w.forgets = func() {
			if blank {
				c.holding.held.ledger.Record = nil
			}
		}
		o, err := c.observer.observe()
		if err != nil {
			t.Fatal(err)
		}
		if got := len(o.Peers) > 0; got != blank {
			t.Errorf("blank %v: got peers %v", blank, o.Peers)
		}
	}
}

func TestEvidence(t *testing.T) {
	r := record("a", "b")
	text := func(f plan.Facts) string {
		f.Version = 1
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for state, want := range map[string]bool{
		text(plan.Facts{}): false,
		text(plan.Facts{Slot: "a", Phase: plan.PhaseBlank}):  false,
		text(plan.Facts{Slot: "a", Record: &r}):              true,
		text(plan.Facts{Slot: "a", Promise: &r.Charter}):     true,
		text(plan.Facts{Slot: "a", CID: 7}):                  true,
		text(plan.Facts{Slot: "a", Phase: plan.PhaseVacant}): true,
		`{"version":2}`: true,
		`{{`:            true,
	} {
		if got := Evidence([]byte(state)); got != want {
			t.Errorf("%.80s: got %v, want %v", state, got, want)
		}
	}
	if Evidence(nil) {
		t.Error("a node that has said nothing: got true")
	}
}

func TestFactsOfAnotherVersionAreNothingSaid(t *testing.T) {
	w := newWorld(t)
	c := w.coordinator("a")
	for name, tc := range map[string]struct{ state, says string }{
		"newer":           {`{"version":2,"slot":"b"}`, "unsupported: version: got 2"},
		"newer and other": {`{"version":2,"slot":{"name":"b"}}`, "unsupported: version: got 2"},
		"newer record":    {`{"version":1,"slot":"b","disk":"d","phase":"data","record":{"cause":"merged"}}`, `unsupported: record.cause: got "merged"`},
		"garbage":         {`{{`, "invalid: invalid character"},
		"wrong type":      {`{"version":"1"}`, "invalid: json"},
		"no record":       {`{"version":1,"slot":"b","disk":"d","phase":"data"}`, "invalid: record: must be there in phase data"},
	} {
		w.nodes = []Node{{Name: "n2", Live: true, State: []byte(tc.state), Stamp: [2]uint64{uint64(len(tc.state)), 1}}}
		s := c.status.looked(look(t, c))
		if p := s.Observation.Peers[0]; p.Facts != nil || !strings.HasPrefix(p.Unread, tc.says) {
			t.Errorf("%s: got %+v, %q; want nothing, and %q", name, p.Facts, p.Unread, tc.says)
		}
		if got := strings.Join(health.Texts(s.Findings()), ";"); !strings.Contains(got, "what node n2 says does not count here") {
			t.Errorf("%s: problems: got %q", name, got)
		}
	}
}

// TestStoreThatIsNotWholeIsUnknown uses contents that once made every node crash in a loop.
func TestStoreThatIsNotWholeIsUnknown(t *testing.T) {
	w := newWorld(t)
	w.knows.Record = &plan.Record{ID: "x", Generation: 2, Cause: plan.Recovered}
	if got := w.coordinator("a").generations.read(t.Context()); !strings.Contains(got.Unknown, "invalid: record.cluster: must not be empty") || got.Record != nil {
		t.Errorf("got %+v", got)
	}
	w.knows.Record = &plan.Record{ID: "x", Generation: 2, Cause: "merged"}
	if got := w.coordinator("a").generations.read(t.Context()); !strings.Contains(got.Unknown, "unsupported here: record.cause") {
		t.Errorf("of a later version: got %+v", got)
	}
}

// Something hangs when the process is told to stop, as on a disk that stalls. The end is bounded, the error names what
// was waited for, and the volume stays claimed: the member may still run.
func TestStopIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		hang  func(w *world, dead chan struct{})
		names string
	}{
		"action": {func(w *world, dead chan struct{}) { w.hang = dead }, "the action start ("},
		"release": {func(w *world, dead chan struct{}) {
			w.set(func() { w.giving = func() { <-dead } })
		}, "the release of the volume"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dead := newWorld(t), make(chan struct{})
				test.hang(w, dead)
				c := w.coordinator("a")
				stop := live(t, c)
				time.Sleep(10 * time.Second) // virtual
				begin, released := time.Now(), len(w.released)
				err := stop()
				if took, most := time.Since(begin), c.cfg.StopWait+endTime; took < c.cfg.StopWait || took > most {
					t.Errorf("the stop took %s, want at most %s", took, most)
				}
				if !errors.Is(err, ErrHangs) || !strings.HasPrefix(err.Error(), test.names) {
					t.Errorf("got %v, want %q and that the process ends", err, test.names)
				}
				if name == "action" && len(w.released) != released {
					t.Error("the volume was released although the member may run")
				}
				close(dead) // in a real process nothing of this happens any more
				synctest.Wait()
			})
		})
	}
}
