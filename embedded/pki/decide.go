package pki

import (
	"maps"
	"slices"
	"time"
)

// situation is everything on which a decision depends. Authorities are identified by their fingerprints.
type situation struct {
	Life         time.Duration // of a new leaf
	Server, Peer *held         // the usable leaves that we have; nil: none
	Clients      []signing     // the authorities that can issue the server's leaf, the primary first
	Peers        []signing     // the authorities that can issue the peer's leaf, the primary first
	Bundle       []string      // the current peers' authorities
	// Remembered has the authorities that the member is told to trust now, and when they expire.
	Remembered map[string]time.Time
	Stances    []Stance // of all known nodes, including our own member
	Complete   bool     // no node is known to be missing from Stances
}

// held is a leaf that we have.
type held struct {
	From, Until time.Time
	Issuer      string
	Spread      float64 // 0 to 1, so that the nodes do not all renew at once
}

// signing is an authority whose key we have.
type signing struct {
	Name  string
	Until time.Time
}

// decision says what to do, in this order.
type decision struct {
	Trust  []string  // the peers' authorities that the member must trust, sorted
	Server string    // the authority that must issue the server's leaf; "": keep the present leaf
	Peer   string    // the same for the peer's leaf
	Next   time.Time // when to decide again
}

// decide makes all decisions of this package. It depends on nothing but its arguments.
func decide(now time.Time, s situation) decision {
	d := decision{
		Trust: s.trust(now), Server: s.server(now), Peer: s.peer(now),
		Next: now.Add(min(time.Minute, s.Life/20)),
	}
	for _, h := range []*held{s.Server, s.Peer} {
		if h != nil && h.renewal().After(now) && h.renewal().Before(d.Next) {
			d.Next = h.renewal()
		}
	}
	return d
}

// trust returns the bundle, plus every remembered authority whose leaves somebody still presents, or might present.
func (s situation) trust(now time.Time) []string {
	presented := map[string]bool{}
	for _, st := range s.Stances {
		presented[st.Issuer] = true
	}
	if s.Peer != nil {
		presented[s.Peer.Issuer] = true
	}
	all := map[string]bool{}
	for _, name := range s.Bundle {
		all[name] = true
	}
	for name, until := range s.Remembered {
		if now.Before(until) && (presented[name] || !s.Complete) {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// server decides on the server's leaf. Only clients check it, and they get a new authority before it signs.
func (s situation) server(now time.Time) string {
	if len(s.Clients) == 0 {
		return ""
	}
	primary := s.Clients[0]
	if h := s.Server; h.usable(now) && (h.Issuer == primary.Name || !now.Before(primary.Until)) &&
		!(h.due(now) && s.gains(now, h, primary)) {
		return ""
	}
	return primary.Name
}

// peer decides on the peer's leaf. It never replaces a leaf that the running members accept by one that they do not,
// until the last tenth of its life.
func (s situation) peer(now time.Time) string {
	if len(s.Peers) == 0 {
		return ""
	}
	h, primary := s.Peer, s.Peers[0]
	if !h.usable(now) {
		for _, p := range s.Peers {
			if s.trustedByAll(p.Name) && now.Before(p.Until) {
				return p.Name
			}
		}
		return primary.Name
	}
	if h.Issuer != primary.Name && now.Before(primary.Until) && s.trustedByAll(primary.Name) &&
		(s.Complete || !s.trustedByAll(h.Issuer)) {
		return primary.Name
	}
	if !h.due(now) {
		return ""
	}
	for _, p := range s.Peers {
		if p.Name == h.Issuer && s.gains(now, h, p) {
			return p.Name
		}
	}
	if h.passed(now, 0.9) && s.gains(now, h, primary) {
		return primary.Name
	}
	return ""
}

// trustedByAll reports whether every known running member accepts an authority's leaves.
func (s situation) trustedByAll(name string) bool {
	return !slices.ContainsFunc(s.Stances,
		func(st Stance) bool { return st.Trusts != nil && !slices.Contains(st.Trusts, name) })
}

// lasting returns what a running member trusts and will still trust after its next start; nil if none runs. Other nodes
// must not rely on an authority that is about to be dropped.
func lasting(loaded, file []string) []string {
	if loaded == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(loaded), func(name string) bool { return !slices.Contains(file, name) })
}

// gains reports whether a new leaf would last longer than the present one. No leaf outlives its authority.
func (s situation) gains(now time.Time, h *held, by signing) bool {
	until := now.Add(s.Life)
	if by.Until.Before(until) {
		until = by.Until
	}
	return until.After(h.Until)
}

func (h *held) usable(now time.Time) bool {
	return h != nil && !now.Before(h.From) && now.Before(h.Until)
}

// passed reports whether a part of the leaf's life is over.
func (h *held) passed(now time.Time, part float64) bool { return !now.Before(h.at(part)) }

func (h *held) due(now time.Time) bool { return !now.Before(h.renewal()) }

// renewal returns two thirds of the life, or up to a twentieth of the life earlier.
func (h *held) renewal() time.Time { return h.at(2.0/3 - h.Spread/20) }

func (h *held) at(part float64) time.Time {
	return h.From.Add(time.Duration(part * float64(h.Until.Sub(h.From))))
}
