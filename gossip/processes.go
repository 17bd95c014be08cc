package gossip

import (
	"maps"
	"net/netip"
	"time"
)

// peer is a live process other than ours. sent is how many words of ours there were when one was last sent to it.
type peer struct {
	meta    Meta
	gossip  netip.AddrPort
	since   time.Time
	proven  bool // it has said itself that it is meta: anybody may say who is live
	sent    uint64
	sending bool
}

// goneFor is longer than memberlist remembers dead processes (30 s, and one round of probes). With maxGone of them no
// more processes are taken in.
const (
	goneFor = time.Minute + maxNodes*probeInterval
	maxGone = 4 * maxNodes
)

// remove notes that a process is gone.
func (v *view) remove(process string, now time.Time) {
	delete(v.peers, process)
	v.forgetGone(now)
	v.gone[process] = now
}

// forgetGone forgets the processes that memberlist does not remember any more.
func (v *view) forgetGone(now time.Time) {
	maps.DeleteFunc(v.gone, func(_ string, since time.Time) bool { return now.Sub(since) > goneFor })
}

// fits reports whether one more process may come: neither are too many live, nor have too many come and gone lately.
func (v *view) fits(now time.Time) bool {
	if len(v.gone) >= maxGone {
		v.forgetGone(now)
	}
	return len(v.peers) < maxNodes-1 && len(v.gone) < maxGone
}
