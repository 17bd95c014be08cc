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

func foreignData() *plan.Origin {
	return &plan.Origin{Program: plan.EtcdManager, Path: "data/t", Token: "t", Cluster: 7, Member: 1, Version: "3.6.0",
		Members: []plan.Elder{{ID: 1, Name: "etcd-a", PeerURL: "http://a.test:2380", Slot: "a"}}}
}

// TestAdopt: the record goes into the store before the data moves, and the data moves before the ledger is written.
func TestAdopt(t *testing.T) {
	w := newWorld(t)
	w.origin = foreignData()
	c := w.coordinator("a")
	c.world.Step = func(step string) { w.note(&w.steps, step) }
	c.cfg.Plan.Adopt = true
	c.holding.hold(w)
	o := look(t, c)
	r := plan.AdoptedRecord("test", "http://{slot}.test:2380", *w.origin)
	if o.Disk.Origin == nil {
		t.Fatal("what another program has left is not seen")
	}
	a := plan.Action{Kind: plan.Adopt, Record: &r, Member: 1, Mirror: true}
	if err := c.loop.actor.act(t.Context(), o, a); err != nil {
		t.Fatal(err)
	}
	want := []string{"before-mirror", "before-take-up", "take up", "after-take-up", "before-adopt", "after-adopt"}
	if !slices.Equal(w.steps, want) {
		t.Errorf("got %v, want %v", w.steps, want)
	}
	if w.knows.Record == nil || w.knows.Record.ID != r.ID {
		t.Errorf("the store knows %+v", w.knows.Record)
	}
	l, _, err := readLedger(w.dir)
	if err != nil || l.Record.ID != r.ID || l.Role != plan.RoleJoiner || l.Join != 1 || l.Started != "disk-a" {
		t.Errorf("ledger: got %+v, %v", l, err)
	}
	if o := look(t, c); o.Disk.Origin != nil {
		t.Error("the data is still another program's")
	}
}

// TestForeignDataThatIsInUse: data that an etcd uses is read again until it is free.
func TestForeignDataThatIsInUse(t *testing.T) {
	w := newWorld(t)
	w.origin, w.strange = foreignData(), errors.New("an etcd works on it")
	c := w.holding()
	if o := look(t, c); o.Disk.Origin != nil || !strings.Contains(o.Disk.Unknown, "works on it") {
		t.Errorf("got origin %v, unknown %q", o.Disk.Origin, o.Disk.Unknown)
	}
	w.strange = nil
	if o := look(t, c); o.Disk.Origin == nil || o.Disk.Unknown != "" {
		t.Errorf("after its end: got origin %v, unknown %q", o.Disk.Origin, o.Disk.Unknown)
	}
}

// TestForeignDataIsReadAgain: data is read again after an etcd has used it, and is not adopted if it has changed.
func TestForeignDataIsReadAgain(t *testing.T) {
	w := newWorld(t)
	w.origin = foreignData()
	c := w.holding()
	w.inUse = "data/t/member/snap/db"
	if o := look(t, c); o.Disk.Origin != nil || !strings.Contains(o.Disk.Unknown, w.inUse) {
		t.Errorf("got origin %v, unknown %q", o.Disk.Origin, o.Disk.Unknown)
	}
	w.inUse = ""
	w.origin = foreignData()
	w.origin.Token = "another"
	o := look(t, c)
	if o.Disk.Origin == nil || o.Disk.Origin.Token != "another" {
		t.Fatalf("after its end: got origin %+v", o.Disk.Origin)
	}
	r := plan.AdoptedRecord("test", "http://{slot}.test:2380", *w.origin)
	w.origin = foreignData()
	w.origin.Cluster++
	err := c.loop.actor.act(t.Context(), o, plan.Action{Kind: plan.Adopt, Record: &r, Member: 1, Mirror: true})
	if err == nil || !strings.Contains(err.Error(), "has changed") || w.knows.Record != nil {
		t.Errorf("adopted what has changed: %v, the store knows %v", err, w.knows.Record)
	}
}

// TestDataOfThePast: the other program has made another cluster since the data was given back.
func TestDataOfThePast(t *testing.T) {
	w, _ := restorable(t)
	c := w.holding()
	w.superseded = "another cluster"
	if o := look(t, c); o.Disk.Superseded != w.superseded {
		t.Errorf("got %q", o.Disk.Superseded)
	}
	w.superseded = ""
	if o := look(t, c); o.Disk.Superseded != "" {
		t.Errorf("after it was moved away: got %q", o.Disk.Superseded)
	}
}

// TestSetAsideBesideAnEtcd: while any program's etcd uses the data, nothing is renamed. Orders for blank disks are
// refused if another program's data is there.
func TestSetAsideBesideAnEtcd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.origin, w.inUse = foreignData(), "data/t/member/snap/db"
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second)
		if _, err := c.MaySetVolumeAside(); err == nil || !strings.Contains(err.Error(), w.inUse) {
			t.Errorf("may set aside: got %v", err)
		}
		if err := c.SetVolumeAside(t.Context()); err == nil || !strings.Contains(err.Error(), w.inUse) {
			t.Errorf("set aside: got %v", err)
		}
		if err := c.Order(plan.Orders{New: true}, false); err == nil || !strings.Contains(err.Error(), "may have etcd data") {
			t.Errorf("found --new: got %v", err)
		}
		for range 3 { // it is remembered across looks
			if o := c.Now().Observation; !strings.Contains(o.Disk.Unknown, w.inUse) {
				t.Errorf("while an etcd runs there: got %q", o.Disk.Unknown)
			}
			time.Sleep(time.Second)
		}
		w.mu.Lock()
		w.inUse = ""
		w.mu.Unlock()
		interrupted, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.SetVolumeAside(interrupted); err != nil {
			t.Errorf("after its end, by a command that was interrupted: got %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestTakenIsAsked: before it is noted that holdfast runs all members of an adopted cluster, their nodes are asked.
func TestTakenIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(*plan.Facts)
		ask  bool
		want bool
	}{
		"it runs":              {func(*plan.Facts) {}, true, true},
		"it does not":          {func(f *plan.Facts) { f.Running = false }, true, false},
		"of another cluster":   {func(f *plan.Facts) { r := record("a", "b"); f.Record = &r }, true, false},
		"another has noted it": {func(f *plan.Facts) { f.Running = false }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := restorable(t)
			co := w.holding()
			w.company(t, nil)
			w.member.Running, w.member.ID = true, 1
			w.member.Members = w.member.Members[:2]
			o := look(t, co)
			f := *o.Peers[0].Facts
			c.tell(&f)
			answer, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			w.answer = answer
			id := o.Disk.Ledger.Record.ID
			err = co.loop.actor.act(t.Context(), o, plan.Action{Kind: plan.Note, Taken: id, Ask: c.ask})
			l, _, _ := readLedger(w.dir)
			if noted := l.Taken == id; noted != c.want || (err == nil) != c.want {
				t.Errorf("noted %t, error %v", noted, err)
			}
		})
	}
}

// TestNothingIsConcludedBesideALeader: a leaderless proposal is not concluded if a member says right now that it has a
// leader, whatever the gossip said.
func TestNothingIsConcludedBesideALeader(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(*plan.Facts)
		led  bool // the proposal
		want bool
	}{
		"none has a leader":     {func(*plan.Facts) {}, false, true},
		"it leads":              {func(f *plan.Facts) { f.Leader = true }, false, false},
		"it has one":            {func(f *plan.Facts) { f.Confirmed = true }, false, false},
		"of another generation": {func(f *plan.Facts) { r := record("b"); f.Record, f.Leader = &r, true }, false, true},
		"which has consented":   {func(f *plan.Facts) { f.Leader = true }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := restorable(t)
			co := w.holding()
			w.company(t, nil)
			o := look(t, co)
			f := *o.Peers[0].Facts
			c.tell(&f)
			answer, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			w.answer = answer
			if c.led {
				r.Led = &plan.Stand{Node: "n2"}
			}
			born := plan.Record{Cluster: "test", Generation: 2, ID: r.ID, Line: r.Line, Cause: plan.Restored, Restore: &r, Charter: o.Disk.Ledger.Record.Charter}
			err = co.loop.actor.act(t.Context(), o, plan.Action{Kind: plan.Conclude, Record: &born})
			if (err == nil) != c.want {
				t.Errorf("got %v", err)
			}
		})
	}
}
