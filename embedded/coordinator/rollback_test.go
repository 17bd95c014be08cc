package coordinator

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// A disk that went back in time is set aside only if a confirmed leader says so when asked directly. Until then, it
// does not start.
func TestRolledBack(t *testing.T) {
	leads := func(acked uint64, confirmed bool) *plan.Facts {
		r := record("a", "b", "c")
		return &plan.Facts{Version: 1, Slot: "b", Disk: "disk-b", Phase: plan.PhaseData, Record: &r, Store: "store",
			Running: true, Leader: true, Confirmed: confirmed, Member: 2, Term: 4,
			Members: []plan.MemberInfo{{ID: 1, Slot: "a", Acked: acked}, {ID: 2, Slot: "b"}, {ID: 3, Slot: "c", Connected: true}}}
	}
	for name, tc := range map[string]struct {
		gossip, answer *plan.Facts
		aside, starts  bool
		after          uint64 // where the log ends after the leader was asked; 0: unchanged
	}{
		"gossip and answer agree":           {leads(31, true), leads(31, true), true, false, 0},
		"etcd still ends here":              {leads(31, true), leads(31, true), false, true, 31},
		"the leader is not confirmed":       {leads(31, true), leads(31, false), false, false, 0},
		"the leader does not answer":        {leads(31, true), nil, false, false, 0},
		"the leader was mistaken":           {leads(31, true), leads(30, true), false, false, 0},
		"the gossip does not know yet":      {leads(0, true), leads(31, true), false, false, 0},
		"nobody knows":                      {leads(0, true), leads(0, true), false, true, 0},
		"nobody knows, and nobody answers":  {leads(0, true), nil, false, true, 0},
		"it ends where the leader saw it":   {leads(30, true), leads(30, true), false, true, 0},
		"nobody leads, as far as is heard":  {&plan.Facts{Version: 1, Slot: "b"}, leads(31, true), false, true, 0},
		"the gossip's leader leads no more": {leads(0, true), &plan.Facts{Version: 1, Slot: "b"}, false, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				r := record("a", "b", "c")
				l := ledgerV1{Version: 1, Etcd: "3.7.3", Ledger: plan.Ledger{Record: &r, Role: plan.RoleFounder, Started: "disk-a"}}
				if err := l.write(w.dir); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(filepath.Join(w.dir, EtcdDir), 0o700); err != nil {
					t.Fatal(err)
				}
				w.data = plan.DataDir{WAL: true, Member: 1, ClusterID: 77, Log: plan.LogEnd{Term: 4, Index: 30}, Term: 4}
				state, err := json.Marshal(tc.gossip)
				if err != nil {
					t.Fatal(err)
				}
				w.nodes = []Node{{Name: "n2", Live: true, State: state, Stamp: [2]uint64{1, 1}}}
				if tc.answer != nil {
					if w.answer, err = json.Marshal(tc.answer); err != nil {
						t.Fatal(err)
					}
				}
				if tc.after > 0 {
					w.asking = func() { w.set(func() { w.data.Log.Index = tc.after }) }
				}
				c := w.coordinator("a", "b", "c")
				stop := live(t, c)
				time.Sleep(10 * time.Second)
				why := c.Now().Action.Text()
				if err := stop(); err != nil {
					t.Error(err)
				}
				_, err = os.Stat(filepath.Join(w.dir, EtcdDir+"-"+plan.RolledBack))
				if got := err == nil; got != tc.aside {
					t.Errorf("set aside: got %t, want %t (%s; failures %q)", got, tc.aside, why, w.failed)
				}
				if got := len(w.starts) > 0; got != tc.starts {
					t.Errorf("started: got %t, want %t (%s; failures %q)", got, tc.starts, why, w.failed)
				}
				if !tc.aside && !tc.starts && tc.gossip.Members[0].Acked > 0 && !strings.Contains(why, "went back in time") {
					t.Errorf("it waits and says %q", why)
				}
			})
		})
	}
}

// A lock lets a node start before the gossip knows that the lock's last holder is gone, but only after asking that
// node: a machine that was cloned with its memory has the same lock, and both would run one member.
func TestLockAsksItsLastHolder(t *testing.T) {
	r := record("a", "b", "c")
	held := plan.Facts{Version: 1, Slot: "a", Disk: "disk-a", Phase: plan.PhaseData, Record: &r, Store: "store", Lock: "boot/1/2",
		Running: true, Leader: true, Confirmed: true, Member: 1, Members: []plan.MemberInfo{{ID: 1, Slot: "a"}}}
	stopped := held
	stopped.Running, stopped.Leader, stopped.Confirmed, stopped.Member = false, false, false, 0
	later := stopped
	later.Epoch = 2
	for name, tc := range map[string]struct {
		answer *plan.Facts
		err    error
		want   bool
	}{
		"it runs the member":                   {&held, nil, false},
		"it holds the disk and gives way":      {&stopped, nil, true},
		"it holds the disk and comes first":    {&later, nil, false},
		"it holds the disk no more":            {&plan.Facts{Version: 1}, nil, true},
		"it holds another disk":                {&plan.Facts{Version: 1, Slot: "a", Disk: "disk-b", Phase: plan.PhaseBlank}, nil, true},
		"nobody listens there":                 {nil, fmt.Errorf("dial: %w", syscall.ECONNREFUSED), true},
		"there is no way to it":                {nil, syscall.EHOSTUNREACH, false},
		"it was cut off while it was answered": {nil, syscall.ECONNRESET, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.bolt = held.Lock
				l := ledgerV1{Version: 1, Etcd: "3.7.3", Ledger: plan.Ledger{Record: &r, Role: plan.RoleFounder, Started: "disk-a"}}
				if err := l.write(w.dir); err != nil {
					t.Fatal(err)
				}
				w.data = plan.DataDir{WAL: true, Member: 1, ClusterID: 77}
				state, err := json.Marshal(held)
				if err != nil {
					t.Fatal(err)
				}
				w.nodes = []Node{{Name: "n2", Live: true, State: state, Stamp: [2]uint64{1, 1}}}
				w.told = func(string) ([]byte, error) {
					if tc.err != nil {
						return nil, tc.err
					}
					return json.Marshal(tc.answer)
				}
				c := w.coordinator("a", "b", "c")
				stop := live(t, c)
				time.Sleep(5 * time.Second)
				why := c.Now().Action.Text()
				if err := stop(); err != nil {
					t.Error(err)
				}
				if got := len(w.starts) > 0; got != tc.want {
					t.Errorf("started: got %t, want %t (%s; failures %q)", got, tc.want, why, w.failed)
				}
				if n := len(w.asked); n == 0 || tc.want && n > 1 { // it is not asked as a leader: its word as one does not count
					t.Errorf("asked %q, want once", w.asked)
				}
			})
		})
	}
}
