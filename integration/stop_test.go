package integration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/integration"
)

// The leader is stopped under load with open watches. It hands over and ends soon, and no watch misses an event.
func TestStopLeader(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	watches := watch(t, c, 20)
	w := c.Write()
	w.More(100)
	w.Gap()
	leader := c.Leader()
	took := leader.Stop()
	w.More(100)
	t.Logf("stopped in %s; longest time without a write: %s", took.Round(time.Millisecond), w.Gap().Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("the stop took %s", took)
	}
	w.Stop()
	c.Until(20*time.Second, "every watch has seen every acknowledged write", func() error {
		for i, watch := range watches {
			if missing := w.Missing(watch.events()); missing > 0 {
				return fmt.Errorf("watch %d misses %d", i, missing)
			}
		}
		return nil
	})
	leader.Start()
	c.Serving()
	w.Verify()
}

// events are the events of one watch.
type events struct {
	mu   sync.Mutex
	seen map[string]string
}

func (e *events) events() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.seen)
}

// watch opens watches on all records, which end with the test. Each is a stream of its own.
func watch(t *testing.T, c *integration.Cluster, count int) []*events {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); client.Close(); wg.Wait() })
	var all []*events
	for range count {
		e := &events{seen: map[string]string{}}
		all = append(all, e)
		watcher := clientv3.NewWatcher(client)
		channel := watcher.Watch(ctx, "record/", clientv3.WithPrefix(), clientv3.WithRev(1))
		wg.Go(func() {
			for response := range channel {
				e.mu.Lock()
				for _, event := range response.Events {
					e.seen[string(event.Kv.Key)] = string(event.Kv.Value)
				}
				e.mu.Unlock()
			}
		})
	}
	return all
}

// A second signal, more than a second after the first, ends a process that is still stopping, such as a leader whose
// followers do not answer. Earlier signals count as one with the first.
func TestStopTwice(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	leader := c.Leader()
	for _, n := range c.Nodes {
		if n != leader {
			n.Pause()
		}
	}
	begin := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for leader.Running() && time.Since(begin) < patience {
		leader.Signal(syscall.SIGINT)
		<-tick.C
	}
	took := time.Since(begin)
	code := leader.Exit(patience)
	if code != 130 || !strings.Contains(leader.Log(), "ending at once") {
		t.Errorf("ended after %s with code %d, want 130", took, code)
	}
	if took < time.Second {
		t.Errorf("ended after %s: signals within a second are one", took)
	}
	if took > 2*time.Second {
		t.Errorf("ended after %s, want right after a second", took)
	}
}

// GNU timeout and others signal the process and then its group, which includes the process. Together that is one clean
// stop.
func TestStopSignalledTwice(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	c.Healthy()
	leader := c.Leader()
	leader.Signal(syscall.SIGINT)
	leader.Signal(syscall.SIGTERM) // another signal, because two of the same kind may become one
	if code := leader.Exit(patience); code != 0 || strings.Contains(leader.Log(), "ending at once") {
		t.Errorf("exit code %d, want 0:\n%s", code, leader.Report())
	}
	c.Until(patience, "another one leads", func() error {
		for _, n := range c.Nodes {
			if s, err := n.Self(); n != leader && err == nil && s.State == "leader" {
				return nil
			}
		}
		return errors.New("nobody does")
	})
	if strings.Contains(leader.Log(), "leadership was not handed over") {
		t.Errorf("the leadership was not handed over:\n%s", leader.Report())
	}
}

// A member that has no quorum, and so was never ready, stops all the same.
func TestStopWithoutQuorum(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	c.Kill()
	n := c.Nodes[0]
	n.Start()
	n.Says("etcd runs and waits for a quorum")
	if took := n.Stop(); took > 5*time.Second {
		t.Errorf("the stop took %s", took)
	}
}
