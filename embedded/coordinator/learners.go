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
	// stuckAfter is how long a lagging learner may make no progress before it is stuck. stuckReceiving is the same while
	// it receives a whole database, during which raft reports no progress.
	stuckAfter     = 5 * time.Minute
	stuckReceiving = 30 * time.Minute
)

// learners is what this leader remembers about its learners while it leads.
type learners struct {
	mu       sync.Mutex
	admitted map[string]plan.Admission // by slot
	progress map[uint64]progressed     // by ID: how far each was when it last made progress
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

// tell adds the admitted learners, and marks those that are stuck. A learner that etcd would promote is not stuck: it
// waits for something else.
func (l *learners) tell(o *plan.Observation, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !o.Member.Leader {
		l.admitted, l.progress = nil, nil // only a leader's admissions count
		return
	}
	o.Member.Admitted = slices.SortedFunc(maps.Values(l.admitted), func(a, b plan.Admission) int {
		return strings.Compare(a.Slot, b.Slot)
	})
	before := l.progress
	l.progress = map[uint64]progressed{} // forgets learners that are gone
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
