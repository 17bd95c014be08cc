package authorities

import (
	"slices"
	"testing"

	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
)

// This shows which nodes count, and when none is known to be missing.
func TestAround(t *testing.T) {
	list := []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}}
	base := func() plan.Observation {
		return plan.Observation{Claim: plan.Claim{Held: true, Slot: "a"}, Member: plan.Member{Running: true, Members: list, Trusts: []string{"x"}, Issuer: "x"},
			Peers: []plan.Peer{{Node: "n2", Live: true, Facts: &plan.Facts{Slot: "b", Running: true, Trusts: []string{"x", "y"}, Issuer: "x"}}}}
	}
	other := pki.Stance{Trusts: []string{"x", "y"}, Issuer: "x"}
	for name, tt := range map[string]struct {
		change   func(*plan.Observation)
		others   int
		complete bool
	}{
		"all are there":                        {func(*plan.Observation) {}, 1, true},
		"the holder is lost":                   {func(o *plan.Observation) { o.Peers[0].Live = false }, 1, false},
		"lost, and followed":                   {func(o *plan.Observation) { o.Peers = append(o.Peers, o.Peers[0]); o.Peers[0].Live = false }, 1, true},
		"it has said nothing of certificates":  {func(o *plan.Observation) { o.Peers[0].Facts.Trusts = nil }, 1, false},
		"it does not run":                      {func(o *plan.Observation) { o.Peers[0].Facts.Running = false }, 0, true},
		"a standby":                            {func(o *plan.Observation) { o.Peers = append(o.Peers, plan.Peer{Live: true, Facts: &plan.Facts{}}) }, 1, true},
		"somebody who has not spoken":          {func(o *plan.Observation) { o.Peers = append(o.Peers, plan.Peer{Live: true}) }, 1, false},
		"somebody lost who never spoke":        {func(o *plan.Observation) { o.Peers = append(o.Peers, plan.Peer{}) }, 1, true},
		"we do not run":                        {func(o *plan.Observation) { o.Member = plan.Member{} }, 1, false},
		"the members are not known":            {func(o *plan.Observation) { o.Member.Members = nil }, 1, false},
		"nobody holds a slot of the cluster's": {func(o *plan.Observation) { o.Peers = nil }, 0, false},
	} {
		o := base()
		tt.change(&o)
		own, others, complete := Around(o)
		if len(others) != tt.others || complete != tt.complete {
			t.Errorf("%s: got %d others, complete %v, want %d, %v", name, len(others), complete, tt.others, tt.complete)
		}
		if want := o.Member.Running; (own.Issuer == "x") != want {
			t.Errorf("%s: our own is %+v", name, own)
		}
		if len(others) > 0 && !slices.Equal(others[0].Trusts, other.Trusts) && tt.complete {
			t.Errorf("%s: got %+v", name, others)
		}
	}
}
