package gossip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Limits of inbound connections. Those that have not said what they are for end after handshakeTime, and memberlist
// ends a stream after some seconds.
const (
	maxUnproven  = 512 // connections that have not said what they are for
	maxOfOne     = 64  // connections of one node, or of one address
	maxConns     = 4 * maxNodes
	maxStrangers = 32  // with tls.mode off: connections from addresses outside the mesh
	maxObservers = 512 // observers; a larger fleet asks a few of them by DNS
	maxOfAddress = 8   // of strangers or observers, those of one address
	maxQuestions = 64  // that are answered at once
)

var (
	errStreams = errors.New("it, or all together, have opened more connections than they may have: the oldest one was " +
		"closed")
	errObservers = fmt.Errorf("a node tells %d observers, %d of them at one address", maxObservers, maxOfAddress)
)

// doors are where connections come in, each through unproven first.
type doors struct{ unproven, inside, strangers, observers, questions door }

// newDoors has refused hear of the connections that had to yield.
func newDoors(refused func(from string, err error)) *doors {
	yield := func(conn net.Conn) {
		_ = conn.Close()
		refused(conn.RemoteAddr().String(), errStreams)
	}
	return &doors{unproven: door{each: maxOfOne / 2, all: maxUnproven, yield: yield},
		inside:    door{each: maxOfOne, all: maxConns, yield: yield},
		strangers: door{each: maxOfAddress, all: maxStrangers, yield: yield},
		observers: door{each: maxOfAddress, all: maxObservers, full: errObservers},
		questions: door{each: maxQuestions / 4, all: maxQuestions, full: errBusy}}
}

// door bounds open connections. At a door where they yield, the oldest one is closed for a new one: what a genuine peer
// has to say takes milliseconds, so anyone who only holds connections open keeps nobody out.
type door struct {
	each, all int // how many may be open, of one peer and together
	yield     func(conn net.Conn)
	full      error // why one more is refused, where none yields

	mu   sync.Mutex
	open []guest // the oldest first
}

// guest is a connection, and whose it is: the node's that its certificate names, else its address's.
type guest struct {
	of   string
	conn net.Conn
}

// enter lets a connection in, or returns why it is refused.
func (d *door) enter(of string, conn net.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	its := func(g guest) bool { return g.of == of }
	n, oldest := 0, 0
	for _, g := range d.open {
		if its(g) {
			n++
		}
	}
	if n >= d.each {
		oldest = slices.IndexFunc(d.open, its)
	}
	if n >= d.each || len(d.open) >= d.all {
		if d.yield == nil {
			return d.full
		}
		d.yield(d.open[oldest].conn)
		d.open = slices.Delete(d.open, oldest, oldest+1)
	}
	d.open = append(d.open, guest{of, conn})
	return nil
}

func (d *door) leave(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(g guest) bool { return g.conn == conn })
}

// hostOf is the address of a connection over TCP, without its port.
func hostOf(from net.Addr) netip.Addr {
	return from.(*net.TCPAddr).AddrPort().Addr().Unmap()
}
