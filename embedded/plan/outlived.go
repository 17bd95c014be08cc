package plan

import "slices"

// Restored data brings back the keys that holdfast keeps in etcd, as they were when the backup was made. So each says
// of which generation it is, and holds in no other one. What versions that did not say it have written holds.

// Holds reports whether a lock is of the generation that begins with r. A lock is for one life of a member.
func (l Lock) Holds(r *Record) bool { return r == nil || l.Record == "" || l.Record == r.ID }

// Holds reports whether a pause holds in the generation that begins with r. A recovery continues from the members' own
// data, so what an operator has said before it holds still; a restore begins without.
func (p Pause) Holds(r *Record) bool {
	return r == nil || p.Record == "" || p.Record == r.ID || r.Cause == Recovered && slices.Contains(r.Line, p.Record)
}

// Within leaves out what the member has of earlier generations than the one that begins with r.
func (m Member) Within(r *Record) Member {
	if p := m.Paused; p != nil && !p.Holds(r) {
		m.Paused = nil
	}
	if l := m.Lock; l != nil && !l.Holds(r) {
		m.Lock = nil
	}
	return m
}
