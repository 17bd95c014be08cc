package coordinator

import (
	"slices"
	"time"

	"holdfast/embedded/health"
)

const (
	asideAge   = time.Minute // how often it is looked what was set aside
	reclaimAge = time.Hour   // at most so often is something reclaimed
)

// SetAside tells what was set aside on this node's volume. after is restore.reclaim-after.
func (s Situation) SetAside(after time.Duration) []health.AsideStatus {
	var all []health.AsideStatus
	for _, a := range s.Aside {
		st := health.AsideStatus{Path: a.Path, Reason: a.Reason, Since: a.Since, Bytes: a.Bytes}
		if after > 0 && slices.Contains(Reclaimable, a.Reason) && !s.Served.IsZero() {
			at := a.Since
			if s.Served.After(at) {
				at = s.Served
			}
			at = at.Add(after)
			st.Reclaimed = &at
		}
		all = append(all, st)
	}
	return all
}
