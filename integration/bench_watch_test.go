package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

const (
	watchClients = 30 // connections, a third of them to each member
	watchesEach  = 334
	watchWriters = 8
	watchTime    = 5 * time.Second // of each round
)

// BenchmarkWatch compares clusters with 10,000 watches, each of its own key. Clients write these keys one at a time,
// and wait for the event.
func BenchmarkWatch(b *testing.B) {
	rivals := runningRivals(b, false)
	crowds := map[string]*crowd{}
	for _, r := range rivals {
		crowds[r.kind] = newCrowd(b, r)
	}
	for b.Loop() {
		d := newDuel(b, "event/s", "p50-ms", "p99-ms", "cpu-us/event", "resident-MB")
		for range rounds(9) {
			for _, r := range rivals {
				d.add(r.kind, crowds[r.kind].round(b, r))
			}
			slices.Reverse(rivals)
		}
		d.report()
	}
}

// crowd has the watches of a cluster.
type crowd struct {
	clients []*clientv3.Client
	seen    map[string]chan int64 // the revisions of events, by key
}

// newCrowd opens the watches, and waits until each is acknowledged.
func newCrowd(b *testing.B, r *rival) *crowd {
	b.Helper()
	c := &crowd{seen: map[string]chan int64{}}
	var group errgroup.Group
	for i := range watchClients {
		client := mustDial(b, r.servers[i%len(r.servers)].ClientURL())
		b.Cleanup(func() { client.Close() })
		c.clients = append(c.clients, client)
		var channels []clientv3.WatchChan
		var seen []chan int64
		for j := range watchesEach {
			key := watchKey(i, j)
			c.seen[key] = make(chan int64, 1) // one writer waits for each event
			seen = append(seen, c.seen[key])
			channels = append(channels, client.Watch(b.Context(), key, clientv3.WithCreatedNotify()))
		}
		group.Go(func() error {
			for j, events := range channels {
				if resp := <-events; !resp.Created {
					return fmt.Errorf("watch %d of client %d: %w", j, i, resp.Err())
				}
				go func() {
					for resp := range events {
						for _, event := range resp.Events {
							seen[j] <- event.Kv.ModRevision
						}
					}
				}()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatalf("%s: %v", r.kind, err)
	}
	return c
}

func watchKey(client, number int) string { return fmt.Sprintf("watched/%02d/%03d", client, number) }

func (c *crowd) round(b *testing.B, r *rival) []float64 {
	b.Helper()
	before, _ := r.usage(b)
	ctx, cancel := context.WithTimeout(b.Context(), watchTime)
	defer cancel()
	var mu sync.Mutex
	var took []float64
	var group errgroup.Group
	for writer := range watchWriters {
		group.Go(func() error {
			for ctx.Err() == nil {
				// Each writer has an eighth of the keys for itself.
				key := watchKey(rand.IntN(watchClients), rand.IntN(watchesEach/watchWriters)*watchWriters+writer)
				begin := time.Now()
				resp, err := c.clients[writer].Put(b.Context(), key, key)
				if err != nil {
					return err
				}
				if got := <-c.seen[key]; got != resp.Header.Revision {
					return fmt.Errorf("event of %s: revision %d, want %d", key, got, resp.Header.Revision)
				}
				mu.Lock()
				took = append(took, float64(time.Since(begin))/1e6)
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatalf("%s: %v", r.kind, err)
	}
	return r.figures(b, took, watchTime, len(took), before)
}
