package gossip

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
)

// endpoint is where this process gossips. There is nothing before Run.
type endpoint struct {
	at atomic.Pointer[netip.AddrPort]
}

// Address is where the others reach our gossip. It is the zero value before Started.
func (e *endpoint) Address() netip.AddrPort {
	if at := e.at.Load(); at != nil {
		return *at
	}
	return netip.AddrPort{}
}

// leave tells the others that this process leaves, for at most leaveTimeout. It returns as soon as nobody is left to be
// told, for which memberlist would wait. A node that is not told notices some seconds later.
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
