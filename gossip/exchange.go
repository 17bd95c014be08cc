package gossip

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// upstreamTimeout bounds a question whose asker set no deadline. It is the most that the timeout option
// of resolv.conf allows, so it never ends what the asker still waits for.
const upstreamTimeout = 30 * time.Second

// exchange is net.Resolver's end of a pipe, on which it writes a query and reads the reply, each behind its length in
// two bytes. That it is no net.PacketConn makes net.Resolver speak so even where it dialled "udp", so that a reply of
// any size fits.
type exchange struct {
	net.Conn
	cancel context.CancelFunc // ends the answer under way
	failed error              // why the other end was closed, if it was; set before that
}

// converse returns a conversation in which answer replies to each query. It ends with ctx, and when it is closed.
func converse(ctx context.Context, answer func(ctx context.Context, query []byte) ([]byte, error)) net.Conn {
	asker, answerer := net.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	e := &exchange{Conn: asker, cancel: cancel}
	go func() {
		defer func() { _ = answerer.Close() }()
		c := dns.Conn{Conn: answerer}
		for {
			query, err := c.ReadMsgHeader(nil)
			if err != nil {
				return // the asker has gone, or writes no DNS
			}
			reply, err := answer(ctx, query)
			if err == nil {
				_, err = c.Write(reply)
			}
			if err != nil {
				e.failed = err
				return
			}
		}
	}()
	return e
}

// Read returns the errors of the nameserver's sockets as they are, because net.Resolver looks at their types.
func (e *exchange) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if err == io.EOF && e.failed != nil {
		err = e.failed
	}
	return n, err
}

// Close ends what is under way.
func (e *exchange) Close() error {
	e.cancel()
	return e.Conn.Close()
}

// forward asks the nameserver at address as it would have been asked without us: over UDP with the
// query as it is (so EDNS keeps its meaning), then over TCP if the reply did not fit; over TCP alone if
// TCP was dialled.
func forward(ctx context.Context, network, address string, query []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, upstreamTimeout)
	defer cancel()
	reply, err := request(ctx, network, address, query)
	if over, udp := strings.CutPrefix(network, "udp"); err == nil && udp && truncated(reply) {
		return request(ctx, "tcp"+over, address, query)
	}
	return reply, err
}

// request has one conversation on a socket of its own, which ends with ctx. It passes over what does not answer the
// query, as net.Resolver itself does: that may be forged, and the true reply may still come.
func request(ctx context.Context, network, address string, query []byte) ([]byte, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	// A deadline, not Close: so an end in time looks like one, a net.Error with Timeout.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := dns.Conn{Conn: conn}
	if _, err := c.Write(query); err != nil {
		return nil, err
	}
	buf := make([]byte, dns.MaxMsgSize)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return nil, err
		}
		if answers(buf[:n], query) {
			return bytes.Clone(buf[:n]), nil
		}
	}
}

// answers reports whether reply belongs to query: same id and, where one can be read, same question.
func answers(reply, query []byte) bool {
	if len(reply) < 12 || len(query) < 2 || !bytes.Equal(reply[:2], query[:2]) || reply[2]&0x80 == 0 {
		return false
	}
	asked, ok := question(query)
	got, same := question(reply)
	same = same && strings.EqualFold(got.Name, asked.Name)
	got.Name = asked.Name
	return !ok || same && got == asked
}

// truncated reads the TC bit.
func truncated(reply []byte) bool { return reply[2]&0x02 != 0 }
