package coordinator

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// namesWorld remembers what the resolver was given.
type namesWorld struct {
	*world
	table   map[string][]netip.Addr
	adopted bool
	nodes   []Node
}

func (w *namesWorld) Set(table map[string][]netip.Addr) { w.table = table }
func (w *namesWorld) Adopt(adopted bool)                { w.adopted = adopted }
func (w *namesWorld) Nodes(bool) []Node                 { return w.nodes }

// The address of a member that no node runs comes from the gossip's memory, then from the operator or the cloud, and
// only in an adopted cluster. The latter are not written to the volume.
func TestNamesOfForeignMembers(t *testing.T) {
	at := netip.MustParseAddr
	record := func(cause plan.Cause) *plan.Record {
		return &plan.Record{Cluster: "main", Generation: 1, ID: "00000000000000aa", Cause: cause,
			Charter: plan.Charter{Cluster: "main", Generation: 1, Seats: []plan.Seat{{Slot: "a"}, {Slot: "b"}, {Slot: "c"}, {Slot: "d"}}}}
	}
	for _, cause := range []plan.Cause{plan.Adopted, plan.Founding} {
		w := &namesWorld{world: new(world)}
		r := record(cause)
		e := env{cfg: &Config{Node: "n1", Address: at("10.0.0.1")}, lg: zap.NewNop(), world: &World{Mesh: w, Names: w,
			Elders: func() map[string][]netip.Addr {
				return map[string][]netip.Addr{"a": {at("10.9.0.1")}, "b": {at("10.9.0.2")}, "c": {at("10.9.0.3")}, "d": {at("10.9.0.4"), at("fd00::4")}}
			}}}
		n := newNames(e, &bugs{lg: zap.NewNop()})
		n.learn(map[string]netip.Addr{"c": at("10.0.0.3")})
		w.nodes = []Node{{Name: "n2", Address: at("10.0.0.2"), Live: true}}
		o := plan.Observation{Node: "n1", Claim: plan.Claim{Held: true, Slot: "a", Disk: "x", Epoch: 1},
			Disk:  plan.Disk{Ledger: plan.Ledger{Record: r}},
			Peers: []plan.Peer{{Node: "n2", Live: true, Facts: &plan.Facts{Slot: "b", Record: r, Epoch: 1}}}}
		n.update(o, true)
		want := map[string][]netip.Addr{"a": {at("10.0.0.1")}, "b": {at("10.0.0.2")}, "c": {at("10.0.0.3")}}
		if cause == plan.Adopted { // the last holder of slot c is not known
			want["c"] = append(want["c"], at("10.9.0.3"))
			want["d"] = []netip.Addr{at("10.9.0.4"), at("fd00::4")}
		}
		if !maps.EqualFunc(w.table, want, slices.Equal) || w.adopted != (cause == plan.Adopted) {
			t.Errorf("%s: got %v, adopted %t, want %v", cause, w.table, w.adopted, want)
		}
		if _, kept := n.known["d"]; kept || len(n.known) != 3 {
			t.Errorf("%s: to be written: %v", cause, n.known)
		}
		if len(n.moved) != 1 {
			t.Fatalf("%s: the addresses are not written", cause)
		}
		// The member is taken over: its node's address goes before all others.
		<-n.moved
		w.nodes = append(w.nodes, Node{Name: "n4", Address: at("10.0.0.4"), Live: true})
		o.Peers = append(o.Peers, plan.Peer{Node: "n4", Live: true, Facts: &plan.Facts{Slot: "d", Record: r, Epoch: 1}})
		n.update(o, true)
		if got := w.table["d"]; !slices.Equal(got, []netip.Addr{at("10.0.0.4")}) || len(n.moved) != 1 {
			t.Errorf("%s: taken over: got %v", cause, got)
		}
		// A lost node may be back, or its slot may have been given back to another program.
		w.nodes[0].Live, o.Peers[0].Live = false, false
		n.update(o, true)
		want["b"], want["d"] = []netip.Addr{at("10.0.0.2")}, []netip.Addr{at("10.0.0.4")}
		if cause == plan.Adopted {
			want["b"] = append(want["b"], at("10.9.0.2"))
		}
		if !maps.EqualFunc(w.table, want, slices.Equal) {
			t.Errorf("%s: lost: got %v, want %v", cause, w.table, want)
		}
		w.table = nil
		if n.update(o, true); w.table != nil {
			t.Errorf("%s: told again what it knows", cause)
		}
	}
}

// While a founder's etcd begins, it finds no other member that it could ask and would wait for; afterwards it finds
// all.
func TestOneNameWhileAFounderBegins(t *testing.T) {
	at := netip.MustParseAddr
	w := &namesWorld{world: new(world)}
	e := env{cfg: &Config{Node: "n1", Address: at("10.0.0.1")}, lg: zap.NewNop(), world: &World{Mesh: w, Names: w}}
	n := newNames(e, &bugs{lg: zap.NewNop()})
	r := &plan.Record{Cluster: "main", Generation: 1, ID: "00000000000000aa", Cause: plan.Founding,
		Charter: plan.Charter{Cluster: "main", Generation: 1, Seats: []plan.Seat{{Slot: "a"}, {Slot: "b"}}}}
	w.nodes = []Node{{Name: "n2", Address: at("10.0.0.2"), Live: true}}
	o := plan.Observation{Node: "n1", Claim: plan.Claim{Held: true, Slot: "a", Disk: "x", Epoch: 1},
		Disk:  plan.Disk{Ledger: plan.Ledger{Record: r}},
		Peers: []plan.Peer{{Node: "n2", Live: true, Facts: &plan.Facts{Slot: "b", Record: r, Epoch: 1}}}}
	n.update(o, true)
	mine := map[string][]netip.Addr{"a": {at("10.0.0.1")}}
	all := map[string][]netip.Addr{"a": {at("10.0.0.1")}, "b": {at("10.0.0.2")}}
	told := func(when string, want map[string][]netip.Addr) {
		t.Helper()
		if !maps.EqualFunc(w.table, want, slices.Equal) {
			t.Errorf("%s: got %v, want %v", when, w.table, want)
		}
	}
	told("before", all)
	failed := errors.New("it failed")
	if err := n.onlyWhile("a", func() error {
		told("at its beginning", mine)
		n.update(o, true)
		told("after a look meanwhile", mine)
		return failed
	}); err != failed {
		t.Errorf("got %v, want %v", err, failed)
	}
	told("at its end", all)
	n.update(o, true)
	told("after", all)
}
