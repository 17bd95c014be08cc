package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// securing asks how the members of a generation that began with http go to https while they serve (R24): each disk
// promises to serve TLS for good, then the leader changes the URLs, and only then may a disk do without http.
//
// It relies on what stays true. A promise is on the disk before it is announced. Members apply the same log, so of two
// applied lists one is a prefix of the other. Of two members that have promised, at least one finds the other at the
// URL in its list, however old the list is. A connection carries raft's messages both ways, whichever end dialled it.
type securing view

// Secured is how far a disk has come from http to https, in its own generation only.
type Secured struct {
	// PeerURL is the https pattern that the disk's member serves from now on, whatever the configuration says.
	PeerURL string `json:"peer_url"`
	// Changed: every member had an https URL in a list applied here, so http need not be served any more.
	Changed bool `json:"changed,omitempty"`
}

// SecureURL returns the pattern of peer URLs that a configuration has instead of the record's, if only the
// configuration has TLS and the host names are the same; "" if the record's pattern stays.
func SecureURL(r Record, configured string) string {
	was, wasHost, known := hostURL(r.Charter.PeerURL)
	is, isHost, said := hostURL(configured)
	if known && said && was == "http" && is == "https" && wasHost == isHost {
		return configured
	}
	return ""
}

// pattern is [SecureURL] of our own generation.
func (o securing) pattern() string {
	if r := o.Disk.Ledger.Record; r != nil {
		return SecureURL(*r, o.Config.PeerURL)
	}
	return ""
}

// unchanged are the members whose URLs are still to be changed, by slot.
func (o securing) unchanged() []MemberInfo {
	left := slices.DeleteFunc(slices.Clone(o.Member.Members),
		func(m MemberInfo) bool { return m.PeerURL == PeerURL(o.pattern(), m.Slot) })
	slices.SortFunc(left, func(a, b MemberInfo) int { return cmp.Compare(a.Slot, b.Slot) })
	return left
}

// beside takes the next step for a member that has nothing else to do.
func (o securing) beside(a Action) Action {
	m := o.Member
	if a.Kind != Wait || !m.Running || !m.Ready || !m.Led() || m.Learner || o.pattern() == "" || len(m.Members) == 0 {
		return a
	}
	slot, s, left := o.Claim.Slot, o.Disk.Ledger.Secured, o.unchanged()
	switch {
	case len(left) == 0 && (s == nil || !s.Changed):
		return Action{Kind: Note, Secured: &Secured{o.pattern(), true},
			Why: fmt.Sprintf("every member has a peer URL with https: noting on the disk of slot %s "+
				"that it need not serve http", slot)}
	case len(left) == 0:
		return a
	// Once a URL is changed, all had promised: then this ledger was lost.
	case s == nil && len(left) == len(m.Members) && o.notServing() != "":
		return a.but(fmt.Sprintf("the members keep http: %s", o.notServing()))
	case s == nil:
		return Action{Kind: Note, Secured: &Secured{PeerURL: o.pattern()},
			Why: fmt.Sprintf("every member serves %s beside http: noting on the disk of slot "+
				"%s that it does so for good", o.pattern(), slot)}
	case !m.Leader:
		return a
	}
	return o.change(a, left)
}

// notServing names the members that no live node reports as running with TLS.
func (o securing) notServing() string {
	return o.lacking("is not seen to serve https", func(m MemberInfo) bool {
		return !o.holderSays(m, func(p Peer, f Facts) bool { return p.Live && f.Running && f.PeerURL == o.pattern() })
	})
}

// unpromised names the members whose disks have not promised. A promise counts whichever node reports it, and whenever.
// Once the first URL is changed, all members had promised and nobody was added: even one that nobody knows any more had
// promised.
func (o securing) unpromised(begun bool) string {
	return o.lacking("has not noted that it serves https", func(m MemberInfo) bool {
		runs := o.holderSays(m, func(p Peer, f Facts) bool { return p.Live && f.Running })
		return (runs || !begun) && !o.holderSays(m, func(_ Peer, f Facts) bool { return f.Secured == o.pattern() })
	})
}

// holderSays reports whether a node with the disk of a member reports something about it.
func (o securing) holderSays(m MemberInfo, what func(Peer, Facts) bool) bool {
	return slices.ContainsFunc(o.Peers, func(p Peer) bool {
		return p.Facts != nil && p.Facts.Member == m.ID && p.Facts.of(o.Disk.Ledger.Record) && what(p, *p.Facts)
	})
}

// lacking names the other members that lack something.
func (o securing) lacking(what string, lacks func(MemberInfo) bool) string {
	var slots []string
	for _, m := range o.Member.Members {
		if m.ID != o.Member.ID && lacks(m) {
			slots = append(slots, m.Slot)
		}
	}
	if len(slots) == 0 {
		return ""
	}
	slices.Sort(slots)
	return fmt.Sprintf("slot %s %s", strings.Join(slots, ", "), what)
}

// change changes the URL of one member when the cluster can bear that its connections are made again. Before the first
// change, all voters must be there. After it there is no way back, and a lost member delays nobody.
func (o securing) change(a Action, left []MemberInfo) Action {
	q, begun := steady(o).quorum(), len(left) < len(o.Member.Members)
	if cmp.Or(proposals(o).frozen(), upkeep(o).halted()) != "" { // the leader reports these already
		return a
	}
	waits := cmp.Or(o.unpromised(begun), o.lockedBy())
	switch {
	case waits != "":
	// Otherwise the corrupt member's replacement is not admitted, and the change waits for the replacement.
	case !begun && o.Member.Alarmed(Corrupt):
		waits = "the alarm CORRUPT is up"
	case q.learner != nil:
		waits = fmt.Sprintf("learner %x of slot %s is under way", q.learner.ID, q.learner.Slot)
	case q.healthy <= q.voters/2:
		waits = fmt.Sprintf("only %d of %d voters are connected", q.healthy, q.voters)
	case len(q.away) > 0 && (!begun || o.returns(q)):
		waits = q.unconnected()
	}
	if waits != "" {
		return a.but(fmt.Sprintf("the members' URLs are not changed to https: %s", waits))
	}
	next := left[0]
	return Action{Kind: Update, Slot: next.Slot, Member: next.ID, PeerURL: PeerURL(o.pattern(), next.Slot),
		Why: fmt.Sprintf("every member serves https: changing the peer URL of slot %s, %d of %d", next.Slot,
			len(o.Member.Members)-len(left)+1, len(o.Member.Members))}
}

// lockedBy says who holds the disruption lock, even if it is this slot.
func (o securing) lockedBy() string {
	if l := o.Member.Lock; l != nil {
		return l.String()
	}
	return ""
}

// returns reports whether a voter that is not connected runs, so that it will be connected soon.
func (o securing) returns(q quorum) bool {
	return slices.ContainsFunc(q.away, func(slot string) bool {
		m, _ := o.listed(slot)
		h, _ := o.holder(slot, m.ID)
		return h != nil && h.Facts.Running && h.Facts.Member == m.ID
	})
}

// admits returns the URL with which the leader adds a member, or says why it adds none. While some URLs are http and
// some https, all members must have promised, and a new one has not.
func (o securing) admits(slot string, f *Facts) (peerURL, obstacle string) {
	r, left := o.Disk.Ledger.Record, len(o.unchanged())
	switch scheme, _, said := hostURL(f.PeerURL); {
	case o.pattern() == "" || left == len(o.Member.Members):
		return PeerURL(r.Charter.PeerURL, slot), ""
	case left > 0:
		return "", fmt.Sprintf("slot %s is not admitted before the URLs of all members are changed to https", slot)
	case said && scheme == "http":
		return "", fmt.Sprintf("slot %s is not admitted: its node serves http, and all members https: set "+
			"TLS there as on the others", slot)
	}
	return PeerURL(o.pattern(), slot), ""
}

// joins returns what a disk notes when it accepts an admission. With an https URL, nobody expects it to serve http. If
// the configuration cannot serve the URL, the admission is not accepted.
func (o resuming) joins(r *Record, list []MemberInfo, id uint64) (s *Secured, obstacle string) {
	for _, m := range list {
		is, _, _ := hostURL(m.PeerURL)
		was, _, _ := hostURL(r.Charter.PeerURL)
		pattern := SecureURL(*r, o.Config.PeerURL)
		switch {
		case m.ID != id || is != "https" || was != "http":
		case pattern == "" || PeerURL(pattern, m.Slot) != m.PeerURL:
			return nil, fmt.Sprintf("slot %s is admitted with the peer URL %s, and the configuration says %s: set TLS and "+
				"etcd.peer-url as on the other nodes", m.Slot, m.PeerURL, o.Config.PeerURL)
		default:
			return &Secured{pattern, true}, ""
		}
	}
	return nil, ""
}

// ownURL is the peer URL with which a member starts on its data. etcd reads the real one from the data, and only uses
// the scheme.
func (o resuming) ownURL(r *Record) string {
	if s := SecureURL(*r, o.Config.PeerURL); s != "" && o.Config.FromHTTP == "" {
		return PeerURL(s, o.Claim.Slot)
	}
	return PeerURL(r.Charter.PeerURL, o.Claim.Slot)
}

// secured reports whether the configuration may do without http: the disk has noted so, or a leader's list has this
// member with an https URL. The rest of that list was changed before, or members that have promised will change it.
func (o resuming) secured(r *Record, pattern string) bool {
	if s := o.Disk.Ledger.Secured; s != nil && s.Changed {
		return true
	}
	l, id := o.leader(r), o.Disk.Member
	if l == nil || id == 0 {
		return false
	}
	return slices.ContainsFunc(l.Facts.Members, func(m MemberInfo) bool {
		return m.ID == id && m.PeerURL == PeerURL(pattern, o.Claim.Slot)
	})
}

// Serves reports whether a member can run here with the peer URLs of a pattern.
func (c Config) Serves(pattern string) bool {
	was, wasHost, known := hostURL(pattern)
	is, isHost, said := hostURL(c.PeerURL)
	return !known || !said || wasHost == isHost && (was == is || was == "http" && c.FromHTTP != "")
}
