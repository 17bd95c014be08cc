package plan

import "slices"

// Restored data brings back the keys that holdfast keeps in etcd, as they were when the backup was made. So each key
// names its generation, and does not count in any other. A key from a version that did not name it counts.

// Holds reports whether a lock counts in the generation that begins with r. A lock never outlives its generation.
func (l Lock) Holds(r *Record) bool { return r == nil || l.Record == "" || l.Record == r.ID }

// Holds reports whether a pause counts in the generation that begins with r. A recovery continues from the members' own
// data, so an earlier pause still counts. A restore begins unpaused.
func (p Pause) Holds(r *Record) bool {
	return r == nil || p.Record == "" || p.Record == r.ID || r.Cause == Recovered && slices.Contains(r.Line, p.Record)
}

// Within drops what the member has from generations before the one that begins with r.
func (m Member) Within(r *Record) Member {
	if p := m.Paused; p != nil && !p.Holds(r) {
		m.Paused = nil
	}
	if l := m.Lock; l != nil && !l.Holds(r) {
		m.Lock = nil
	}
	return m
}
