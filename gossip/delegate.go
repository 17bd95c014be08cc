package gossip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
)

// delegate is what memberlist calls. Most calls come under memberlist's own lock: none may call back
// into memberlist, and none may block.
type delegate struct{ m *Mesh }

var (
	_ memberlist.Delegate      = delegate{}
	_ memberlist.EventDelegate = delegate{}
	_ memberlist.AliveDelegate = delegate{}
	_ memberlist.MergeDelegate = delegate{}
)

// NodeMeta returns what we say of ourselves; it fits the limit because New checked it.
func (d delegate) NodeMeta(int) []byte { return appendMeta(nil, d.m.self) }

// GetBroadcasts returns nothing: states are larger than packets and go over streams.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns all we know, for a push/pull.
func (d delegate) LocalState(bool) []byte {
	if d.m.self.Observer && d.m.tls != nil {
		return nil // nobody believes it
	}
	d.m.mu.Lock()
	now := time.Now()
	gone := d.m.view.fade(now)
	entries := d.m.view.entries(now)
	d.m.mu.Unlock()
	d.m.tellForgotten(gone)
	return encodeAll(entries)
}

// MergeRemoteState takes in all that another node knows.
func (d delegate) MergeRemoteState(b []byte, _ bool) { d.NotifyMsg(b) }

// NotifyMsg takes in one message.
func (d delegate) NotifyMsg(b []byte) {
	from, err := Speaker{Role: RoleNode}, error(nil)
	if d.m.tls != nil {
		from, b, err = speakerOf(b)
	}
	var msg any
	if err == nil {
		msg, err = decode(b)
	}
	if err != nil {
		reason := reasonUnreadable
		if errors.Is(err, errVersion) {
			reason = reasonVersion
		}
		d.m.reject(reason, "message/"+reason, fmt.Sprintf("some node: its messages are not understood: %v", err))
		return
	}
	switch msg := msg.(type) {
	case entry:
		d.m.merge([]entry{msg}, from)
	case []entry:
		d.m.merge(msg, from)
	case ask:
		if !from.speaksFor(msg.Node) {
			d.m.reject(reasonCertificate, "proof/"+msg.Node,
				fmt.Sprintf("%s: a question in its name was asked with a certificate of %q", msg.Node, from.Node))
			return
		}
		d.m.asked(msg)
	case answer:
		d.m.calls.answered(msg)
	}
}

// NotifyAlive refuses a process that we could not show. memberlist asks again at every message about it.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	meta, err := DecodeMeta(n.Meta)
	if err == nil && n.Name != meta.process() {
		err = fmt.Errorf("it calls itself %q in its name and %q in its description", n.Name, meta.process())
	}
	if err != nil {
		reason := reasonUnreadable
		if errors.Is(err, errVersion) {
			reason = reasonVersion
		}
		d.m.reject(reason, reason+"/"+n.Addr.String(), fmt.Sprintf("%s: refused as a node: %v", n.Addr, err))
		return err
	}
	if !d.m.room(meta) {
		err := fmt.Errorf("%d processes may be live, %d of them nodes in any case", maxNodes, nodesOnly)
		d.m.reject(reasonFull, reasonFull, fmt.Sprintf("%s: refused as a node: %v", meta.Node, err))
		return err
	}
	return nil
}

// NotifyMerge refuses to join a mesh of which we cannot read a single live node. Where only some are
// unreadable NotifyAlive refuses those: one odd node must not part the others.
func (d delegate) NotifyMerge(peers []*memberlist.Node) error {
	var refusal error
	for _, n := range peers {
		if n.State != memberlist.StateAlive && n.State != memberlist.StateSuspect {
			continue
		}
		if refusal = d.NotifyAlive(n); refusal == nil {
			return nil
		}
	}
	return refusal
}

// NotifyJoin takes in that memberlist hears of a process.
func (d delegate) NotifyJoin(n *memberlist.Node) {
	meta, err := DecodeMeta(n.Meta)
	if err != nil || meta == d.m.self {
		return // NotifyAlive let only readable ones in; we know about ourselves
	}
	ip, _ := netip.AddrFromSlice(n.Addr)
	at := netip.AddrPortFrom(ip.Unmap(), n.Port)
	d.m.mu.Lock()
	changed := d.m.view.up(meta, at, time.Now())
	d.m.mu.Unlock()
	d.m.notices.settle(target{at: at}.key()) // a seed that was not there a moment ago is no problem any more
	for _, reason := range []string{reasonKey, reasonCertificate} {
		d.m.notices.settle(reason + "/" + at.Addr().String())
	}
	poke(d.m.behind)
	if changed {
		poke(d.m.changed)
		d.m.lg.Info("found node", zap.String("node", meta.Node), zap.Stringer("gossip", at),
			zap.String("version", meta.Version))
	}
}

// NotifyUpdate does nothing: what a process says of itself never changes.
func (d delegate) NotifyUpdate(*memberlist.Node) {}

// NotifyLeave takes in that a process left, or that memberlist gave it up.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	meta, err := DecodeMeta(n.Meta)
	if err != nil || meta == d.m.self {
		return
	}
	d.m.mu.Lock()
	changed := d.m.view.down(meta, time.Now())
	d.m.mu.Unlock()
	if changed {
		poke(d.m.changed)
		d.m.lg.Info("lost node", zap.String("node", meta.Node), zap.Bool("left", n.State == memberlist.StateLeft))
	}
}

// room reports whether a process may become live: it is us, is live already, or one more fits. Observers leave room for
// nodes.
func (m *Mesh) room(meta Meta) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.view.peers[meta.process()]
	limit := maxNodes - 1
	if meta.Observer {
		limit -= nodesOnly
	}
	return known || meta == m.self || len(m.view.peers) < limit && !m.view.crowded(time.Now())
}

// reject counts something refused and warns of it.
func (m *Mesh) reject(reason, key, text string) {
	m.series.rejected.WithLabelValues(reason).Inc()
	m.notices.warn(key, text)
}

// refused takes in what the transport did not let in.
func (m *Mesh) refused(from net.Addr, reason string, err error) {
	host, _, splitErr := net.SplitHostPort(from.String())
	if splitErr != nil {
		host = "some node"
	}
	m.reject(reason, reason+"/"+host, host+": "+err.Error())
}

// knows reports whether somebody in the mesh, or who was, has this address.
func (m *Mesh) knows(ip netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return ip == m.bound.Addr() || m.view.knows(ip)
}

// process describes a live process, or this one.
func (m *Mesh) process(name string) (Meta, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == m.self.process() {
		return m.self, true
	}
	p := m.view.peers[name]
	if p == nil {
		return Meta{}, false
	}
	return p.meta, true
}
