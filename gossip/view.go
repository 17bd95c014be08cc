package gossip

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

const (
	// twinAfter is how long two processes of one node may be live together before it is a problem. A
	// killed process is still listed for about 5 s beside the one that replaced it.
	twinAfter = 10 * time.Second
	// together is the time within which two processes are heard of at once: a process that joins hears of all in one
	// push/pull.
	together = 2 * time.Second
)

// Node is one node of the mesh as this process knows it.
type Node struct {
	Meta
	// Live says that memberlist hears of this very process.
	Live bool
	// Since is when Live last changed, or when this process replaced an older one; local clock.
	Since time.Time
	// State is what the process published last; nil means nothing yet. It must not be changed.
	State []byte
	// Seq counts a process's published states from 1; 0 means nothing yet.
	Seq uint64
}

// record is what is known of a node.
type record struct {
	entry  // the latest word of the process that counts; Lost is not set
	Live   bool
	Since  time.Time
	gossip netip.AddrPort // where its gossip was last heard, which hearsay does not tell
	seen   bool           // this process has heard it alive, so that Since is no hearsay
	faded  bool           // forgotten by time
	other  entry          // the latest word of another process of this node, which counts when this one is gone
}

// view is all a process knows of the mesh. It is plain data: knowledge locks it and passes the time.
type view struct {
	self   Meta               // the zero value in an observer, which is no node
	here   netip.AddrPort     // where this process gossips; the zero value before Run
	own    *record            // ours
	signer []byte             // the certificate that own is signed with
	strict bool               // only what a node has proven to have said counts
	nodes  map[string]*record // by Meta.Node
	peers  map[string]*peer   // the live processes other than ours, by Meta.process()
	// gone are the processes, by Meta.process(), that memberlist still remembers although it has given them up, as long
	// as that may be.
	gone map[string]time.Time

	forgotten   tombstones
	dropped     []string      // nodes that were forgotten since anybody was told
	forgetAfter time.Duration // 0: never by time
	evidence    func(state []byte) bool
	settled     bool
}

func newView(self Meta, now time.Time) *view {
	v := &view{
		self:      self,
		own:       &record{entry: entry{Meta: self}, Live: true, Since: now},
		nodes:     map[string]*record{},
		peers:     map[string]*peer{},
		gone:      map[string]time.Time{},
		forgotten: tombstones{},
	}
	if self.Node != "" {
		v.nodes[self.Node] = v.own
	}
	return v
}

// publish replaces our own state and reports whether it changed.
func (v *view) publish(state []byte) bool {
	if v.own.Seq > 0 && bytes.Equal(v.own.State, state) {
		return false
	}
	v.own.entry = entry{Meta: v.self, Seq: v.own.Seq + 1, State: append([]byte{}, state...)}
	return true
}

// news reports whether a word is one that is not known.
func (v *view) news(e entry) bool {
	rec, p := v.nodes[e.Node], v.peers[e.process()]
	switch {
	case p != nil && !p.proven:
		return true
	case v.ours(e.Node) || v.dead(e):
		return false
	case rec == nil || e.Boot > rec.Boot && !rec.Live:
		return true
	case e.Boot != rec.Boot:
		return e.later(rec.other)
	}
	return e.Seq > rec.Seq || v.strict && rec.Proof == nil
}

// later reports whether a word is a later one than another of the same node.
func (e entry) later(than entry) bool {
	return cmp.Or(cmp.Compare(e.Boot, than.Boot), cmp.Compare(e.Seq, than.Seq)) > 0
}

// learn takes in what a process published, and reports whether a node changed. Nobody knows more of our own node than
// we do, so hearsay about it is dropped. No word makes a process count before the live one is gone; until then it is
// kept.
func (v *view) learn(e entry, now time.Time) bool {
	found := v.prove(e, now)
	if !v.news(e) {
		return found
	}
	rec := v.nodes[e.Node]
	if rec != nil && e.Boot != rec.Boot && (rec.Live || e.Boot < rec.Boot) {
		rec.other = e
		return found
	}
	if rec == nil || e.Boot != rec.Boot {
		if rec = v.replace(e.Meta, now); rec == nil {
			return false
		}
	}
	if e.Lost = 0; !rec.later(e) {
		rec.entry = e
	}
	return true
}

// prove makes a live process count once it has spoken itself, and reports whether a node changed.
func (v *view) prove(e entry, now time.Time) bool {
	p := v.peers[e.process()]
	if p == nil || p.proven {
		return false
	}
	p.meta, p.proven = e.Meta, true
	return v.count(p, now)
}

// up notes that memberlist hears of a process, and reports whether a node changed.
func (v *view) up(meta Meta, gossip netip.AddrPort, now time.Time) bool {
	delete(v.gone, meta.process())
	rec := v.nodes[meta.Node]
	spoke := rec != nil && (rec.Meta == meta || rec.other.Meta == meta)
	p := &peer{meta: meta, gossip: gossip, since: now, proven: !v.strict || spoke}
	v.peers[meta.process()] = p
	return v.count(p, now)
}

// count makes a live process count for its node, if it may, and reports whether a node changed.
func (v *view) count(p *peer, now time.Time) bool {
	meta, gossip := p.meta, p.gossip
	if !p.proven {
		return false
	}
	if meta.Boot >= v.forgotten[meta.Node].Boot {
		delete(v.forgotten, meta.Node)
	}
	rec := v.nodes[meta.Node]
	switch {
	case v.ours(meta.Node):
		return false
	case rec == nil || meta.Boot != rec.Boot && v.precedes(p, rec):
		return v.replace(meta, now) != nil
	case meta.Boot != rec.Boot:
		return false
	}
	rec.gossip, rec.seen = gossip, true
	changed := !rec.Live
	if changed {
		rec.Live, rec.Since, rec.faded = true, now, false
	}
	return changed
}

// precedes reports whether a live process counts for its node instead of the one that does now (doc.go, "Which process
// counts").
func (v *view) precedes(p *peer, rec *record) bool {
	switch now := v.peers[rec.process()]; {
	case p.gossip == rec.gossip:
		return p.meta.Boot > rec.Boot
	case now == nil:
		return true
	default:
		return p.since.Sub(now.since) < together && p.meta.Boot < rec.Boot
	}
}

// down notes that memberlist gave a process up. The node stays listed until it is forgotten: its facts still count. But
// if another process of that name is live, that one counts from now on.
func (v *view) down(meta Meta, now time.Time) bool {
	v.remove(meta.process(), now)
	rec := v.nodes[meta.Node]
	switch {
	case rec == nil:
		return false
	case rec.Boot != meta.Boot:
		if rec.other.Boot == meta.Boot {
			rec.other = entry{}
		}
		return false
	case !rec.Live:
		return false
	}
	rec.Live, rec.Since = false, now
	if next, ok := v.successor(rec); ok {
		v.replace(next, now)
	}
	return true
}

// successor returns the process that counts for a node whose process was lost: of the live ones the one that was heard
// first, else a later one that was only heard of.
func (v *view) successor(rec *record) (Meta, bool) {
	var next *peer
	for _, p := range v.peers {
		if !p.proven || p.meta.Node != rec.Node || !v.precedes(p, rec) {
			continue
		}
		if next == nil || cmp.Or(p.since.Compare(next.since), cmp.Compare(p.meta.Boot, next.meta.Boot)) < 0 {
			next = p
		}
	}
	if next != nil {
		return next.meta, true
	}
	return rec.other.Meta, rec.other.Boot > rec.Boot
}

// replace starts a node's record again for another process. It returns nil if there is no room.
func (v *view) replace(meta Meta, now time.Time) *record {
	rec := &record{entry: entry{Meta: meta}, Since: now}
	if p := v.peers[meta.process()]; p != nil && p.proven {
		rec.Live, rec.seen, rec.gossip = true, true, p.gossip
	}
	if old := v.nodes[meta.Node]; old != nil {
		if old.other.Boot == meta.Boot {
			rec.entry = old.other
		}
		if old.Live {
			rec.other = old.entry
		}
	}
	v.nodes[meta.Node] = rec
	if len(v.nodes) > maxNodes {
		v.evict()
	}
	return v.nodes[meta.Node]
}

// evict forgets the lost node with the lowest boot. Every process forgets the same one, so that they
// do not keep telling each other of nodes already forgotten.
func (v *view) evict() {
	var oldest *record
	for _, rec := range v.nodes {
		if rec.Live || v.ours(rec.Node) {
			continue
		}
		if oldest == nil || cmp.Or(cmp.Compare(rec.Boot, oldest.Boot), cmp.Compare(rec.Node, oldest.Node)) < 0 {
			oldest = rec
		}
	}
	if oldest != nil {
		delete(v.nodes, oldest.Node)
	}
}

// ours reports whether a node's name is this process's own.
func (v *view) ours(node string) bool { return node == v.self.Node }

// list returns every known node that is not forgotten, sorted by name.
func (v *view) list() []Node {
	return v.listed(func(r *record) bool { return !r.faded })
}

func (v *view) listed(which func(*record) bool) []Node {
	out := make([]Node, 0, len(v.nodes))
	for _, name := range slices.Sorted(maps.Keys(v.nodes)) {
		rec := v.nodes[name]
		if !which(rec) {
			continue
		}
		out = append(out, Node{rec.Meta, rec.Live, rec.Since, rec.State, rec.Seq})
	}
	return out
}

// behind marks as sending, and returns, the peers that lack our newest state and to which no send is under way.
func (v *view) behind() []*peer {
	var out []*peer
	if v.strict && v.own.Proof == nil { // nobody would believe it
		return nil
	}
	for _, p := range v.peers {
		if !p.sending && p.sent <= v.own.Seq && (v.strict || v.own.Seq > 0) {
			p.sending, p.sent = true, v.own.Seq+1
			out = append(out, p)
		}
	}
	return out
}

// knows reports whether an address is our own, or that of a process that is or was in the mesh.
func (v *view) knows(ip netip.Addr) bool {
	if ip == v.here.Addr() {
		return true
	}
	for _, p := range v.peers {
		if p.gossip.Addr() == ip {
			return true
		}
	}
	for _, rec := range v.nodes {
		if rec.Address == ip || rec.gossip.Addr() == ip {
			return true
		}
	}
	return false
}

// twin returns a live process that calls itself as we do, from another address: at ours there can be none,
// so that one is only not yet known to be gone.
func (v *view) twin() (netip.Addr, bool) {
	for _, p := range v.peers {
		if p.proven && v.ours(p.meta.Node) && p.gossip != v.here {
			return p.meta.Address, true
		}
	}
	return netip.Addr{}, false
}

// passedOver reports whether a live process of another node does not count for it.
func (v *view) passedOver(p *peer) bool {
	rec := v.nodes[p.meta.Node]
	return p.proven && !v.ours(p.meta.Node) && rec != nil && rec.Boot != p.meta.Boot
}

// twins names the live processes of other nodes that do not count, because for a while another one of the same name
// does.
func (v *view) twins(now time.Time) map[string]string {
	out := map[string]string{}
	for _, p := range v.peers {
		rec := v.nodes[p.meta.Node]
		if !v.passedOver(p) || now.Sub(p.since) < twinAfter || now.Sub(rec.Since) < twinAfter {
			continue
		}
		text := fmt.Sprintf("%s: two processes have this node.name: the one at %s, started %s, is ignored, because the one "+
			"at %s, started %s, was there first; stop the wrong one, and the other counts within seconds",
			rec.Node, p.meta.Address, started(p.meta), rec.Address, started(rec.Meta))
		if !rec.Live {
			text = fmt.Sprintf("%s: the process at %s, started %s, is ignored, because one that ran there before was started "+
				"%s, as its clock said: if this is the one that is meant, run `holdfast gossip forget %s`",
				rec.Node, p.meta.Address, started(p.meta), started(rec.Meta), rec.Node)
		}
		out[p.meta.process()] = text
	}
	return out
}

func started(m Meta) string { return time.Unix(0, int64(m.Boot)).UTC().Format(time.RFC3339) }
