package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/snapshot/snapshottest/gateway"
)

// weather is the behaviour of a bucket from the proposal of a restore on. The backup was read before.
type weather struct {
	mu       sync.Mutex
	proposed bool
	fault    gateway.Fault
	held     int           // the number of waiting requests
	fair     chan struct{} // closed when the weather changes
}

// turn sets the behaviour, and releases the waiting requests.
func (b *weather) turn(fault gateway.Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fair != nil {
		close(b.fair)
	}
	b.fault, b.held, b.fair = fault, 0, make(chan struct{})
}

func (b *weather) answer(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
	b.mu.Lock()
	fault := b.fault
	if !b.proposed {
		fault = nil
	}
	b.proposed = b.proposed || r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/restore-")
	b.mu.Unlock()
	return fault != nil && fault(p, w, r)
}

// hold makes a request wait for another behaviour, or until its client gives up.
func (b *weather) hold(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
	b.mu.Lock()
	b.held++
	fair := b.fair
	b.mu.Unlock()
	select {
	case <-fair:
		return b.answer(p, w, r)
	case <-r.Context().Done():
		return false
	}
}

// holds returns nil if this many requests wait.
func (b *weather) holds(count int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held < count {
		return fmt.Errorf("%d of %d requests wait", b.held, count)
	}
	return nil
}

// While a restore is prepared, its bucket refuses requests, hangs, never finishes one download, and is slow. It loses
// the answer to the request at the point of no return, and hangs again. The old generation serves until a node knows
// that it has ended. When the bucket is back, the restore continues without help.
func TestRestoreFromFailingBucket(t *testing.T) {
	story(t)
	c, proxy := onBucket(t, map[string]any{"snapshot.every": "0s"})
	n := c.Nodes[0]
	name := beforeAndAfter(t, c)
	w, p := c.Write(), pinned(t, c)
	b := &weather{}
	proxy.Set(b.answer)
	b.turn(gateway.On(http.MethodGet, "etcd.backup", gateway.Answer(http.StatusForbidden, "AccessDenied")))
	t.Cleanup(func() { b.turn(nil) })
	done := n.Begin("restore", name, "--yes", "--timeout", "2m")
	servedBy := func(what string, check func(s health.NodeStatus) error) {
		t.Helper()
		c.Until(time.Minute, what, func() error {
			for _, n := range c.Nodes {
				s, err := n.Self()
				if err == nil {
					err = check(s)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", n.Name, err)
				}
			}
			return nil
		})
		w.More(20)
		for _, n := range c.Nodes {
			if s, err := n.Self(); err != nil || s.Record.Generation != 1 {
				t.Errorf("%s: %s is in %s, %v", what, n.Name, s.Record.Token(), err)
			}
		}
	}
	servedBy("all say that the bucket refuses", func(s health.NodeStatus) error {
		if r := s.Restore; r == nil || r.State != "unable" || !strings.Contains(r.Error, "AccessDenied") {
			return fmt.Errorf("%+v", s.Restore)
		}
		return nil
	})
	b.turn(gateway.On(http.MethodGet, "etcd.backup", b.hold))
	servedBy("all wait for the data", func(s health.NodeStatus) error {
		return b.holds(len(c.Nodes))
	})

	forgotten := gateway.On(http.MethodGet, "etcd.backup", gateway.Times(1, gateway.StallAnswer(100)))
	lost := gateway.On(http.MethodPut, "/outcome-", func(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
		b.turn(b.hold)
		return gateway.LostAnswer(p, w, r)
	})
	b.turn(func(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
		time.Sleep(100 * time.Millisecond) // the bucket is slow
		return forgotten(p, w, r) || lost(p, w, r)
	})
	servedBy("nobody knows what became of the restore", func(s health.NodeStatus) error {
		if s.Store != "" {
			return fmt.Errorf("the store answers, %s: %s", s.Action, s.Why)
		}
		return nil
	})
	b.turn(nil)
	if o := <-done; o.Code != 0 {
		t.Errorf("restore: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	t.Logf("no write was acknowledged for %s", switched(t, p.everywhere(t, c, 2)).Round(time.Millisecond))
	w.Stop()
	generation(t, c, 2)
	holdsOnly(t, c)
}
