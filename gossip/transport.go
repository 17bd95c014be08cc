package gossip

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Bounds of the connections.
const (
	handshakeTime = streamTimeout
	recheck       = time.Minute // how often the certificate of an open connection is verified again
	maxPacket     = 8 << 10     // bytes, with TLS; memberlist's own packets have 1,400
	freePorts     = 10          // tried where any port will do: the one that TCP was given may be taken for UDP
)

// transport is memberlist's. It looks at what comes in before memberlist does (guard.go), takes a bounded number of
// connections (door.go), and a stream that we open ends with its timeout and with ctx: memberlist sets no deadline when
// it sends a message, so a stopped peer could hold the sender forever.
//
// With TLS each stream is a connection of its own, and the packets to one address share one (link.go), in one
// direction, each behind its length. Without TLS packets go over UDP.
type transport struct {
	rules
	tls      *TLS // nil: in the clear, or under memberlist's keys
	listener net.Listener
	udp      *net.UDPConn // nil with TLS
	dialer   net.Dialer
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	doors
	links
	stream  func(to memberlist.Address, limit time.Duration) (net.Conn, error)
	connect func(address string) (*tls.Conn, error) // for packets
	work    sync.WaitGroup
	stop    context.CancelFunc
	done    <-chan struct{} // closed at Shutdown
}

// rules are what a Mesh tells its transport.
type rules struct {
	label string
	keyed bool // encrypted by memberlist
	// known reports whether an address is one of the mesh, or was.
	known func(netip.Addr) bool
	// refused hears of what was refused, and why.
	refused func(from net.Addr, err error)
	// observed serves an observer until its connection, or this node, ends. papers are what both show.
	observed func(conn *tls.Conn, done <-chan struct{}) error
	papers   TLS
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// listen begins to take what comes. Streams that we open end with ctx; packets are carried until Shutdown, for the last
// ones tell that we leave.
func listen(ctx context.Context, at netip.AddrPort, r rules, over *TLS) (*transport, error) {
	open, stop := context.WithCancel(context.WithoutCancel(ctx))
	t := &transport{rules: r, tls: over, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		dialer: net.Dialer{LocalAddr: localAddr(at), Control: impatient}, doors: newDoors(),
		links: links{to: map[string]*link{}}, stop: stop, done: open.Done()}
	if err := t.bind(at); err != nil {
		stop()
		return nil, err
	}
	t.stream = func(to memberlist.Address, limit time.Duration) (net.Conn, error) { return t.open(ctx, to, limit) }
	t.connect = func(address string) (*tls.Conn, error) {
		conn, _, err := t.tls.dial(open, t.dialer, address, forPackets, streamTimeout)
		return conn, err
	}
	t.work.Go(func() { t.accept(open) })
	if t.udp != nil {
		t.work.Go(t.receiveUDP)
	}
	return t, nil
}

func (t *transport) bind(at netip.AddrPort) (err error) {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	accepts := net.ListenConfig{Control: impatient} // what it accepts is impatient, too
	for tries := freePorts; tries > 0; tries-- {
		if t.listener, err = accepts.Listen(context.Background(), "tcp", at.String()); err != nil || t.tls != nil {
			return err
		}
		bound := netip.AddrPortFrom(at.Addr(), uint16(t.GetAutoBindPort()))
		if t.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(bound)); err == nil {
			_ = t.udp.SetReadBuffer(2 << 20) // as memberlist's own transport does; the kernel may give less
			return nil
		}
		err = errors.Join(err, t.listener.Close())
		if at.Port() != 0 {
			return err
		}
	}
	return err
}

// localAddr is where the others know us, if that is one address: by another one we would be a stranger.
func localAddr(at netip.AddrPort) net.Addr {
	if ip := at.Addr().Unmap(); !ip.IsUnspecified() {
		return &net.TCPAddr{IP: ip.AsSlice()}
	}
	return nil
}

// open opens a stream, which ends with its timeout and with ctx. If it is meant for a node no other may answer.
func (t *transport) open(ctx context.Context, to memberlist.Address, limit time.Duration) (net.Conn, error) {
	end := time.Now().Add(limit)
	var conn, raw net.Conn
	var from Speaker
	if t.tls == nil {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		var err error
		if raw, err = t.dialer.DialContext(limited, "tcp", to.Addr); err != nil {
			return nil, err
		}
		conn = raw
	} else {
		over, speaker, err := t.tls.dial(ctx, t.dialer, to.Addr, forStream, limit)
		if err != nil {
			return nil, err
		}
		node, _, known := strings.Cut(to.Name, "#") // the name of a process; of a seed there is none
		if known && !speaker.speaksFor(node) {
			return nil, errors.Join(errOther, over.Close())
		}
		conn, raw, from = over, over.NetConn(), speaker
	}
	if err := conn.SetDeadline(end); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	return t.rules.stream(conn, from, nil, maxStream, func() { stop() }), nil
}

// accept takes connections until the listener is closed.
func (t *transport) accept(ctx context.Context) {
	protocols := []string{forObserver}
	if t.tls != nil {
		protocols = append(protocols, forPackets, forStream)
	}
	server := t.papers.config(x509.ExtKeyUsageClientAuth, protocols...)
	for {
		raw, err := t.listener.Accept()
		if err != nil {
			if !t.pause() {
				return
			}
			continue
		}
		from := hostOf(raw.RemoteAddr())
		entrance, limit := t.door(t.known(from))
		if !entrance.enter(from) {
			t.refused(raw.RemoteAddr(), errStreams)
			_ = raw.Close()
			continue
		}
		t.work.Go(func() { t.admit(ctx, raw, server, entrance, limit) })
	}
}

// admit waits until it is known what a connection is for, and serves it.
func (t *transport) admit(ctx context.Context, raw net.Conn, server *tls.Config, entrance *door, limit int) {
	from := hostOf(raw.RemoteAddr())
	end := context.AfterFunc(ctx, func() { _ = raw.Close() })
	leave := func(d *door) func() { return sync.OnceFunc(func() { end(); d.leave(from) }) }
	begun, over := t.begun(raw)
	if !over {
		t.handOn(t.rules.stream(begun, Speaker{}, t.head(), limit, leave(entrance)))
		return
	}
	conn := tls.Server(begun, server)
	speaker, err := t.papers.shake(ctx, conn, handshakeTime)
	entrance.leave(from)
	protocol, inside := conn.ConnectionState().NegotiatedProtocol, t.inside
	switch {
	case err != nil:
	case protocol == forObserver:
		inside = t.observers
	case speaker.Role != RoleNode:
		err = errSpeaks
	}
	if err == nil && !inside.enter(from) {
		err = inside.full
	}
	if err != nil {
		end()
		_ = raw.Close()
		t.told(raw.RemoteAddr(), err)
		return
	}
	switch protocol {
	case forStream:
		t.handOn(t.rules.stream(conn, speaker, t.head(), limit, leave(inside)))
		return
	case forObserver:
		err = t.observed(conn, t.done)
	default:
		err = t.receive(conn)
	}
	t.told(raw.RemoteAddr(), err)
	leave(inside)()
	_ = raw.Close()
}

// begun waits for the first byte of a connection, and reports whether it is TLS's. With TLS nothing else is read.
func (t *transport) begun(raw net.Conn) (conn net.Conn, over bool) {
	if t.tls != nil {
		return raw, true
	}
	in := bufio.NewReader(raw)
	_ = raw.SetReadDeadline(time.Now().Add(handshakeTime)) // if it cannot be set the connection has ended
	first, err := in.Peek(1)
	if err != nil {
		_ = raw.Close() // memberlist would wait again
	}
	_ = raw.SetReadDeadline(time.Time{})
	return buffered{raw, in}, err == nil && first[0] == recordTLS
}

// recordTLS is the first byte of TLS, and of nothing that memberlist says.
const recordTLS = 22

// buffered is a connection of which something has been read.
type buffered struct {
	net.Conn
	in *bufio.Reader
}

func (c buffered) Read(p []byte) (int, error) { return c.in.Read(p) }

// pause waits after an error of a listener: of file descriptors, say, there are none left for a moment. It returns
// false at Shutdown.
func (t *transport) pause() bool {
	select {
	case <-t.done:
		return false
	case <-time.After(10 * time.Millisecond):
		return true
	}
}

// told reports why a connection ended, unless the other side only went away.
func (t *transport) told(from net.Addr, err error) {
	if err != nil && !hungUp(err) {
		t.refused(from, err)
	}
}

// handOn gives a stream to memberlist.
func (t *transport) handOn(s *stream) {
	select {
	case t.streams <- s:
	case <-t.done:
		_ = s.Close()
	}
}

// receive takes packets off a connection until it ends, or is silent for longer than a dialler keeps it.
func (t *transport) receive(conn *tls.Conn) error {
	r := bufio.NewReaderSize(conn, 4+maxPacket)
	checked := time.Now()
	for {
		if err := conn.SetReadDeadline(time.Now().Add(2 * linkIdle)); err != nil {
			return err
		}
		packet, err := readFrame(r, maxPacket)
		switch {
		case errors.Is(err, errHeader), err == nil && len(packet) == 0:
			return errHeader
		case err != nil:
			return nil // it has ended
		}
		if now := time.Now(); now.Sub(checked) >= recheck {
			if _, err := t.tls.check(conn.ConnectionState().PeerCertificates, x509.ExtKeyUsageClientAuth); err != nil {
				return err
			}
			checked = now
		}
		t.take(packet, conn.RemoteAddr())
	}
}

// receiveUDP takes packets until Shutdown.
func (t *transport) receiveUDP() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := t.udp.ReadFrom(buf)
		if err == nil {
			t.take(bytes.Clone(buf[:n]), from)
		} else if !t.pause() {
			return
		}
	}
}

// take gives a packet to memberlist.
func (t *transport) take(packet []byte, from net.Addr) {
	if err := t.packet(packet); err != nil {
		t.refused(from, err)
		return
	}
	select {
	case t.packets <- &memberlist.Packet{Buf: packet, From: from, Timestamp: time.Now()}:
	case <-t.done:
	}
}

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(packet []byte, address string) (time.Time, error) {
	now := time.Now()
	if t.tls != nil {
		return now, t.post(packet, address)
	}
	to, err := net.ResolveUDPAddr("udp", address)
	if err == nil {
		_, err = t.udp.WriteTo(packet, to)
	}
	return now, err
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *transport) WriteToAddress(packet []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(packet, a.Addr)
}

// Shutdown implements memberlist.Transport. Packets that wait are written if that takes no time.
func (t *transport) Shutdown() error {
	t.links.mu.Lock() // memberlist still sends: a link that has begun is waited for, and none begins
	t.stop()
	t.links.mu.Unlock()
	err := t.listener.Close()
	if t.udp != nil {
		err = errors.Join(err, t.udp.Close())
	}
	t.work.Wait()
	return err
}

// FinalAdvertiseAddr implements memberlist.Transport. The address is always given, as Mesh.configure does.
func (t *transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	return net.ParseIP(ip), port, nil
}

// GetAutoBindPort is the port that is listened on.
func (t *transport) GetAutoBindPort() int { return t.listener.Addr().(*net.TCPAddr).Port }

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(address string, limit time.Duration) (net.Conn, error) {
	return t.stream(memberlist.Address{Addr: address}, limit)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(a memberlist.Address, limit time.Duration) (net.Conn, error) {
	return t.stream(a, limit)
}
