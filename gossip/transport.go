package gossip

import (
	"bufio"
	"bytes"
	"cmp"
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
// With TLS each stream is a connection of its own, and the packets to one process share one (link.go), in one
// direction, each behind its length. Without TLS packets go over UDP.
type transport struct {
	rules
	tls      *TLS // nil: in the clear, or under memberlist's keys
	listener net.Listener
	udp      *net.UDPConn // nil with TLS
	dialer   net.Dialer
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	*doors
	links
	stream  func(to memberlist.Address, limit time.Duration) (net.Conn, error)
	connect func(to memberlist.Address) (*tls.Conn, error) // for packets
	ask     func(ctx context.Context, to memberlist.Address, question []byte) ([]byte, error)
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
	// papers are what is shown to others, and what they must show. observed and asked serve an observer, and a node that
	// has a question, if enter lets them in.
	papers          TLS
	observed, asked func(ctx context.Context, conn *tls.Conn, enter func() error) error
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// listen begins to take what comes. Streams that we open end with ctx; packets are carried until Shutdown, for the last
// ones tell that we leave.
func listen(ctx context.Context, at netip.AddrPort, r rules, over *TLS) (*transport, error) {
	open, stop := context.WithCancel(context.WithoutCancel(ctx))
	t := &transport{rules: r, tls: over, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		dialer: net.Dialer{LocalAddr: localAddr(at), Control: impatient}, doors: newDoors(r.refused),
		links: links{to: map[memberlist.Address]*link{}}, stop: stop, done: open.Done()}
	if err := t.bind(at); err != nil {
		stop()
		return nil, err
	}
	t.stream = func(to memberlist.Address, limit time.Duration) (net.Conn, error) { return t.open(ctx, to, limit) }
	t.connect = func(to memberlist.Address) (*tls.Conn, error) {
		conn, _, err := t.dial(open, to, forPackets, streamTimeout)
		return conn, err
	}
	t.ask = func(ctx context.Context, to memberlist.Address, question []byte) ([]byte, error) {
		if open.Err() != nil {
			return nil, errNotRunning
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(open, cancel)()
		return t.question(ctx, to, question)
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

// dial opens a connection to a node over TLS. No other one may answer. Of a seed memberlist does not know the name.
func (t *transport) dial(ctx context.Context, to memberlist.Address, protocol string, limit time.Duration) (*tls.Conn,
	Speaker, error) {
	conn, from, err := t.papers.dial(ctx, t.dialer, to.Addr, protocol, limit)
	node, _, known := strings.Cut(to.Name, "#")
	if err == nil && (from.Role != RoleNode || known && !from.speaksFor(node)) {
		err = errors.Join(errOther, conn.Close())
	}
	return conn, from, err
}

// open opens a stream, which ends with its timeout and with ctx.
func (t *transport) open(ctx context.Context, to memberlist.Address, limit time.Duration) (net.Conn, error) {
	end := time.Now().Add(limit)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var conn, raw net.Conn
	var from Speaker
	var err error
	if t.tls == nil {
		raw, err = t.dialer.DialContext(limited, "tcp", to.Addr)
		conn = raw
	} else if over, speaker, wrong := t.dial(limited, to, forStream, limit); wrong != nil {
		err = wrong
	} else {
		conn, raw, from = over, over.NetConn(), speaker
	}
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(end); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	return t.rules.stream(conn, from, nil, maxStream, func() { stop() }), nil
}

// accept takes connections until the listener is closed.
func (t *transport) accept(ctx context.Context) {
	protocols := []string{forObserver, forQuestion}
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
		_ = t.unproven.enter(hostOf(raw.RemoteAddr()).String(), raw) // it is let in
		t.work.Go(func() { t.admit(ctx, raw, server) })
	}
}

// admit waits until it is known what a connection is for, and serves it.
func (t *transport) admit(ctx context.Context, raw net.Conn, server *tls.Config) {
	end := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, speaker, protocol, err := t.begin(ctx, raw, server)
	over, secure := conn.(*tls.Conn)
	from, limit, room := hostOf(raw.RemoteAddr()), maxStream, &t.inside
	if !t.known(from) {
		limit = maxStranger
		if !secure {
			room = &t.strangers
		}
	}
	enter := func() error {
		t.unproven.leave(raw)
		return room.enter(cmp.Or(speaker.Node, from.String()), raw)
	}
	leave := func() {
		end()
		t.unproven.leave(raw)
		room.leave(raw)
	}
	switch {
	case err != nil:
	case protocol == forObserver:
		room = &t.observers
		err = t.observed(ctx, over, enter)
	case secure && speaker.Role != RoleNode:
		err = errSpeaks
	case protocol == forQuestion:
		room = &t.questions
		err = t.asked(ctx, over, enter)
	case protocol == forPackets:
		_ = enter() // it is let in
		err = t.receive(over)
	default:
		_ = enter()
		t.handOn(t.rules.stream(conn, speaker, t.head(), limit, leave))
		return
	}
	leave()
	_ = raw.Close()
	t.told(raw.RemoteAddr(), err)
}

// begin waits until it is known who speaks on a connection, and for what. With TLS nothing is read before that.
func (t *transport) begin(ctx context.Context, raw net.Conn, server *tls.Config) (conn net.Conn, from Speaker,
	protocol string, err error) {
	conn = raw
	if t.tls == nil {
		in := bufio.NewReader(raw)
		conn = buffered{raw, in}
		_ = raw.SetReadDeadline(time.Now().Add(handshakeTime)) // if it cannot be set the connection has ended
		first, err := in.Peek(1)
		_ = raw.SetReadDeadline(time.Time{})
		if err != nil {
			return conn, from, "", t.papers.whyNot(err)
		}
		if first[0] != recordTLS {
			return conn, from, forStream, nil
		}
	}
	over := tls.Server(conn, server)
	from, err = t.papers.shake(ctx, over, handshakeTime)
	return over, from, over.ConnectionState().NegotiatedProtocol, err
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
	return t.WriteToAddress(packet, memberlist.Address{Addr: address})
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *transport) WriteToAddress(packet []byte, to memberlist.Address) (time.Time, error) {
	now := time.Now()
	if t.tls != nil {
		return now, t.post(packet, to)
	}
	at, err := net.ResolveUDPAddr("udp", to.Addr)
	if err == nil {
		_, err = t.udp.WriteTo(packet, at)
	}
	return now, err
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
