package gossip

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
)

// knowledge is what this process knows of the mesh: a view under its lock, and the channels that say when to look at it
// again.
type knowledge struct {
	log     *zap.Logger
	changed chan struct{} // capacity 1: Nodes() changed
	behind  chan struct{} // capacity 1: a peer lacks our newest state

	mu    sync.Mutex // guards what follows; never held while memberlist is called
	view  *view
	stale chan struct{} // closed when Nodes() changes
	frame []byte        // everything for observers, encoded; nil when it is outdated
}

func newKnowledge(self Meta, forgetAfter time.Duration, lg *zap.Logger) *knowledge {
	v := newView(self, time.Now())
	v.forgetAfter = forgetAfter
	return &knowledge{log: lg, changed: make(chan struct{}, 1), behind: make(chan struct{}, 1), view: v,
		stale: make(chan struct{})}
}

// Nodes returns every node heard of, this one and the lost ones that are not forgotten included, sorted by name; at
// most 256, beyond which the longest started of the lost ones are forgotten. The caller owns the result, but not the
// states.
func (k *knowledge) Nodes() (nodes []Node) {
	k.with(func(v *view, _ time.Time) bool { nodes = v.list(); return false })
	return nodes
}

// with has f look at the view, or change it, once what is forgotten by time is. It returns what f does: whether a node
// changed.
func (k *knowledge) with(f func(v *view, now time.Time) (changed bool)) bool {
	k.mu.Lock()
	now := time.Now()
	k.view.fade(now)
	changed := f(k.view, now)
	gone := k.view.dropped
	k.view.dropped = nil
	if changed || len(gone) > 0 {
		close(k.stale)
		k.stale, k.frame = make(chan struct{}), nil
	}
	k.mu.Unlock()
	for _, name := range gone {
		k.log.Info("forgot lost node", zap.String("node", name))
	}
	if changed || len(gone) > 0 {
		poke(k.changed)
	}
	return changed
}

// look has f look at the view.
func look[T any](k *knowledge, f func(v *view) T) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return f(k.view)
}

// remembered returns every node, those that are forgotten by time included, sorted by name.
func (k *knowledge) remembered() []Node {
	return look(k, func(v *view) []Node { return v.listed(func(*record) bool { return true }) })
}

// Twins returns the live processes of other nodes that do not count for them, sorted: Ask takes them for nodes.
func (k *knowledge) Twins() []string {
	return look(k, func(v *view) (out []string) {
		for process, p := range v.peers {
			if v.passedOver(p) {
				out = append(out, process)
			}
		}
		slices.Sort(out)
		return out
	})
}

// Address is where the others reach our gossip. It is the zero value before Started.
func (k *knowledge) Address() netip.AddrPort {
	return look(k, func(v *view) netip.AddrPort { return v.here })
}

// listens notes where the others reach our gossip.
func (k *knowledge) listens(at netip.AddrPort) {
	k.with(func(v *view, _ time.Time) bool { v.here = at; return false })
}

// knows reports whether an address is our own, or that of a process that is or was in the mesh.
func (k *knowledge) knows(ip netip.Addr) bool {
	return look(k, func(v *view) bool { return v.knows(ip) })
}

// Changed yields a value after Nodes changed; several changes may yield one value.
func (k *knowledge) Changed() <-chan struct{} { return k.changed }

// UseEvidence sets the function that tells whether a state is evidence of a cluster. Without it every state is. Call it
// before Run.
func (k *knowledge) UseEvidence(evidence func(state []byte) bool) { k.view.evidence = evidence }

// Settle says whether this node is part of a cluster for good and needs no lost node as evidence of one: only then is
// evidence forgotten by time. What was forgotten comes back when that is no longer so.
func (k *knowledge) Settle(settled bool) {
	k.with(func(v *view, now time.Time) bool { v.settled = settled; v.fade(now); return false })
}

// forget forgets a lost node here; the others forget it when they hear of that. With dry it only says what it would.
func (k *knowledge) forget(f lastWord, dry bool) (refusal error) {
	k.with(func(v *view, now time.Time) bool {
		refusal = v.mayForget(f)
		return !dry && v.forget(f, 0, now)
	})
	return refusal
}

// publish replaces this process's own state.
func (k *knowledge) publish(state []byte) {
	if k.with(func(v *view, _ time.Time) bool { return v.publish(state) }) {
		poke(k.behind)
	}
}

// merge takes in what another process tells, of which the entries in counts are their speakers' own words.
func (k *knowledge) merge(told words, counts []entry) {
	k.with(func(v *view, now time.Time) bool { return v.merge(told, counts, now) })
}

// words returns all that is known, for a push/pull.
func (k *knowledge) words() (all words) {
	k.with(func(v *view, now time.Time) bool { all = v.words(now); return false })
	return all
}

// joined notes that memberlist hears of a process.
func (k *knowledge) joined(meta Meta, at netip.AddrPort) {
	if k.with(func(v *view, now time.Time) bool { return v.up(meta, at, now) }) {
		k.log.Info("found node", zap.String("node", meta.Node), zap.Stringer("gossip", at),
			zap.String("version", meta.Version))
	}
	poke(k.behind)
}

// left notes that a process left, or else that memberlist gave it up.
func (k *knowledge) left(meta Meta, itself bool) {
	if k.with(func(v *view, now time.Time) bool { return v.down(meta, now) }) {
		k.log.Info("lost node", zap.String("node", meta.Node), zap.Bool("left", itself))
	}
}

// room reports whether a process may become live: it is us, is live already, or one more fits.
func (k *knowledge) room(meta Meta) bool {
	return look(k, func(v *view) bool {
		return v.peers[meta.process()] != nil || meta == v.self || v.fits(time.Now())
	})
}

// twins names the live processes of other nodes that do not count.
func (k *knowledge) twins() (names map[string]string) {
	k.with(func(v *view, now time.Time) bool { names = v.twins(now); return false })
	return names
}

// alone reports whether no other node is live.
func (k *knowledge) alone() bool { return look(k, func(v *view) bool { return len(v.peers) == 0 }) }

// addresses returns where live processes gossip, and where the lost nodes gossiped last.
func (k *knowledge) addresses() (heard map[netip.AddrPort]bool, lost []netip.AddrPort) {
	k.mu.Lock()
	defer k.mu.Unlock()
	heard = map[netip.AddrPort]bool{}
	for _, p := range k.view.peers {
		heard[p.gossip] = true
	}
	for _, rec := range k.view.nodes {
		if !rec.Live && rec.gossip.IsValid() {
			lost = append(lost, rec.gossip)
		}
	}
	return heard, lost
}

// locate returns the live process that a question to a node, or to one of Twins, goes to.
func (k *knowledge) locate(node string) (Meta, netip.AddrPort, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rec := k.view.nodes[node]
	p := k.view.peers[node] // no node's name is a process's
	switch {
	case p != nil:
		return p.meta, p.gossip, nil
	case rec == nil:
		return Meta{}, netip.AddrPort{}, errors.New("no such node is known")
	case !rec.Live:
		return Meta{}, netip.AddrPort{}, errors.New("the node is not live")
	}
	return rec.Meta, rec.gossip, nil
}

// count returns how many nodes are live, or are not.
func (k *knowledge) count(live bool) float64 {
	return float64(len(look(k, func(v *view) []Node {
		return v.listed(func(r *record) bool { return r.Live == live && !r.faded })
	})))
}

// news reports whether a word is one that this process does not know.
func (k *knowledge) news(e entry) bool { return look(k, func(v *view) bool { return v.news(e) }) }

// signOwn puts a proof to our newest word where it lacks one by this certificate. A word that another certificate has
// proved becomes a new one.
func (k *knowledge) signOwn(certificate []byte, prove func(own entry) ([]byte, error)) error {
	var err error
	k.with(func(v *view, _ time.Time) bool {
		own := v.own
		renewed := !bytes.Equal(v.signer, certificate)
		if own.Proof != nil && !renewed {
			return false
		}
		if own.Proof != nil {
			own.Seq++
		}
		own.Proof, err = prove(own.entry)
		v.signer = certificate
		return own.Proof != nil
	})
	return err
}

// due returns our newest word, and the peers that it is to be sent to; each send ends with sent.
func (k *knowledge) due() (word []byte, to map[*peer]*memberlist.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	to = map[*peer]*memberlist.Node{}
	for _, p := range k.view.behind() {
		to[p] = destination(p.meta, p.gossip)
	}
	return words{entries: []entry{k.view.own.entry}}.encode(), to
}

// destination is where memberlist sends a message. Only name and address matter to it.
func destination(meta Meta, at netip.AddrPort) *memberlist.Node {
	return &memberlist.Node{Name: meta.process(), Addr: net.IP(at.Addr().AsSlice()), Port: at.Port()}
}

// sent notes that a send to a peer has ended. If it failed, the peer lacks our state still.
func (k *knowledge) sent(p *peer, ok bool) {
	k.mu.Lock()
	if p.sending = false; !ok {
		p.sent = 0
	}
	k.mu.Unlock()
	poke(k.behind)
}

// poke says "look again" on a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
