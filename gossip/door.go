package gossip

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"
)

// Limits of inbound streams and TLS handshakes in progress. memberlist ends a stream after some seconds.
const (
	maxStreams   = 32 // of each address of the mesh
	maxFew       = 8  // of each other address
	maxStrangers = 32 // of all other addresses together
)

// Limits of inbound connections after the handshake.
const (
	maxConns     = 4 * maxNodes
	maxOfOne     = 2 * maxStreams // of which those of one address
	maxObservers = 512            // observers; a larger fleet asks a few of them by DNS
	maxOfAddress = 8              // of which those of one address
)

var (
	errStreams   = errors.New("it, or all that are not of this mesh together, have too many streams open")
	errObservers = fmt.Errorf("a node tells %d observers, %d of them at one address", maxObservers, maxOfAddress)
)

// doors are where connections come in.
type doors struct{ mesh, strangers, inside, observers *door }

func newDoors() doors {
	new := func(each, all int, full error) *door {
		return &door{each: each, all: all, full: full, open: map[netip.Addr]int{}}
	}
	return doors{new(maxStreams, math.MaxInt, errStreams), new(maxFew, maxStrangers, errStreams),
		new(maxOfOne, maxConns, errStreams), new(maxOfAddress, maxObservers, errObservers)}
}

// door returns the door for an address of the mesh or for any other, and how many bytes a stream from there may have.
func (d doors) door(known bool) (at *door, limit int) {
	if known {
		return d.mesh, maxStream
	}
	return d.strangers, maxStranger
}

// door counts open connections, by address.
type door struct {
	each, all int   // how many may be open, from one address and together
	full      error // for one more

	mu    sync.Mutex
	open  map[netip.Addr]int
	count int
}

func (d *door) enter(ip netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[ip] >= d.each || d.count >= d.all {
		return false
	}
	d.open[ip]++
	d.count++
	return true
}

func (d *door) leave(ip netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count--
	if d.open[ip]--; d.open[ip] <= 0 {
		delete(d.open, ip)
	}
}

// hostOf is the address of a connection, without its port.
func hostOf(from net.Addr) netip.Addr {
	tcp, ok := from.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}
