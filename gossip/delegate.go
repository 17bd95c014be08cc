package gossip

import (
	"fmt"
	"net/netip"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls. Most calls come under memberlist's own lock: none may call back
// into memberlist, and none may block.
type delegate struct{ *Mesh }

var (
	_ memberlist.Delegate      = delegate{}
	_ memberlist.EventDelegate = delegate{}
	_ memberlist.AliveDelegate = delegate{}
)

// NodeMeta returns what we say of ourselves; it is within the limit, as New has checked.
func (d delegate) NodeMeta(int) []byte { return encode(d.self) }

// GetBroadcasts returns nothing: states are larger than packets and go over streams.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns all we know, for a push/pull.
func (d delegate) LocalState(bool) []byte {
	return d.known.words().encode()
}

// MergeRemoteState takes in all that another node knows.
func (d delegate) MergeRemoteState(b []byte, _ bool) { d.NotifyMsg(b) }

// NotifyMsg takes in one message.
func (d delegate) NotifyMsg(b []byte) {
	var told words
	from, b, err := speakerOf(b)
	if err == nil {
		told, err = decodeWords(b)
	}
	if err != nil {
		reason, _ := reasonOf(err)
		d.reject(reason, "message/"+reason, fmt.Sprintf("some node: its messages are not understood: %v", err))
		return
	}
	d.known.merge(told, d.authentic(told.entries, from))
}

var errNodes = fmt.Errorf("%d nodes may be live", maxNodes)

// NotifyAlive refuses a process that we could not show. memberlist calls it again for every message about that process.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	meta, err := decodeMeta(n.Meta)
	if err == nil && n.Name != meta.process() {
		err = fmt.Errorf("it calls itself %q in its name and %q in its description", n.Name, meta.process())
	}
	if err == nil && !d.known.room(meta) {
		err = errNodes
	}
	if err != nil {
		reason, _ := reasonOf(err)
		d.reject(reason, reason+"/"+n.Addr.String(), fmt.Sprintf("%s: refused as a node: %v", n.Addr, err))
	}
	return err
}

// NotifyJoin notes that memberlist hears of a process.
func (d delegate) NotifyJoin(n *memberlist.Node) {
	meta, err := decodeMeta(n.Meta)
	if err != nil || meta == d.self {
		return // NotifyAlive let only readable ones in; we know about ourselves
	}
	at := netip.AddrPortFrom(addrOf(n), n.Port)
	d.known.joined(meta, at)
	d.settle(target{at: at}.key()) // a seed that was not there a moment ago is no problem any more
	for _, reason := range []string{reasonKey, reasonCertificate} {
		d.settle(reason + "/" + at.Addr().String())
	}
}

func addrOf(n *memberlist.Node) netip.Addr {
	ip, _ := netip.AddrFromSlice(n.Addr)
	return ip.Unmap()
}

// NotifyUpdate does nothing: what a process says of itself never changes.
func (d delegate) NotifyUpdate(*memberlist.Node) {}

// NotifyLeave notes that a process left, or that memberlist gave it up.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	if meta, err := decodeMeta(n.Meta); err == nil && meta != d.self {
		d.known.left(meta, n.State == memberlist.StateLeft)
	}
}
