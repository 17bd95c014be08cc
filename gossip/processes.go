package gossip

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// peer is a live process other than ours. sent is the Seq of ours that was last sent to it, if it was told any.
type peer struct {
	meta    Meta
	gossip  netip.AddrPort
	since   time.Time
	proven  bool // it has said itself that it is meta: anybody may say who is live
	sent    uint64
	told    bool
	sending bool
}

// goneFor is longer than memberlist remembers dead processes (30 s, and one round of probes), and maxGone how many of
// them are too many to take in more observers; maxNodes more are too many for nodes.
const (
	goneFor = time.Minute + (maxNodes+maxObservers)*probeInterval
	maxGone = 4 * maxNodes
)

// processes are the live ones other than ours, observers among them, and those that are gone.
type processes struct {
	peers map[string]*peer // by Meta.process()
	// gone are the processes, by Meta.process(), that memberlist still remembers although it has given them up, as long
	// as that may be.
	gone map[string]time.Time
}

// remove notes that a process is gone.
func (s *processes) remove(process string, now time.Time) {
	delete(s.peers, process)
	s.forgetGone(now)
	s.gone[process] = now
}

// forgetGone forgets the processes that memberlist does not remember any more.
func (s *processes) forgetGone(now time.Time) {
	maps.DeleteFunc(s.gone, func(_ string, since time.Time) bool { return now.Sub(since) > goneFor })
}

// fits reports whether one more node, or observer at this address, may come: neither are too many live, nor have too
// many come and gone of late. Observers take no room of nodes.
func (s *processes) fits(observer bool, ip netip.Addr, now time.Time) bool {
	limit, gone, here := maxNodes-1, maxGone+maxNodes, 0
	if observer {
		limit, gone = maxObservers, maxGone
	}
	for _, p := range s.peers {
		if p.meta.Observer == observer {
			limit--
			if observer && p.gossip.Addr() == ip {
				here++
			}
		}
	}
	if len(s.gone) >= gone {
		s.forgetGone(now)
	}
	return limit > 0 && here < maxOfAddress && len(s.gone) < gone
}

// observers returns the observers that are live.
func (s *processes) observers() []Meta {
	var out []Meta
	for _, p := range s.peers {
		if p.meta.Observer {
			out = append(out, p.meta)
		}
	}
	slices.SortFunc(out, func(a, b Meta) int { return cmp.Compare(a.process(), b.process()) })
	return out
}

// heard returns where live processes gossip.
func (s *processes) heard() map[netip.AddrPort]bool {
	out := make(map[netip.AddrPort]bool, len(s.peers))
	for _, p := range s.peers {
		out[p.gossip] = true
	}
	return out
}
