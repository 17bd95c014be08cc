package node

import (
	"strings"
	"testing"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// A release that is given again says the same again, and is refused where it asks for another etcd: the state on the
// volume names the first.
func TestReleaseAgain(t *testing.T) {
	var r released
	if _, err := r.again("3.6.12"); err == nil || !strings.Contains(err.Error(), "`holdfast undrain` first") {
		t.Errorf("drained by hand: got %v", err)
	}
	r.last.Store(&health.Release{To: "3.6.12", Released: true})
	for to, want := range map[string]string{"": "", "3.6.12": "", "3.6.13": "--to-etcd 3.6.13"} {
		got, err := r.again(to)
		if want == "" && (err != nil || got.To != "3.6.12") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("to %q: got %+v, %v, want %q", to, got, err, want)
		}
	}
}

// After the last release no member runs here, which would know of the pause. The cluster goes back all the same.
func TestGivenBackAsAWhole(t *testing.T) {
	record := plan.AdoptedRecord("main", "https://etcd-{slot}.x.y:2380", plan.Origin{Cluster: 7, Program: plan.PlainEtcd,
		Members: []plan.Elder{{ID: 1, Slot: "a", Name: "infra0"}}})
	for name, tc := range map[string]struct {
		node health.NodeStatus
		want health.TakeoverPhase
	}{
		"drained":   {health.NodeStatus{Reached: true}, health.TakeoverReturning},
		"runs":      {health.NodeStatus{Reached: true, Etcd: &health.EtcdStatus{}}, health.TakeoverMixed},
		"no answer": {health.NodeStatus{Etcd: &health.EtcdStatus{}}, health.TakeoverReturning},
	} {
		tc.node.Node, tc.node.Live = "n1", true
		s := health.ClusterStatus{Nodes: []health.NodeStatus{tc.node}}
		var o plan.Observation
		o.Claim.Held, o.Disk.Ledger.Record = true, &record
		stillReturning(&s, &o)
		got := health.AssessTakeover(s, &record, o.Foreign(), o.Mixed())
		if got.Phase != tc.want || strings.Contains(got.Frozen, "goes back") != (tc.want == health.TakeoverReturning) {
			t.Errorf("%s: got %s, frozen %q, want %s", name, got.Phase, got.Frozen, tc.want)
		}
	}
}
