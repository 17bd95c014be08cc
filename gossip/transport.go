package gossip

import (
	"bufio"
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
	maxPacket     = 8 << 10     // bytes; memberlist's own packets have 1,400
)

// transport is memberlist's, over TLS. It looks at what comes in before memberlist does (guard.go), takes a bounded
// number of connections (door.go), and a stream that we open ends with its timeout and with ctx: memberlist sets no
// deadline when it sends a message, so a stopped peer could hold the sender forever.
//
// Each stream is a connection of its own, and the packets to one process share one (link.go), in one direction.
type transport struct {
	rules
	listener net.Listener
	dialer   net.Dialer
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	*doors
	links
	stream  func(to memberlist.Address, limit time.Duration) (net.Conn, error)
	connect func(to memberlist.Address) (*peerConn, error) // for packets
	ask     func(ctx context.Context, to memberlist.Address, question []byte) ([]byte, error)
	work    sync.WaitGroup
	stop    context.CancelFunc
	done    <-chan struct{} // closed at Shutdown
}

// rules are what a Mesh tells its transport.
type rules struct {
	papers TLS
	// known reports whether an address is one of the mesh, or was.
	known func(netip.Addr) bool
	// refused hears of what was refused, and why.
	refused func(from string, err error)
	// observed and asked serve an observer, and a node that has a question, if enter lets them in; else it tells them why.
	observed, asked func(ctx context.Context, conn *peerConn, enter func() error) error
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// listen begins to take what comes. Streams that we open end with ctx; packets are carried until Shutdown, for the last
// ones tell that we leave.
func listen(ctx context.Context, at netip.AddrPort, r rules) (*transport, error) {
	accepts := net.ListenConfig{Control: impatient} // what it accepts is impatient, too
	listener, err := accepts.Listen(ctx, "tcp", netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String())
	if err != nil {
		return nil, err
	}
	open, stop := context.WithCancel(context.WithoutCancel(ctx))
	t := &transport{rules: r, listener: listener, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		dialer: net.Dialer{LocalAddr: localAddr(at), Control: impatient}, doors: newDoors(r.refused),
		links: links{to: map[memberlist.Address]chan []byte{}}, stop: stop, done: open.Done()}
	t.stream = func(to memberlist.Address, limit time.Duration) (net.Conn, error) { return t.open(ctx, to, limit) }
	t.connect = func(to memberlist.Address) (*peerConn, error) { return t.dial(open, to, forPackets, streamTimeout) }
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
	return t, nil
}

// localAddr is where the others know us, if that is one address: by another one we would be a stranger.
func localAddr(at netip.AddrPort) net.Addr {
	if ip := at.Addr().Unmap(); !ip.IsUnspecified() {
		return &net.TCPAddr{IP: ip.AsSlice()}
	}
	return nil
}

// dial opens a connection to a node. No other one may answer. Of a seed memberlist does not know the name.
func (t *transport) dial(ctx context.Context, to memberlist.Address, purpose string, limit time.Duration) (*peerConn,
	error) {
	conn, err := t.papers.dial(ctx, t.dialer, to.Addr, purpose, limit)
	node, _, known := strings.Cut(to.Name, "#")
	if err == nil && known && !conn.speaksFor(node) {
		conn.cut()
		return nil, errOther
	}
	return conn, err
}

// open opens a stream, which ends with its timeout and with ctx.
func (t *transport) open(ctx context.Context, to memberlist.Address, limit time.Duration) (net.Conn, error) {
	end := time.Now().Add(limit)
	conn, err := t.dial(ctx, to, forStream, limit)
	if err != nil {
		blame(t.refused, to.Addr, err)
		return nil, err
	}
	if err := conn.SetDeadline(end); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	stop := context.AfterFunc(ctx, conn.cut)
	return &stream{peerConn: conn, limit: maxStream, closed: func() { stop() }, refused: t.refused}, nil
}

// accept takes connections until the listener is closed.
func (t *transport) accept(ctx context.Context) {
	server := t.papers.config(x509.ExtKeyUsageClientAuth, forObserver, forQuestion, forPackets, forStream)
	for {
		raw, err := t.listener.Accept()
		if err != nil {
			select {
			case <-t.done:
				return
			case <-time.After(10 * time.Millisecond): // of file descriptors, say, there are none left for a moment
			}
			continue
		}
		_ = t.unproven.enter(hostOf(raw.RemoteAddr()).String(), raw) // it is let in
		t.work.Go(func() { t.admit(ctx, tls.Server(raw, server)) })
	}
}

// admit waits until it is known who has connected, and for what, and serves it. Nothing is read before that.
func (t *transport) admit(ctx context.Context, over *tls.Conn) {
	raw := over.NetConn()
	end := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, err := t.papers.shake(ctx, over, x509.ExtKeyUsageClientAuth)
	from, limit, room := hostOf(raw.RemoteAddr()), maxStream, &t.inside
	known := t.known(from)
	if !known {
		limit = maxStranger
		if t.papers.Sign == nil {
			room = &t.strangers
		}
	}
	enter := func() error {
		t.unproven.leave(raw)
		err := room.enter(cmp.Or(conn.Node, from.String()), raw)
		if err != nil {
			refuse(conn, err)
		}
		return err
	}
	leave := func() {
		end()
		t.unproven.leave(raw)
		room.leave(raw)
	}
	switch {
	case err != nil:
	case conn.purpose == forObserver:
		room = &t.observers
		err = t.observed(ctx, conn, enter)
	case conn.Role != RoleNode:
		err = errSpeaks
	case conn.purpose == forQuestion:
		room = &t.questions
		err = t.asked(ctx, conn, enter)
	case conn.purpose == forPackets:
		_ = enter() // it is let in
		err = t.receive(conn)
	default:
		_ = enter()
		s := &stream{peerConn: conn, limit: limit, closed: leave, refused: t.refused}
		select {
		case t.streams <- s:
		case <-t.done:
			_ = s.Close()
		}
		return
	}
	leave()
	_ = raw.Close()
	if err != nil && !hungUp(err) && !errors.Is(err, errOwn) &&
		!(known && errors.Is(err, errSlow)) { // or a node that has paused
		t.refused(raw.RemoteAddr().String(), err)
	}
}

// receive gives memberlist the packets of a connection until it ends, or is silent for longer than a dialler keeps it.
func (t *transport) receive(conn *peerConn) error {
	r := bufio.NewReaderSize(conn, 4+maxPacket)
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
		if err := conn.verify(); err != nil {
			return err
		}
		if err := checkPacket(packet); err != nil {
			t.refused(conn.RemoteAddr().String(), err)
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: packet, From: conn.RemoteAddr(), Timestamp: time.Now()}:
		case <-t.done:
		}
	}
}

func (t *transport) WriteTo(packet []byte, address string) (time.Time, error) {
	return t.WriteToAddress(packet, memberlist.Address{Addr: address})
}

func (t *transport) WriteToAddress(packet []byte, to memberlist.Address) (time.Time, error) {
	return time.Now(), t.post(packet, to)
}

// Shutdown implements memberlist.Transport. Packets that wait are written if that takes no time.
func (t *transport) Shutdown() error {
	t.links.mu.Lock() // memberlist still sends: a link that has begun is waited for, and none begins
	t.stop()
	t.links.mu.Unlock()
	err := t.listener.Close()
	t.work.Wait()
	return err
}

// FinalAdvertiseAddr implements memberlist.Transport. The address is always given, as Mesh.configure does.
func (t *transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	return net.ParseIP(ip), port, nil
}

// GetAutoBindPort is the port that is listened on.
func (t *transport) GetAutoBindPort() int { return t.listener.Addr().(*net.TCPAddr).Port }

func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

func (t *transport) DialTimeout(address string, limit time.Duration) (net.Conn, error) {
	return t.stream(memberlist.Address{Addr: address}, limit)
}

func (t *transport) DialAddressTimeout(a memberlist.Address, limit time.Duration) (net.Conn, error) {
	return t.stream(a, limit)
}
