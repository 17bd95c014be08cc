package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// securing asks how the members of a generation that began with http go on to https, while they serve (R24): each disk
// promises to serve TLS for good, then the leader changes the URLs, and only then a disk may do without http.
//
// It rests on what stays true: a promise is on the disk before it is told, and members apply one log, so that of two
// lists one is the beginning of the other. Of two members that have promised, at least one finds the other where its
// list has it, however old that is; and a connection carries raft's messages both ways, no matter which end has dialled
// it.
type securing view

// Secured is what a disk remembers of that, of its own generation only.
type Secured struct {
	// PeerURL is the pattern of URLs with TLS that the disk's member serves from now on, whatever the configuration says.
	PeerURL string `json:"peer_url"`
	// Changed: every member had such a URL in the list that was applied here, so that http need not be served any more.
	Changed bool `json:"changed,omitempty"`
}

// SecureURL returns the pattern of peer URLs that a configuration has in the place of a record's: with TLS where that
// has none, and with the same host names. "" where the record's stays.
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

// left are the members whose URLs are still to be changed, by slot.
func (o securing) left() []MemberInfo {
	left := slices.DeleteFunc(slices.Clone(o.Member.Members),
		func(m MemberInfo) bool { return m.PeerURL == PeerURL(o.pattern(), m.Slot) })
	slices.SortFunc(left, func(a, b MemberInfo) int { return cmp.Compare(a.Slot, b.Slot) })
	return left
}

// beside takes the next step of a member that has nothing else to do.
func (o securing) beside(a Action) Action {
	m := o.Member
	if a.Kind != Wait || !m.Running || !m.Ready || !m.Led() || m.Learner || o.pattern() == "" || len(m.Members) == 0 {
		return a
	}
	slot, s, left := o.Claim.Slot, o.Disk.Ledger.Secured, o.left()
	switch {
	case len(left) == 0 && (s == nil || !s.Changed):
		return Action{Kind: Note, Secured: &Secured{o.pattern(), true},
			Why: fmt.Sprintf("every member has a peer URL with https: noting on the disk of slot %s "+
				"that it need not serve http", slot)}
	case len(left) == 0:
		return a
	case s == nil && len(left) == len(m.Members) && o.still() != "": // later all had promised, and a ledger is lost
		return a.but(fmt.Sprintf("the members keep http: %s", o.still()))
	case s == nil:
		return Action{Kind: Note, Secured: &Secured{PeerURL: o.pattern()},
			Why: fmt.Sprintf("every member serves %s beside http: noting on the disk of slot "+
				"%s that it does so for good", o.pattern(), slot)}
	case !m.Leader:
		return a
	}
	return o.change(a, left)
}

// still names the members that no live node says it runs with TLS.
func (o securing) still() string {
	return o.lacking("is not seen to serve https", func(m MemberInfo) bool {
		return !o.says(m, func(p Peer, f Facts) bool { return p.Live && f.Running && f.PeerURL == o.pattern() })
	})
}

// unpromised names the members whose disks have not promised. A promise counts, no matter which node tells it, and
// when. Once the first URL was changed all had, and nobody was added: one of whom nobody knows any more has promised as
// well.
func (o securing) unpromised(begun bool) string {
	return o.lacking("has not noted that it serves https", func(m MemberInfo) bool {
		runs := o.says(m, func(p Peer, f Facts) bool { return p.Live && f.Running })
		return (runs || !begun) && !o.says(m, func(_ Peer, f Facts) bool { return f.Secured == o.pattern() })
	})
}

// says reports whether a node that has the disk of a member says something of it.
func (o securing) says(m MemberInfo, what func(Peer, Facts) bool) bool {
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

// change changes the URL of one member, where the cluster can bear that its connections are made again. Before the
// first one all voters are there. After it there is no way back, and one that is lost holds up nobody.
func (o securing) change(a Action, left []MemberInfo) Action {
	q, begun := steady(o).quorum(), len(left) < len(o.Member.Members)
	if cmp.Or(proposals(o).frozen(), upkeep(o).halted()) != "" { // which the leader says already
		return a
	}
	waits := cmp.Or(o.unpromised(begun), o.lockedBy())
	switch {
	case waits != "":
	case !begun && o.Member.Alarmed(Corrupt): // else who is to be cured is not admitted, and the change waits for the cure
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

// lockedBy says who is about to be down on purpose.
func (o securing) lockedBy() string {
	if l := o.Member.Lock; l != nil {
		return l.String()
	}
	return ""
}

// returns reports whether a voter that is not connected runs, so that it soon will be.
func (o securing) returns(q quorum) bool {
	return slices.ContainsFunc(q.away, func(slot string) bool {
		m, _ := o.listed(slot)
		h, _ := o.holder(slot, m.ID)
		return h != nil && h.Facts.Running && h.Facts.Member == m.ID
	})
}

// admits returns the URL with which the leader adds a member, or says why it adds none: while the URLs are of two kinds
// all members must have promised, which nobody who joins has.
func (o securing) admits(slot string, f *Facts) (peerURL, obstacle string) {
	r, left := o.Disk.Ledger.Record, len(o.left())
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

// joins returns what a disk notes that accepts an admission: with a URL of TLS it has nobody to serve http to. A
// configuration that cannot serve the URL accepts nothing.
func (o resuming) joins(r *Record, list []MemberInfo, id uint64) (s *Secured, obstacle string) {
	for _, m := range list {
		is, _, _ := hostURL(m.PeerURL)
		was, _, _ := hostURL(r.Charter.PeerURL)
		pattern := SecureURL(*r, o.Config.PeerURL)
		switch {
		case m.ID != id || is != "https" || was != "http":
		case pattern == "" || PeerURL(pattern, m.Slot) != m.PeerURL:
			return nil, fmt.Sprintf("slot %s is admitted with the peer URL %s, and the configuration says %s: set TLS and "+
				"etcd.peer-url as on the other nodes",
				m.Slot, m.PeerURL, o.Config.PeerURL)
		default:
			return &Secured{pattern, true}, ""
		}
	}
	return nil, ""
}

// ownURL is the peer URL with which a member starts on its data; etcd has the true one there, and looks at the scheme.
func (o resuming) ownURL(r *Record) string {
	if s := SecureURL(*r, o.Config.PeerURL); s != "" && o.Config.FromHTTP == "" {
		return PeerURL(s, o.Claim.Slot)
	}
	return PeerURL(r.Charter.PeerURL, o.Claim.Slot)
}

// secured reports whether the configuration may do without http: as the disk has noted, or as a leader's list says that
// has the URL of this member. The rest of that list was changed before, or is changed by who has promised.
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
