package gossip

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Bounds of the connections.
const (
	handshakeTime = streamTimeout
	linkIdle      = 30 * time.Second // without a packet, after which a connection is closed by who dialled it
	recheck       = time.Minute      // how often the certificate of an open connection is verified again
	maxPacket     = 8 << 10          // bytes; memberlist's own packets have 1,400
	maxLinks      = maxNodes         // connections for packets that we have dialled
	maxConns      = 4 * maxNodes     // admitted connections of others
	maxOfOne      = 2 * maxStreams   // of which those of one address
)

// secure is memberlist's transport over TLS. A stream is a connection of its own. Packets to one address share a
// connection (link.go), in one direction: each is behind its length in two bytes. There is no UDP.
type secure struct {
	intake
	tls      TLS
	listener net.Listener
	server   *tls.Config
	dialer   net.Dialer
	stop     context.CancelFunc // ends what is under way at Shutdown
	connect  func(address, protocol string, limit time.Duration) (*tls.Conn, Speaker, error)
	stream   func(to memberlist.Address, limit time.Duration) (net.Conn, error)

	mu       sync.Mutex
	links    map[string]*link        // by address
	carrying int                     // links, and those that are no more and have not ended
	conns    map[net.Conn]netip.Addr // admitted
	of       map[netip.Addr]int      // how many of them each address has
}

var _ carrier = (*secure)(nil)

// listenTLS listens for TLS connections. Streams that we open end with ctx; packets are carried until Shutdown, for the
// last ones tell that we leave.
func listenTLS(ctx context.Context, at netip.AddrPort, r rules, config TLS) (*secure, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	open, stop := context.WithCancel(context.WithoutCancel(ctx))
	t := &secure{intake: newIntake(r), tls: config, listener: l, stop: stop,
		server: config.config(x509.ExtKeyUsageClientAuth, forPackets, forStream),
		dialer: net.Dialer{LocalAddr: localAddr(at), Control: impatient},
		links:  map[string]*link{}, conns: map[net.Conn]netip.Addr{}, of: map[netip.Addr]int{}}
	t.connect = func(address, protocol string, limit time.Duration) (*tls.Conn, Speaker, error) {
		return t.dial(open, address, protocol, limit)
	}
	t.stream = func(to memberlist.Address, limit time.Duration) (net.Conn, error) { return t.open(ctx, to, limit) }
	t.work.Go(func() { t.accept(open) })
	return t, nil
}

// dial opens a connection and completes its handshake within limit.
func (t *secure) dial(ctx context.Context, address, protocol string, limit time.Duration) (*tls.Conn, Speaker, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err := t.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, Speaker{}, err
	}
	conn := tls.Client(raw, t.tls.config(x509.ExtKeyUsageServerAuth, protocol))
	from, err := t.tls.shake(ctx, conn, limit)
	if err != nil {
		return nil, from, errors.Join(err, raw.Close())
	}
	return conn, from, nil
}

// open opens a stream, which ends with its timeout and with ctx. If it is meant for a node no other may answer.
func (t *secure) open(ctx context.Context, to memberlist.Address, limit time.Duration) (net.Conn, error) {
	end := time.Now().Add(limit)
	conn, from, err := t.dial(ctx, to.Addr, forStream, limit)
	if err != nil {
		return nil, err
	}
	if to.Name != "" { // of a seed it is not known
		if meant, known := t.process(to.Name); known && !meant.Observer && !from.speaksFor(meant.Node) {
			return nil, errors.Join(errOther, conn.Close())
		}
	}
	if err := conn.SetDeadline(end); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	g := guard(translated{conn}, "", false, maxStream)
	g.heard = hearing{t.rules, from}
	return stream{g, context.AfterFunc(ctx, func() { _ = conn.NetConn().Close() })}, nil
}

// translated says in our words why the other side ended a connection.
type translated struct{ *tls.Conn }

func (c translated) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = whyNot(err)
	}
	return n, err
}

// accept takes connections until the listener is closed.
func (t *secure) accept(ctx context.Context) {
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
		ip := hostOf(raw.RemoteAddr())
		known := t.known(ip)
		if !t.door.enter(ip, known) {
			t.refused(raw.RemoteAddr(), reasonFull, errStreams)
			_ = raw.Close()
			continue
		}
		t.work.Go(func() {
			conn := tls.Server(raw, t.server)
			from, err := t.tls.shake(ctx, conn, handshakeTime)
			t.door.leave(ip, known)
			if err == nil {
				err = t.admit(conn, ip)
			}
			if err != nil {
				_ = raw.Close()
				if !hungUp(err) {
					t.refused(raw.RemoteAddr(), reasonOfGuard(err), err)
				}
				return
			}
			t.serve(conn, hearing{t.rules, from}, known)
		})
	}
}

// serve hands a stream on, or takes the packets of a connection.
func (t *secure) serve(conn *tls.Conn, heard hearing, known bool) {
	leave := sync.OnceValue(func() bool { t.dismiss(conn); return true })
	if conn.ConnectionState().NegotiatedProtocol == forStream {
		limit := maxStream
		if !known {
			limit = maxStranger
		}
		g := guard(conn, t.label, false, limit)
		g.heard = heard
		select {
		case t.streams <- stream{g, leave}:
		case <-t.done:
			leave()
			_ = conn.Close()
		}
		return
	}
	defer leave()
	if err := t.receive(conn, heard); err != nil && !hungUp(err) {
		t.refused(conn.RemoteAddr(), reasonOfGuard(err), err)
	}
	_ = conn.Close()
}

// receive takes packets off a connection until it ends, or is silent for longer than a dialler keeps it.
func (t *secure) receive(conn *tls.Conn, heard hearing) error {
	r := bufio.NewReaderSize(conn, 2+maxPacket)
	checked := time.Now()
	for {
		if err := conn.SetReadDeadline(time.Now().Add(2 * linkIdle)); err != nil {
			return err
		}
		var size [2]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return quiet(err)
		}
		n := int(binary.BigEndian.Uint16(size[:]))
		if n == 0 || n > maxPacket {
			return fmt.Errorf("%w: a packet of %d bytes", errHeader, n)
		}
		buf := make([]byte, n)
		if _, err := io.ReadFull(r, buf); err != nil {
			return quiet(err)
		}
		now := time.Now()
		if now.Sub(checked) >= recheck {
			if _, err := t.tls.check(conn.ConnectionState().PeerCertificates, x509.ExtKeyUsageClientAuth); err != nil {
				return err
			}
			checked = now
		}
		err := vet(buf, t.label, false)
		if err == nil {
			buf, err = heard.packet(buf)
		}
		if err != nil {
			t.refused(conn.RemoteAddr(), reasonOfGuard(err), err)
		}
		if err != nil || len(buf) == 0 { // an honest observer passes on what it heard of nodes, too
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: buf, From: conn.RemoteAddr(), Timestamp: now}:
		case <-t.done:
			return nil
		}
	}
}

// quiet treats a connection that went silent as one that has ended.
func quiet(err error) error {
	var slow net.Error
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &slow) {
		return io.EOF
	}
	return err
}

// admit registers a connection after its handshake, unless there are too many.
func (t *secure) admit(conn net.Conn, ip netip.Addr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.conns) >= maxConns || t.of[ip] >= maxOfOne {
		return errStreams
	}
	t.conns[conn] = ip
	t.of[ip]++
	return nil
}

func (t *secure) dismiss(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ip := t.conns[conn]
	delete(t.conns, conn)
	if t.of[ip]--; t.of[ip] <= 0 {
		delete(t.of, ip)
	}
}

// Shutdown implements memberlist.Transport. Packets that wait are written if that takes no time.
func (t *secure) Shutdown() error {
	t.once.Do(func() { close(t.done) })
	err := t.listener.Close()
	t.mu.Lock()
	for conn := range t.conns {
		_ = conn.(*tls.Conn).NetConn().Close()
	}
	t.mu.Unlock()
	t.stop()
	t.work.Wait()
	return err
}

// FinalAdvertiseAddr implements memberlist.Transport. The address is always given.
func (t *secure) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	at := net.ParseIP(ip)
	if at == nil {
		return nil, 0, fmt.Errorf("advertise %q: not an IP address", ip)
	}
	return at, port, nil
}

// GetAutoBindPort is the port that is listened on.
func (t *secure) GetAutoBindPort() int { return t.listener.Addr().(*net.TCPAddr).Port }

// PacketCh implements memberlist.Transport.
func (t *secure) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *secure) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout implements memberlist.Transport.
func (t *secure) DialTimeout(address string, limit time.Duration) (net.Conn, error) {
	return t.stream(memberlist.Address{Addr: address}, limit)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *secure) DialAddressTimeout(a memberlist.Address, limit time.Duration) (net.Conn, error) {
	return t.stream(a, limit)
}
