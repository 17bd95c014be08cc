package gossip

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	maxQueued = 64                     // packets that wait for a connection; memberlist repeats what is dropped
	dialPause = 200 * time.Millisecond // after a connection that failed
)

// link is the connection for the packets to one address. It is dialled when the first of them is due, and a sender
// never waits for it.
type link struct {
	queue chan []byte
	used  time.Time // when the last one was sent; guarded by secure.mu
	ended chan struct{}
}

// WriteTo implements memberlist.Transport.
func (t *secure) WriteTo(packet []byte, address string) (time.Time, error) {
	if len(packet) > maxPacket {
		return time.Time{}, fmt.Errorf("send a packet of %d bytes: at most %d are allowed", len(packet), maxPacket)
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.links[address]
	if l == nil {
		select {
		case <-t.done:
			return now, nil
		default:
		}
		if t.carrying >= 2*maxLinks { // those that were cut still dial
			return now, nil
		}
		if len(t.links) >= maxLinks {
			t.cut()
		}
		t.carrying++
		l = &link{queue: make(chan []byte, maxQueued), ended: make(chan struct{})}
		t.links[address] = l
		t.work.Go(func() { t.carry(address, l) })
	}
	l.used = now
	select {
	case l.queue <- bytes.Clone(packet):
	default: // it is lost, as one over UDP would be
	}
	return now, nil
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *secure) WriteToAddress(packet []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(packet, a.Addr)
}

// cut ends the least recently used link.
func (t *secure) cut() {
	var oldest string
	for address, l := range t.links {
		if oldest == "" || l.used.Before(t.links[oldest].used) {
			oldest = address
		}
	}
	close(t.links[oldest].ended)
	delete(t.links, oldest)
}

// unused removes a link that was not used for linkIdle.
func (t *secure) unused(address string, l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.links[address] != l || len(l.queue) > 0 || time.Since(l.used) < linkIdle {
		return false
	}
	delete(t.links, address)
	return true
}

// carry writes the packets of a link until it is unused or cut, or Shutdown.
func (t *secure) carry(address string, l *link) {
	w := wire{t: t, address: address}
	defer func() {
		w.close()
		t.mu.Lock()
		t.carrying--
		t.mu.Unlock()
	}()
	idle := time.NewTicker(linkIdle)
	defer idle.Stop()
	for {
		select {
		case p := <-l.queue:
			if w.write(p) {
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
		case <-w.gone:
			w.close()
		case <-idle.C:
			if t.unused(address, l) {
				return
			}
		case <-l.ended:
			return
		case <-t.done:
			for w.conn != nil && len(l.queue) > 0 && w.write(<-l.queue) {
				continue
			}
			return
		}
	}
}

// wire is the present connection of a link.
type wire struct {
	t       *secure
	address string
	conn    *tls.Conn     // nil while there is none
	gone    chan struct{} // closed when the other side has ended it
	checked time.Time
}

// write writes a packet, over a new connection if the present one has ended, and reports whether that succeeded.
func (w *wire) write(packet []byte) bool {
	now := time.Now()
	if w.conn != nil && now.Sub(w.checked) >= recheck {
		if _, err := w.t.tls.check(w.conn.ConnectionState().PeerCertificates, x509.ExtKeyUsageServerAuth); err != nil {
			w.close()
		}
		w.checked = now
	}
	if w.conn == nil && !w.dial() {
		return false
	}
	frame := append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(packet)), uint16(len(packet))), packet...)
	_ = w.conn.SetWriteDeadline(now.Add(streamTimeout)) // if it cannot be set the write fails
	if _, err := w.conn.Write(frame); err != nil {
		w.close()
		return false
	}
	return true
}

func (w *wire) dial() bool {
	conn, _, err := w.t.connect(w.address, forPackets, streamTimeout)
	if err != nil {
		return false // join reports why
	}
	gone := make(chan struct{})
	w.conn, w.gone, w.checked = conn, gone, time.Now()
	w.t.work.Go(func() { // nothing comes but the end
		_, _ = io.Copy(io.Discard, conn)
		close(gone)
	})
	return true
}

func (w *wire) close() {
	if w.conn != nil {
		_ = w.conn.CloseWrite()
		_ = w.conn.NetConn().Close()
	}
	w.conn, w.gone = nil, nil
}
