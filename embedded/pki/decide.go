package pki

import (
	"maps"
	"slices"
	"time"
)

// situation is all that a decision depends on. Authorities are named by their fingerprints.
type situation struct {
	Life         time.Duration // of a new leaf
	Server, Peer *held         // the leaves that we have and could continue with; nil: none
	Clients      []signing     // who may issue the server's leaf, the primary first
	Peers        []signing     // and the peer's
	Bundle       []string      // the peers' authorities as they are given
	// Remembered are other authorities that we tell the member to trust at present, and when they end.
	Remembered map[string]time.Time
	Stances    []Stance // of all nodes that are known, our own member included
	Complete   bool     // nobody is known to be missing among them
}

// held is a leaf that we have.
type held struct {
	From, Until time.Time
	Issuer      string
	Spread      float64 // 0 to 1: so that the nodes do not all renew at once
}

// signing is an authority whose key we have.
type signing struct {
	Name  string
	Until time.Time
}

// decision is what to do, in this order.
type decision struct {
	Trust  []string  // what peers' authorities the member is to trust, sorted
	Server string    // the authority to issue the server's leaf by; "": keep what there is
	Peer   string    // and the peer's
	Next   time.Time // when to look again
}

// decide is the whole of what this package is about. It depends on nothing but its arguments.
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

// trust is the bundle, and of what was trusted before, whatever somebody presents still, or might.
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

// server is asked of by clients only, who are told of a new authority before it is put to use.
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

// peer never leaves a leaf that the running members accept for one that they do not, until the last tenth of its life.
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

// trustedByAll says whether every running member that is known accepts an authority's leaves.
func (s situation) trustedByAll(name string) bool {
	return !slices.ContainsFunc(s.Stances,
		func(st Stance) bool { return st.Trusts != nil && !slices.Contains(st.Trusts, name) })
}

// lasting is what a member that runs trusts, and will trust after its next start, too; nil if none runs. What is about
// to be dropped is nothing that others may rely on.
func lasting(loaded, file []string) []string {
	if loaded == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(loaded), func(name string) bool { return !slices.Contains(file, name) })
}

// gains says whether a new leaf would last longer than the present one: no leaf outlives its authority.
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

// passed says whether a part of the leaf's life is over.
func (h *held) passed(now time.Time, part float64) bool { return !now.Before(h.at(part)) }

func (h *held) due(now time.Time) bool { return !now.Before(h.renewal()) }

// renewal is at two thirds of the life, or up to a twentieth of it earlier.
func (h *held) renewal() time.Time { return h.at(2.0/3 - h.Spread/20) }

func (h *held) at(part float64) time.Time {
	return h.From.Add(time.Duration(part * float64(h.Until.Sub(h.From))))
}
