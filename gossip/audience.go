package gossip

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Timings between a node and its observers.
const (
	beat      = time.Second      // how often a node writes to each observer, at least
	silence   = 3 * beat         // the time without a byte after which an observer takes its node for dead
	writeTime = 10 * time.Second // for one message; a slower observer is dropped, and dials again
)

// audience serves the observers that are connected to this node.
type audience struct {
	*prover

	mu    sync.Mutex
	there map[*peerConn]Meta
}

// Observers returns the observers that are connected to this node, sorted by name.
func (a *audience) Observers() []Meta {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.there), func(a, b Meta) int { return cmp.Compare(a.process(), b.process()) })
}

// serve tells an observer until its connection or this node ends. The error says why the observer is refused, which it
// is told, too, once it has said who it is.
func (a *audience) serve(ctx context.Context, conn *peerConn, enter func() error) error {
	_ = conn.SetReadDeadline(time.Now().Add(handshakeTime)) // if it cannot be set the connection has ended
	hello, err := readFrame(conn, maxAround)
	if err != nil {
		return a.papers.whyNot(err)
	}
	who, err := decodeMeta(hello)
	if err != nil {
		return err
	}
	if err := enter(); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Time{})
	a.mu.Lock()
	a.there[conn] = who
	a.mu.Unlock()
	gone := make(chan struct{})
	go func() { // an observer sends nothing more, so a read returns only at the end
		_, _ = conn.Read(make([]byte, 1))
		close(gone)
	}()
	defer func() {
		a.mu.Lock()
		delete(a.there, conn)
		a.mu.Unlock()
		conn.cut()
		<-gone
	}()

	tick := time.NewTicker(beat)
	defer tick.Stop()
	frame, stale := a.known.edition()
	for write(conn, frame, writeTime) == nil {
		select {
		case <-gone:
			return nil
		case <-ctx.Done():
			return nil
		case <-stale:
			time.Sleep(gossipInterval) // combine changes that come together
			frame, stale = a.known.edition()
		case <-tick.C:
			frame = framed(nil)
			if err := conn.verify(); err != nil {
				return err
			}
		}
	}
	return nil // the observer has gone, or is too slow
}

// edition returns everything for observers, encoded, and a channel that is closed when that is outdated.
func (k *knowledge) edition() (frame []byte, stale <-chan struct{}) {
	k.with(func(v *view, now time.Time) bool {
		if k.frame == nil {
			all := v.words(now)
			for i, e := range all.entries {
				all.entries[i].Gossip = v.nodes[e.Node].gossip
			}
			k.frame = framed([]byte{answered}, all.encode())
		}
		frame, stale = k.frame, k.stale
		return false
	})
	return frame, stale
}
