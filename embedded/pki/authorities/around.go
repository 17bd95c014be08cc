package authorities

import (
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
)

// Around returns what the members of the cluster trust and present, as far as this node knows. complete means that
// every holder of a member's slot is live, and has said what it trusts if it runs etcd.
//
// A lost node counts as long as no other node holds its slot, because its etcd may still run.
func Around(o plan.Observation) (own pki.Stance, others []pki.Stance, complete bool) {
	said := stances(o)
	held := map[string]bool{}
	for i, s := range said {
		if i == 0 && o.Claim.Held || i > 0 && s.Known {
			held[s.Slot] = true
		}
	}
	complete = o.Member.Running && len(o.Member.Members) > 0
	for _, m := range o.Member.Members {
		complete = complete && held[m.Slot]
	}
	for _, p := range o.Peers {
		complete = complete && (p.Facts != nil || !p.Live)
	}
	for _, s := range said[1:] {
		if s.Running && (s.Known || !held[s.Slot]) {
			others = append(others, s.Stance)
			complete = complete && s.Known && s.Trusts != nil
		}
	}
	return said[0].Stance, others, complete
}
