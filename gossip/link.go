package gossip

import (
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

// links are the packets that wait for a connection, by process. It is dialled when the first of them is due, and a
// sender never waits for it.
type links struct {
	mu sync.Mutex
	to map[memberlist.Address]chan []byte
}

// post queues a packet for a process. What finds no room is lost, as it would be over UDP.
func (t *transport) post(packet []byte, to memberlist.Address) error {
	if len(packet) > maxPacket {
		return fmt.Errorf("send a packet of %d bytes: at most %d are allowed", len(packet), maxPacket)
	}
	t.links.mu.Lock()
	defer t.links.mu.Unlock()
	queue := t.to[to]
	if queue == nil {
		select {
		case <-t.done:
			return nil
		default:
		}
		if len(t.to) >= maxLinks {
			return nil
		}
		queue = make(chan []byte, maxQueued)
		t.to[to] = queue
		t.work.Go(func() { t.link(to, queue) })
	}
	select {
	case queue <- framed(packet):
	default:
	}
	return nil
}

// link carries the packets to a process until none has come for linkIdle, or until Shutdown. If the connection fails,
// those that wait are lost, and those that come within dialPause.
func (t *transport) link(to memberlist.Address, queue <-chan []byte) {
	if !t.carry(to, queue) {
		select {
		case <-time.After(dialPause):
		case <-t.done:
		}
	}
	t.links.mu.Lock()
	defer t.links.mu.Unlock()
	delete(t.to, to)
}

// carry dials a process and writes the packets to it, and reports whether the connection was good to its end. When the
// other side ends it, one packet is written in vain before that is known.
func (t *transport) carry(to memberlist.Address, queue <-chan []byte) bool {
	conn, err := t.connect(to)
	if err != nil {
		return false // join reports why
	}
	defer conn.cut()
	idle := time.NewTimer(linkIdle)
	defer idle.Stop()
	for {
		select {
		case frame := <-queue:
			idle.Reset(linkIdle)
			if conn.verify() != nil || write(conn, frame, streamTimeout) != nil {
				return false
			}
		case <-idle.C:
			return true
		case <-t.done:
			for len(queue) > 0 && write(conn, <-queue, streamTimeout) == nil {
				continue
			}
			_ = conn.CloseWrite() // so that what was written arrives
			return true
		}
	}
}
