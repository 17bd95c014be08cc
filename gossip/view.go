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

// twinAfter is how long two processes of one node may be live together before it is a problem. A
// killed process is still listed for about 5 s beside the one that replaced it.
const twinAfter = 10 * time.Second

// Node is one node of the mesh as this process knows it.
type Node struct {
	Meta
	// Live says that memberlist hears of this very process.
	Live bool
	// Since is when Live last changed, or when this process replaced an older one; local clock.
	Since time.Time
	// State is what the process published last; nil means nothing yet.
	State []byte
	// Seq counts a process's published states from 1; 0 means nothing yet.
	Seq uint64
}

// record is a Node and where its gossip was last heard, which hearsay does not tell.
type record struct {
	Node
	gossip netip.AddrPort
}

// peer is a live process other than ours. sent is the Seq of ours that was last sent to it.
type peer struct {
	meta    Meta
	gossip  netip.AddrPort
	since   time.Time
	sent    uint64
	sending bool
}

// view is all a process knows of the mesh. It is plain data: the Mesh locks it and passes the time.
// Observers are live processes and never nodes: they are among the peers, so that they are told what nodes say, and
// forgotten when they go.
type view struct {
	self  Meta
	own   entry
	nodes map[string]*record // by Meta.Node
	peers map[string]*peer   // by Meta.process()
	// gone are the processes, by Meta.process(), that memberlist still remembers although it has given them up, as long
	// as that may be.
	gone map[string]time.Time
}

// goneFor is longer than memberlist remembers dead processes (30 s, and one round of probes), and maxGone how many of them
// are too many to take in more.
const (
	goneFor = 3 * time.Minute
	maxGone = 4 * maxNodes
)

func newView(self Meta, now time.Time) *view {
	v := &view{
		self:  self,
		own:   entry{Meta: self},
		nodes: map[string]*record{},
		peers: map[string]*peer{},
		gone:  map[string]time.Time{},
	}
	if !self.Observer {
		v.nodes[self.Node] = &record{Node: Node{Meta: self, Live: true, Since: now}}
	}
	return v
}

// publish replaces our own state and reports whether it is another one.
func (v *view) publish(state []byte) bool {
	if v.self.Observer || v.own.Seq > 0 && bytes.Equal(v.own.State, state) {
		return false
	}
	v.own.Seq++
	v.own.State = append([]byte{}, state...)
	if rec := v.nodes[v.self.Node]; rec.Boot == v.self.Boot {
		rec.Seq, rec.State = v.own.Seq, v.own.State
	}
	return true
}

// learn takes in what someone says a process published, and reports whether that was news. Of our own
// words nobody knows more than we do, so hearsay about this process or an older one of ours is dropped.
func (v *view) learn(e entry, now time.Time) bool {
	if e.Observer || v.ours(e.Node) && e.Boot <= v.self.Boot {
		return false
	}
	rec := v.nodes[e.Node]
	if rec != nil && (e.Boot < rec.Boot || e.Boot == rec.Boot && e.Seq <= rec.Seq) {
		return false
	}
	if rec == nil || e.Boot > rec.Boot {
		rec = v.replace(e.Meta, now)
	}
	if rec == nil {
		return false
	}
	if e.Seq > 0 {
		rec.Seq, rec.State = e.Seq, e.State
	}
	return true
}

// crowded reports whether so many processes have come and gone of late that no other one may come.
func (v *view) crowded(now time.Time) bool {
	if len(v.gone) >= maxGone {
		maps.DeleteFunc(v.gone, func(_ string, since time.Time) bool { return now.Sub(since) > goneFor })
	}
	return len(v.gone) >= maxGone
}

// up notes that memberlist hears of a process, and reports whether a node changed.
func (v *view) up(meta Meta, gossip netip.AddrPort, now time.Time) bool {
	delete(v.gone, meta.process())
	v.peers[meta.process()] = &peer{meta: meta, gossip: gossip, since: now}
	if meta.Observer {
		return false
	}
	rec := v.nodes[meta.Node]
	if rec == nil || meta.Boot > rec.Boot {
		return v.replace(meta, now) != nil
	}
	if meta.Boot < rec.Boot {
		return false
	}
	rec.gossip = gossip
	changed := !rec.Live
	if changed {
		rec.Live, rec.Since = true, now
	}
	return changed
}

// down notes that memberlist gave a process up. The node stays listed: its facts still count.
func (v *view) down(meta Meta, now time.Time) bool {
	delete(v.peers, meta.process())
	maps.DeleteFunc(v.gone, func(_ string, since time.Time) bool { return now.Sub(since) > goneFor })
	v.gone[meta.process()] = now
	rec := v.nodes[meta.Node]
	if meta.Observer || rec == nil || rec.Boot != meta.Boot || !rec.Live {
		return false
	}
	rec.Live, rec.Since = false, now
	return true
}

// replace starts a node's record anew for a later process. It returns nil if there is no room.
func (v *view) replace(meta Meta, now time.Time) *record {
	rec := &record{Node: Node{Meta: meta, Since: now}}
	if p := v.peers[meta.process()]; p != nil {
		rec.Live, rec.gossip = true, p.gossip
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
		if rec.Live || v.ours(rec.Node.Node) {
			continue
		}
		if oldest == nil || cmp.Or(cmp.Compare(rec.Boot, oldest.Boot), cmp.Compare(rec.Node.Node, oldest.Node.Node)) < 0 {
			oldest = rec
		}
	}
	if oldest != nil {
		delete(v.nodes, oldest.Node.Node)
	}
}

// ours reports whether a node's name is this process's own. An observer may be called as a node is.
func (v *view) ours(node string) bool { return node == v.self.Node && !v.self.Observer }

// observers returns the observers that are live.
func (v *view) observers() []Meta {
	var out []Meta
	for _, p := range v.peers {
		if p.meta.Observer {
			out = append(out, p.meta)
		}
	}
	slices.SortFunc(out, func(a, b Meta) int { return cmp.Compare(a.process(), b.process()) })
	return out
}

// list returns every known node, sorted by name.
func (v *view) list() []Node {
	out := make([]Node, 0, len(v.nodes))
	for _, name := range slices.Sorted(maps.Keys(v.nodes)) {
		n := v.nodes[name].Node
		n.State = bytes.Clone(n.State)
		out = append(out, n)
	}
	return out
}

// entries returns everything known as messages, lost nodes too.
func (v *view) entries() []entry {
	out := make([]entry, 0, len(v.nodes))
	for _, rec := range v.nodes {
		out = append(out, entry{Meta: rec.Meta, Seq: rec.Seq, State: rec.State})
	}
	return out
}

// behind marks as sending, and returns, the peers that lack our newest state and to which no send is under way.
func (v *view) behind() []*peer {
	var out []*peer
	for _, p := range v.peers {
		if !p.sending && p.sent < v.own.Seq {
			p.sending = true
			out = append(out, p)
		}
	}
	return out
}

// lost returns where the lost nodes gossiped last.
func (v *view) lost() []netip.AddrPort {
	var out []netip.AddrPort
	for _, rec := range v.nodes {
		if !rec.Live && rec.gossip.IsValid() {
			out = append(out, rec.gossip)
		}
	}
	return out
}

// heard returns where live processes gossip.
func (v *view) heard() map[netip.AddrPort]bool {
	out := make(map[netip.AddrPort]bool, len(v.peers))
	for _, p := range v.peers {
		out[p.gossip] = true
	}
	return out
}

// knows reports whether a node, live or lost, or a live observer has this address.
func (v *view) knows(ip netip.Addr) bool {
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
func (v *view) twin(bound netip.AddrPort) (netip.Addr, bool) {
	for _, p := range v.peers {
		if !p.meta.Observer && v.ours(p.meta.Node) && p.gossip != bound {
			return p.meta.Address, true
		}
	}
	return netip.Addr{}, false
}

// twins names the live processes that a later process of the same node has superseded for a while.
func (v *view) twins(now time.Time) map[string]string {
	out := map[string]string{}
	check := func(old Meta, since time.Time) {
		rec := v.nodes[old.Node]
		if old.Observer || rec == nil || old.Boot >= rec.Boot || now.Sub(since) < twinAfter || now.Sub(rec.Since) < twinAfter {
			return
		}
		out[old.process()] = fmt.Sprintf("%s: two processes have this node.name: the one at %s, started %s, is ignored for the one at %s, started %s; stop one of them, and restart the other if it is the one ignored",
			old.Node, old.Address, started(old), rec.Address, started(rec.Meta))
	}
	check(v.self, time.Time{})
	for _, p := range v.peers {
		check(p.meta, p.since)
	}
	return out
}

func started(m Meta) string { return time.Unix(0, int64(m.Boot)).UTC().Format(time.RFC3339) }
