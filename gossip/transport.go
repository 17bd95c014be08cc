package gossip

import (
	"context"
	"errors"
	"log"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// How many streams that others have opened may be open at once. memberlist ends each after some seconds.
const (
	maxStreams   = 32 // of each address of the mesh
	maxFew       = 8  // of each other address
	maxStrangers = 32 // of all other addresses together
)

// carrier carries what memberlist says to the others, in packets and in streams.
type carrier interface {
	memberlist.NodeAwareTransport
	GetAutoBindPort() int
}

// transport is memberlist's own, over UDP and TCP, with three differences: it looks at what comes in before memberlist
// does (guard.go), it takes a bounded number of streams, and a stream we open ends with its timeout and with ctx.
// memberlist sets no deadline when it sends a message, so a stopped peer could hold the sender forever.
type transport struct {
	intake
	*memberlist.NetTransport
	dial func(address string, timeout time.Duration) (net.Conn, error)
}

// intake is what comes in and memberlist may see.
type intake struct {
	rules
	packets chan *memberlist.Packet
	streams chan net.Conn
	door    door
	work    sync.WaitGroup
	once    sync.Once
	done    chan struct{} // closed at Shutdown
}

func newIntake(r rules) intake {
	return intake{rules: r, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		door: door{open: map[netip.Addr]int{}}, done: make(chan struct{})}
}

// rules are what a Mesh tells its transport.
type rules struct {
	label string
	keyed bool
	// known reports whether an address is one of the mesh, or was.
	known func(netip.Addr) bool
	// process describes a live process, or this one; false if it is not known.
	process func(name string) (Meta, bool)
	// refused hears of what was refused, and why.
	refused func(from net.Addr, reason string, err error)
}

var _ carrier = (*transport)(nil)

func listen(ctx context.Context, at netip.AddrPort, r rules, lg *log.Logger) (*transport, error) {
	conf := &memberlist.NetTransportConfig{
		BindAddrs: []string{at.Addr().Unmap().String()},
		BindPort:  int(at.Port()),
		Logger:    lg,
	}
	tries := 1
	if at.Port() == 0 {
		tries = 10 // the port that TCP was given may be taken for UDP
	}
	var inner *memberlist.NetTransport
	var err error
	for range tries {
		if inner, err = memberlist.NewNetTransport(conf); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	from := localAddr(at)
	dial := func(address string, timeout time.Duration) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: timeout, LocalAddr: from}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return stream{guard(conn, "", r.keyed, maxStream), context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
	}
	t := &transport{intake: newIntake(r), NetTransport: inner, dial: dial}
	t.work.Go(t.takePackets)
	t.work.Go(t.takeStreams)
	return t, nil
}

// localAddr is where the others know us, if that is one address: by another one we would be a stranger.
func localAddr(at netip.AddrPort) net.Addr {
	if ip := at.Addr().Unmap(); !ip.IsUnspecified() {
		return &net.TCPAddr{IP: ip.AsSlice()}
	}
	return nil
}

// hostOf is the address of a connection, without its port.
func hostOf(from net.Addr) netip.Addr {
	tcp, ok := from.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	return ip.Unmap()
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

func (t *transport) takePackets() {
	for {
		select {
		case <-t.done:
			return
		case p := <-t.NetTransport.PacketCh():
			if err := vet(p.Buf, t.label, t.keyed); err != nil {
				t.refused(p.From, reasonOfGuard(err), err)
				continue
			}
			select {
			case t.packets <- p:
			case <-t.done:
				return
			}
		}
	}
}

func (t *transport) takeStreams() {
	for {
		select {
		case <-t.done:
			return
		case conn := <-t.NetTransport.StreamCh():
			limit, leave := t.enter(conn.RemoteAddr())
			if leave == nil {
				_ = conn.Close()
				continue
			}
			select {
			case t.streams <- stream{guard(conn, t.label, t.keyed, limit), leave}:
			case <-t.done:
				leave()
				_ = conn.Close()
				return
			}
		}
	}
}

// Shutdown implements memberlist.Transport. What waits to be handed on by the listeners is taken off them until they
// end.
func (t *transport) Shutdown() error {
	t.once.Do(func() { close(t.done) })
	t.work.Wait()
	ended := make(chan struct{})
	var drain sync.WaitGroup
	drain.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-t.NetTransport.PacketCh():
			case conn := <-t.NetTransport.StreamCh():
				_ = conn.Close()
			}
		}
	})
	err := t.NetTransport.Shutdown()
	close(ended)
	drain.Wait()
	return err
}

// enter returns how much may come over a stream and what to call when it ends; nil if there are too many.
func (t *transport) enter(from net.Addr) (limit int, leave func() bool) {
	ip := hostOf(from)
	known := t.known(ip)
	if !t.door.enter(ip, known) {
		t.refused(from, reasonFull, errStreams)
		return 0, nil
	}
	limit = maxStream
	if !known {
		limit = maxStranger
	}
	return limit, sync.OnceValue(func() bool { t.door.leave(ip, known); return true })
}

var errStreams = errors.New("it, or all that are not of this mesh together, have too many streams open")

// door counts the streams that are open.
type door struct {
	mu        sync.Mutex
	open      map[netip.Addr]int
	strangers int
}

func (d *door) enter(ip netip.Addr, known bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known && d.open[ip] >= maxStreams || !known && (d.open[ip] >= maxFew || d.strangers >= maxStrangers) {
		return false
	}
	d.open[ip]++
	if !known {
		d.strangers++
	}
	return true
}

func (d *door) leave(ip netip.Addr, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[ip]--; d.open[ip] <= 0 {
		delete(d.open, ip)
	}
	if !known {
		d.strangers--
	}
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	return t.dial(address, timeout)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.dial(a.Addr, timeout)
}

// stream tells somebody when it is closed.
type stream struct {
	net.Conn
	release func() bool
}

func (s stream) Close() error {
	s.release()
	return s.Conn.Close()
}
