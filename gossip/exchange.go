package gossip

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// maxFrame is what fits a frame of DNS over a stream (RFC 1035 §4.2.2).
const maxFrame = 1<<16 - 1

// exchange is a net.Conn on which queries are written and replies are read, each behind its length in
// two bytes. That it is no net.PacketConn makes net.Resolver speak so even where it dialled "udp", so
// that a reply of any size fits. The reader does the work: there is no goroutine that could be left.
//
// It is made for net.Resolver, which sets the deadline, writes a query and then reads. A deadline set
// during a Read counts for the next; a Read without a query ends in io.EOF.
type exchange struct {
	answer func(deadline time.Time, query []byte) ([]byte, error)
	cancel func() // ends an answer under way

	mu       sync.Mutex
	in, out  []byte // written and not answered; answered and not read
	deadline time.Time
	closed   bool
}

// Write takes in a query or a part of one. It never blocks.
func (e *exchange) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, net.ErrClosed
	}
	if len(e.in)+len(p) > 2+maxFrame {
		return 0, io.ErrShortBuffer
	}
	e.in = append(e.in, p...)
	return len(p), nil
}

// Read hands out the reply to the oldest query. Its errors are those of the nameserver's sockets as they
// are, because net.Resolver looks at their types.
func (e *exchange) Read(p []byte) (int, error) {
	if err := e.fill(); err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// fill gets the next reply unless one is waiting. Close must get through meanwhile, so it does not hold the lock.
func (e *exchange) fill() error {
	e.mu.Lock()
	query, deadline, ready, closed := e.query(), e.deadline, len(e.out) > 0, e.closed
	e.mu.Unlock()
	switch {
	case closed:
		return net.ErrClosed
	case ready:
		return nil
	case query == nil:
		return io.EOF
	}
	reply, err := e.answer(deadline, query)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.in = e.in[2+len(query):]
	e.out = append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)
	return nil
}

// query returns the oldest whole query, nil if there is none.
func (e *exchange) query() []byte {
	if len(e.in) < 2 {
		return nil
	}
	n := int(binary.BigEndian.Uint16(e.in))
	if len(e.in) < 2+n {
		return nil
	}
	return e.in[2 : 2+n : 2+n]
}

// Close ends what is under way.
func (e *exchange) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	return nil
}

// SetDeadline says until when a reply may take; zero means forever.
func (e *exchange) SetDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deadline = t
	return nil
}

// SetReadDeadline is SetDeadline, since a write never waits.
func (e *exchange) SetReadDeadline(t time.Time) error { return e.SetDeadline(t) }

// SetWriteDeadline does nothing, since a write never waits.
func (e *exchange) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr says that nothing is on the network.
func (e *exchange) LocalAddr() net.Addr { return inMemory{} }

// RemoteAddr says that nothing is on the network.
func (e *exchange) RemoteAddr() net.Addr { return inMemory{} }

type inMemory struct{}

func (inMemory) Network() string { return "memory" }
func (inMemory) String() string  { return "holdfast resolver" }
