package gossip

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
)

// endpoint is where this process gossips: memberlist, and what carries its messages. There is nothing before Run.
type endpoint struct {
	mu        sync.Mutex // guards what follows; never held while memberlist is called
	at        netip.AddrPort
	transport *transport
	list      *memberlist.Memberlist
	keys      *keyring // nil without keys
}

// bound notes where the listeners are.
func (e *endpoint) bound(streams *transport, at netip.AddrPort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.transport, e.at = streams, at
}

// begin notes that memberlist runs.
func (e *endpoint) begin(list *memberlist.Memberlist, keys *keyring) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list, e.keys = list, keys
}

// Address is where the others reach our gossip. It is the zero value before Started.
func (e *endpoint) Address() netip.AddrPort {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at
}

// running returns memberlist, nil before it runs.
func (e *endpoint) running() *memberlist.Memberlist {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.list
}

// leave tells the others that this process leaves, for at most leaveTimeout, and only while anybody is there to be
// told: memberlist waits on when they have left as well. Anyone who is not told notices by itself, some seconds later.
func leave(list *memberlist.Memberlist, lg *zap.Logger) {
	told := make(chan error, 1)
	go func() { told <- list.Leave(leaveTimeout) }()
	tick := time.NewTicker(gossipInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-told:
			if err != nil {
				lg.Debug("left gossip without telling all", zap.Error(err))
			}
			return
		case <-tick.C:
			if list.NumMembers() == 0 { // this process counts until it has begun to leave
				return
			}
		}
	}
}

// destination is where memberlist sends a message. Only name and address matter to it.
func destination(meta Meta, at netip.AddrPort) *memberlist.Node {
	return &memberlist.Node{Name: meta.process(), Addr: net.IP(at.Addr().AsSlice()), Port: at.Port()}
}
