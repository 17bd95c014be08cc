package health

import (
	"slices"
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

// record is the founding record of a cluster with these slots.
func record(slots ...string) plan.Record {
	c := plan.Charter{Cluster: "test", Generation: 1}
	for _, s := range slots {
		c.Seats = append(c.Seats, plan.Seat{Slot: s, Disk: "disk-" + s, Epoch: 1})
	}
	return plan.FoundingRecord(c)
}

// voter is a node whose member serves.
func voter(node, slot string, leader bool) NodeStatus {
	return NodeStatus{Node: node, Live: true, Reached: true, State: "follower", Volume: &plan.Volume{Slot: slot},
		Etcd: &EtcdStatus{Status: plan.Status{Leader: leader, HasLead: true, Confirmed: true, Term: 2}}}
}

// Only a lost node whose record keeps others waiting is reported as blocking.
func TestLostNodeInTheWay(t *testing.T) {
	ours, theirs := record("a", "b"), record("x", "y")
	with := func(n NodeStatus, r *plan.Record) NodeStatus { n.Record = r; return n }
	blank := func(node string) NodeStatus {
		return NodeStatus{Node: node, Live: true, Reached: true, State: "founding", Volume: &plan.Volume{Slot: "a"}}
	}
	lost := func(r *plan.Record) NodeStatus {
		return NodeStatus{Node: "n9", State: "lost", Why: "not heard of", Record: r}
	}
	for name, c := range map[string]struct {
		nodes []NodeStatus
		want  string
	}{
		"member that is away":        {[]NodeStatus{with(voter("n1", "a", true), &ours), lost(&ours)}, ""},
		"member away, one is blank":  {[]NodeStatus{with(voter("n1", "a", true), &ours), blank("n2"), lost(&ours)}, ""},
		"another cluster's":          {[]NodeStatus{with(voter("n1", "a", true), &ours), lost(&theirs)}, "its cluster " + theirs.Token()},
		"another cluster's, live":    {[]NodeStatus{with(voter("n1", "a", true), &ours), with(voter("n9", "a", true), &theirs)}, ""},
		"only witness, others blank": {[]NodeStatus{blank("n1"), blank("n2"), lost(&ours)}, "the blank disk of n1 founds nothing"},
		"it knew nothing":            {[]NodeStatus{blank("n1"), lost(nil)}, ""},
	} {
		s := ClusterStatus{Nodes: c.nodes}
		for range 2 { // a status that was judged elsewhere is judged again
			s.Judge([]string{"a"})
		}
		n := s.Nodes[len(s.Nodes)-1]
		if (n.Blocks != "") != (c.want != "") || !strings.Contains(n.Blocks, c.want) {
			t.Errorf("%s: got %q, want %q", name, n.Blocks, c.want)
		}
		if got := slices.Contains(n.Commands, "holdfast gossip forget n9"); got != (c.want != "") {
			t.Errorf("%s: got commands %q", name, n.Commands)
		}
	}
}
