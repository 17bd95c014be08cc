package coordinator

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/embedded/plan"
)

const (
	// stuckAfter is how long a learner that lags may make no progress before it is stuck; stuckReceiving is the same
	// while it is being sent a whole database, of which raft tells nothing before it is there.
	stuckAfter     = 5 * time.Minute
	stuckReceiving = 30 * time.Minute
)

// learners remembers what this leader knows of its learners, as long as it leads.
type learners struct {
	mu       sync.Mutex
	admitted map[string]plan.Admission // by slot
	progress map[uint64]progressed     // how far each was when it last made progress, by ID
}

type progressed struct {
	matched uint64
	since   time.Time
}

// admit remembers a learner that was added.
func (l *learners) admit(a plan.Admission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.admitted == nil {
		l.admitted = map[string]plan.Admission{}
	}
	l.admitted[a.Slot] = a
}

// tell says which learners were admitted, and marks those that are stuck. One that etcd would promote is not: what it
// waits for is something else.
func (l *learners) tell(o *plan.Observation, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !o.Member.Leader {
		l.admitted, l.progress = nil, nil // a leader's word is worth nothing when it is no longer the leader
		return
	}
	o.Member.Admitted = slices.SortedFunc(maps.Values(l.admitted), func(a, b plan.Admission) int {
		return strings.Compare(a.Slot, b.Slot)
	})
	before := l.progress
	l.progress = map[uint64]progressed{} // of those that are gone nothing is remembered
	o.Member.Members = slices.Clone(o.Member.Members)
	for i := range o.Member.Members {
		m := &o.Member.Members[i]
		if !m.Learner {
			continue
		}
		p, ok := before[m.ID]
		if !ok || m.Matched > p.matched || o.Member.InSync(*m) {
			p = progressed{m.Matched, now}
		}
		patience := stuckAfter
		if m.Receiving {
			patience = stuckReceiving
		}
		m.Stuck = now.Sub(p.since) >= patience
		l.progress[m.ID] = p
	}
}
