package plan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// scheme is what a node's configuration makes it serve to its peers, in a life that secures.
type scheme int

const (
	plain  scheme = iota // http, without TLS
	both                 // tls.from-http
	secure               // https
)

// The patterns of a life that secures.
const (
	plainURL  = "http://{slot}.main:2380"
	secureURL = "https://{slot}.main:2381"
)

func secured(seed uint64) life {
	r := rand.New(rand.NewPCG(seed, 9))
	l := life{
		slots: []int{1, 2, 3, 3, 3, 5}[r.IntN(6)], host: r.IntN(3) == 0, store: storeMode(1 + r.IntN(2)),
		ticks: 300 + r.IntN(1500), wipes: []int{0, 0, 1, 2}[r.IntN(4)], calm: r.IntN(3) == 0, old: true, secures: true,
	}
	l.restores = l.store == storeShared && r.IntN(2) == 0
	l.busy, l.drains = l.restores && r.IntN(2) == 0, r.IntN(4) == 0
	l.nodes = l.slots + r.IntN(3)
	return l
}

// peerURL is the pattern of the node's configuration.
func (n *node) peerURL() string {
	switch {
	case !n.w.secures:
		return simPeerURL
	case n.serves == plain:
		return plainURL
	}
	return secureURL
}

// fromHTTP is the port of http beside TLS.
func (n *node) fromHTTP() string {
	if n.serves == both {
		return "2380"
	}
	return ""
}

// serve gives the node another configuration, which it reads when it starts.
func (n *node) serve(s scheme) {
	if n.serves != s {
		n.w.note("%s is to serve %d", n.name, s)
		n.crash()
		n.serves = s
	}
}

// roll lets the operator give one more node the configuration that all are to have, or a wrong one by mistake, or want
// another one for all. Some steps wait until they are safe.
func (w *world) roll() {
	n := w.someNode()
	switch r := w.rng.IntN(100); {
	case r < 8 && w.wave < secure && w.rolled():
		w.wave++
	case r < 11:
		w.wave = scheme(w.rng.IntN(3))
	case r < 90:
		n.serve(w.wave)
	case r < 95:
		n.serve(scheme(w.rng.IntN(3)))
	default:
		for _, n := range w.boxes {
			n.serve(w.wave)
		}
	}
	n.boot()
}

// rolled reports whether all nodes have what the operator wants, and all URLs match it.
func (w *world) rolled() bool {
	return !slices.ContainsFunc(w.boxes, func(n *node) bool { return n.serves != w.wave }) &&
		(w.wave == plain || slices.ContainsFunc(w.clusters, func(c *cluster) bool {
			return c.leader != nil && !slices.ContainsFunc(c.members, func(m MemberInfo) bool { return !w.secure(m) })
		}))
}

// secure reports whether a member has an https URL, and its disk has noted that.
func (w *world) secure(m MemberInfo) bool {
	return strings.HasPrefix(m.PeerURL, "https:") && slices.ContainsFunc(w.here(), func(d *disk) bool {
		return d.data != nil && d.data.id == m.ID && (d.ledger.Record.Charter.PeerURL == secureURL || d.ledger.Secured != nil && d.ledger.Secured.Changed)
	})
}

// hears reports whether the gossip of two nodes uses the same scheme: both with TLS, or both without.
func (w *world) hears(n, m *node) bool {
	return !w.secures || (n.serves == plain) == (m.serves == plain)
}

// linked reports whether two running members can have a connection: either one dials the other at the URL in its list.
func (w *world) linked(n, m *node) bool {
	if !w.secures || n == m || n.proc == nil || m.proc == nil || n.proc.data.c != m.proc.data.c {
		return true
	}
	return n.dials(m) || m.dials(n)
}

func (n *node) dials(m *node) bool {
	i := slices.IndexFunc(n.proc.members, func(i MemberInfo) bool { return i.ID == m.proc.data.id })
	switch {
	case i < 0:
		return false
	case strings.HasPrefix(n.proc.members[i].PeerURL, "http:"):
		return m.serves != secure
	}
	return n.serves != plain && m.serves != plain
}

// talk: any two running members can have a connection, whatever the operator did.
func (w *world) talk(c *cluster) {
	for _, n := range w.boxes {
		for _, m := range w.boxes {
			if n.proc == nil || m.proc == nil || n.proc.data.c != c || m.proc.data.c != c || w.linked(n, m) {
				continue
			}
			if c.find(n.proc.data.id) != nil && c.find(m.proc.data.id) != nil {
				w.fail("R24: %s serves %d and %s serves %d, and neither finds the other: %v, %v", n.name, n.serves, m.name, m.serves, n.proc.members, m.proc.members)
			}
		}
	}
}

// update changes a member's URL through the log, if the node really leads.
func (c *cluster) update(w *world, by *node, a Action) {
	if o := by.observe(); Next(o).Kind != Update || c.leader != by || c.find(a.Member) == nil {
		return
	}
	for _, m := range c.members {
		i := slices.IndexFunc(w.here(), func(d *disk) bool { return d.data != nil && d.data.c == c && d.data.id == m.ID })
		if i >= 0 && w.here()[i].ledger.Secured == nil {
			w.fail("R24: %s changes the URL of slot %s, and disk %s has promised nothing", by.name, a.Slot, w.here()[i].uuid)
		}
	}
	if c.propose(w) {
		c.find(a.Member).PeerURL = a.PeerURL
		w.tally.event("a URL changed")
		c.attend(w, by)
	}
}

// ledgerRecord is the record of the generation that a restore ends, as far as the disk or the store knows it.
func (d *disk) ledgerRecord(st *store) *Record {
	if d.ledger.Record != nil {
		return d.ledger.Record
	}
	return st.record
}

// TestSecureSimulation simulates a cluster that was founded with http and gets TLS, and loses it, node by node or all
// at once, in any order, among crashes, partitions, losses and restores. Running members always find each other. Once
// the operator keeps to the order, all members have https, and later no http.
func TestSecureSimulation(t *testing.T) {
	s := sweepLives(t, 1500, 100, nil, of(secured))
	came(t, s, s.kinds, Note, Update)
	came(t, s, s.events, "a URL changed")
	s.well(t, 9)
}
