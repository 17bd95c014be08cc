package coordinator

import (
	"slices"
	"time"

	"holdfast/embedded/plan"
)

// learners remembers how far this leader's learners were when they last made progress, by their IDs. The coordinator's mu
// guards it.
type learners map[uint64]progressed

// known marks the learners that are stuck. One that etcd would promote is not: what it waits for is something else.
func (l *learners) known(o *plan.Observation, now time.Time) {
	if *l == nil || !o.Member.Leader {
		*l = learners{}
	}
	if !o.Member.Leader {
		return
	}
	var last uint64
	for _, m := range o.Member.Members {
		if m.ID == o.Member.ID {
			last = m.Matched
		}
	}
	before := *l
	*l = learners{} // of those that are gone nothing is remembered
	o.Member.Members = slices.Clone(o.Member.Members)
	for i := range o.Member.Members {
		m := &o.Member.Members[i]
		if !m.Learner {
			continue
		}
		p, ok := before[m.ID]
		inSync := float64(m.Matched) >= 0.9*float64(last) // as etcd judges it
		if last == 0 {
			inSync = m.Connected // raft tells nothing
		}
		if !ok || m.Matched > p.matched || inSync {
			p = progressed{m.Matched, now}
		}
		patience := stuckAfter
		if m.Receiving {
			patience = stuckReceiving
		}
		m.Stuck = now.Sub(p.since) >= patience
		(*l)[m.ID] = p
	}
}
