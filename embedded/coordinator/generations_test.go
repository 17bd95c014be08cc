package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	logged "go.uber.org/zap/zaptest/observer"

	"holdfast/embedded/plan"
)

// A disk follows nothing without a valid signature. Its own generation needs no proof, and a blank disk cannot verify
// any.
func TestProven(t *testing.T) {
	at := func(generation uint64) *plan.Record { return &plan.Record{Generation: generation} }
	told := plan.Store{ID: "s", Record: at(3), Unproven: 3, Doubt: "record-000003.json: it is not signed"}
	for name, tc := range map[string]struct {
		s      plan.Store
		own    *plan.Record
		counts bool
	}{
		"a blank disk":             {told, nil, true},
		"an older generation":      {told, at(2), false},
		"a much older one":         {told, at(1), false},
		"the same":                 {told, at(3), true},
		"nothing is without proof": {plan.Store{ID: "s", Record: at(3)}, at(1), true},
	} {
		got := proven(tc.s, tc.own)
		if counts := got.Unknown == ""; counts != tc.counts || counts && got.ID == "" {
			t.Errorf("%s: got %+v", name, got)
		}
		if !tc.counts && (!got.Unread || got.Record != nil || !strings.Contains(got.Unknown, "record-000003.json: it is not signed")) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// Nodes come and go, and so do the IDs that they mention. What a node that is gone has said is not kept, and each news
// makes the store be asked once.
func TestWhatNodesSaidIsForgotten(t *testing.T) {
	w := newWorld(t)
	c := w.coordinator("a")
	asked := func() bool {
		select {
		case <-c.generations.asked:
			return true
		default:
			return false
		}
	}
	var o plan.Observation
	for i := range 20 {
		name, nonce := fmt.Sprintf("n%d", i+2), fmt.Sprintf("nonce-%d", i)
		state, err := json.Marshal(plan.Facts{Version: 1, Nonce: nonce})
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = []Node{{Name: "n1", Live: true}, {Name: name, Live: true, State: state, Stamp: [2]uint64{1}}}
		o, _ = c.observer.observe()
		if len(o.Peers) != 1 || o.Peers[0].Facts == nil || o.Peers[0].Facts.Nonce != nonce {
			t.Fatalf("got the peers %+v", o.Peers)
		}
		if c.generations.recheck(o); !asked() {
			t.Errorf("the store is not asked about %s", nonce)
		}
		if c.generations.recheck(o); asked() {
			t.Errorf("the store is asked again about %s", nonce)
		}
	}
	if seen, heard := len(c.observer.seen), len(c.generations.heard); seen > 2 || heard > 1 {
		t.Errorf("kept the facts of %d nodes and %d IDs", seen, heard)
	}
}

// What the store refuses is logged once, with the ID of that request.
func TestStoreErrorIsLoggedOnce(t *testing.T) {
	core, logs := logged.New(zapcore.WarnLevel)
	w := newWorld(t)
	n := 0
	refuse := func(context.Context) (string, error) { n++; return "", refused{fmt.Sprintf("REQUEST%09d", n)} }
	world := &World{Mesh: w, Store: stores{w}, Etcd: w}
	g := newGenerations(env{cfg: &Config{Node: "n1"}, world: world, lg: zap.New(core)})
	for _, store := range []func(context.Context) (string, error){refuse, refuse, w.store, refuse} {
		w.store = store
		g.read(t.Context())
	}
	var got []string
	for _, e := range logs.All() {
		got = append(got, fmt.Sprint(e.ContextMap()["error"]))
	}
	if len(got) != 2 || !strings.Contains(got[0], "REQUEST000000001") || !strings.Contains(got[1], "REQUEST000000003") {
		t.Errorf("logged %q, want the first and the third request", got)
	}
}
