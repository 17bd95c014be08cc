package gossip

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	linkIdle  = 30 * time.Second       // without a packet, after which a connection is closed by who dialled it
	maxLinks  = 2 * maxNodes           // connections for packets that we have dialled
	maxQueued = 64                     // packets that wait for a connection; memberlist repeats what is dropped
	dialPause = 200 * time.Millisecond // after a connection that failed
)

// links are the connections for packets, by process.
type links struct {
	mu sync.Mutex
	to map[memberlist.Address]*link
}

// link is the connection for the packets to one process. It is dialled when the first of them is due, and a sender
// never waits for it.
type link struct {
	to    memberlist.Address
	queue chan []byte

	conn *peerConn // nil while there is none; it belongs to carry
}

// post queues a packet for a link. What finds no room is lost, as it would be over UDP.
func (t *transport) post(packet []byte, to memberlist.Address) error {
	if len(packet) > maxPacket {
		return fmt.Errorf("send a packet of %d bytes: at most %d are allowed", len(packet), maxPacket)
	}
	t.links.mu.Lock()
	defer t.links.mu.Unlock()
	l := t.to[to]
	if l == nil {
		select {
		case <-t.done:
			return nil
		default:
		}
		if len(t.to) >= maxLinks {
			return nil
		}
		l = &link{to: to, queue: make(chan []byte, maxQueued)}
		t.to[to] = l
		t.work.Go(func() { t.carry(l) })
	}
	select {
	case l.queue <- bytes.Clone(packet):
	default:
	}
	return nil
}

// unused removes a link for which no packet waits.
func (s *links) unused(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(l.queue) > 0 {
		return false
	}
	delete(s.to, l.to)
	return true
}

// carry writes the packets of a link until none has come for linkIdle, or for dialPause after a failure, or Shutdown.
func (t *transport) carry(l *link) {
	defer l.close()
	idle := time.NewTimer(linkIdle)
	defer idle.Stop()
	for {
		select {
		case p := <-l.queue:
			idle.Reset(linkIdle)
			if t.write(l, p) {
				continue
			}
			for range len(l.queue) { // what waited meanwhile is old
				<-l.queue
			}
			select {
			case <-time.After(dialPause):
			case <-t.done:
				return
			}
			if t.unused(l) { // nobody answers there who may
				return
			}
		case <-idle.C:
			if t.unused(l) {
				return
			}
			idle.Reset(linkIdle)
		case <-t.done:
			for l.conn != nil && len(l.queue) > 0 && t.write(l, <-l.queue) {
				continue
			}
			return
		}
	}
}

// write writes a packet, over a new connection if there is none that is good, and reports whether that succeeded. A
// connection that the other side has ended takes a packet in vain before that is known.
func (t *transport) write(l *link, packet []byte) bool {
	if l.conn != nil && l.conn.verify() != nil {
		l.close()
	}
	if l.conn == nil {
		l.conn, _ = t.connect(l.to) // join reports why there is none
	}
	if l.conn == nil {
		return false
	}
	if write(l.conn, framed(packet), streamTimeout) != nil {
		l.close()
		return false
	}
	return true
}

func (l *link) close() {
	if l.conn != nil {
		_ = l.conn.CloseWrite()
		l.conn.cut()
	}
	l.conn = nil
}
