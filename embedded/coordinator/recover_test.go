package coordinator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// A member reports where its log ends only after it has been without a leader for a while, and no longer once it has
// one: an election is no loss. Without that report, nothing is recovered.
func TestLogOfTheLeaderless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := restorable(t)
		w.data.Log = plan.LogEnd{Term: 2, Index: 9}
		c := w.holding()
		if o := look(t, c); o.Disk.Log == nil || *o.Disk.Log != w.data.Log {
			t.Errorf("etcd does not run: the log ends at %v", o.Disk.Log)
		}
		w.member = plan.Member{Running: true, Status: plan.Status{HasLead: true, Confirmed: true}, ID: 1}
		look(t, c)
		w.member.HasLead = false
		for _, s := range []struct {
			wait time.Duration
			want bool
		}{{0, false}, {leaderless - time.Second, false}, {time.Second, true}} {
			time.Sleep(s.wait)
			if o := look(t, c); (o.Disk.Log != nil) != s.want {
				t.Errorf("after another %s: the log ends at %v", s.wait, o.Disk.Log)
			}
		}
		w.data.Log.Index = 10
		if o := look(t, c); o.Disk.Log.Index != 9 {
			t.Error("the log is read all the time")
		}
		time.Sleep(logAge)
		if o := look(t, c); o.Disk.Log.Index != 10 {
			t.Errorf("the log is not read again: %v", o.Disk.Log)
		}
		w.member.HasLead = true
		if o := look(t, c); o.Disk.Log != nil {
			t.Errorf("with a leader: the log ends at %v", o.Disk.Log)
		}
	})
}

// A survivor prepares beside its data, for itself alone, and the ledger says how much of the log is included.
func TestPrepareRecovery(t *testing.T) {
	w, of := restorable(t)
	w.data.Log = plan.LogEnd{Term: 3, Index: 77}
	c := w.holding()
	o := look(t, c)
	o.Store.Record = o.Disk.Ledger.Record
	r := NewRecovery(*o.Store.Record, 1, plan.Request{By: "me", Survivor: "a", Disk: "disk-a", Log: &plan.LogEnd{Term: 3, Index: 70}, Lost: []string{"b", "c"}}, 40, 100)
	if r.Attempt != 2 || r.Parent() != of.Parent() || r.Revision+r.Bump != 140 || len(r.Lost) != 2 {
		t.Errorf("proposed: %+v", r)
	}
	if err := c.loop.actor.restorer.prepare(t.Context(), o, plan.Action{Kind: plan.Prepare, Restore: &r}); err != nil {
		t.Fatal(err)
	}
	o = look(t, c)
	if p := o.Disk.Ledger.Prepared; p == nil || p.ID != r.ID || o.Disk.Built != r.ID || *p.Log != w.data.Log {
		t.Errorf("prepared: %+v, built %q", p, o.Disk.Built)
	}
	wal, err := os.ReadFile(filepath.Join(w.dir, builtPrefix+r.ID, "wal"))
	if err != nil || string(wal) != "test@2-"+r.ID+" http://a.test:2380 100" {
		t.Errorf("built: %q, %v", wal, err)
	}
	w.full = errors.New("the disk is full")
	if err := c.loop.actor.restorer.prepare(t.Context(), o, plan.Action{Kind: plan.Prepare, Restore: &r}); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("without room: %v", err)
	}
	if o := look(t, c); o.Disk.Ledger.Prepared != nil || o.Disk.Built != "" {
		t.Errorf("after a failure: %+v, built %q", o.Disk.Ledger.Prepared, o.Disk.Built)
	}
}

// Data that was left behind continues beyond its own revision, and beyond that of the generation in between: as last
// seen, or, if none of its voters is here, as it began.
func TestContinuation(t *testing.T) {
	parent := plan.Record{Generation: 2, ID: "b", Line: []string{"a"}, Restore: &plan.Restore{Revision: 40, Bump: 100}}
	for name, s := range map[string]struct{ own, last, want int64 }{
		"the parent is ahead":       {own: 50, last: 150, want: 250},
		"the parent is not known":   {own: 50, last: 0, want: 240},
		"our revision is not known": {own: 0, last: 150, want: 250},
		"ours is ahead":             {own: 500, last: 150, want: 600},
	} {
		r := newContinuation(parent, 0, plan.Request{Survivor: "b", Disk: "d2"}, "a", s.own, s.last, 100)
		if r.Revision != s.own || r.Revision+r.Bump != s.want || r.Origin != "a" || r.Parent() != "b" {
			t.Errorf("%s: %+v, want the revision raised to %d", name, r, s.want)
		}
	}
}
