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
	putClients = 16                     // connections with one write at a time each, a third of them to each member
	putKeys    = 1000                   // the keys that are overwritten at random
	putSize    = 256                    // bytes of a value
	putSlices  = 6                      // slices of each kind in a round
	putWarm    = 200 * time.Millisecond // the start of each slice, which does not count: the other cluster still commits
	putTime    = time.Second            // the rest of each slice, which counts
)

// BenchmarkPut compares throughput, latency, and the CPU time that all three servers together use for a write. A round
// consists of short slices in which the clusters take turns, because the load of a shared machine changes within
// seconds by more than the difference to measure.
func BenchmarkPut(b *testing.B) { compareOperations(b, puts) }

// BenchmarkGet does the same with linearizable reads.
func BenchmarkGet(b *testing.B) { compareOperations(b, gets) }

// operation is what clients repeat as fast as they can.
type operation struct {
	name string
	do   func(ctx context.Context, client *clientv3.Client, key, value string) error
}

var (
	puts = operation{"put", func(ctx context.Context, client *clientv3.Client, key, value string) error {
		_, err := client.Put(ctx, key, value)
		return err
	}}
	gets = operation{"get", func(ctx context.Context, client *clientv3.Client, key, _ string) error {
		_, err := client.Get(ctx, key)
		return err
	}}
)

// compareOperations compares rivals over TLS, which is holdfast's default, and without, which is etcd's.
func compareOperations(b *testing.B, do operation) {
	for name, secure := range map[string]bool{"TLS": true, "plain": false} {
		b.Run(name, func(b *testing.B) {
			compareOperation(b, runningRivals(b, secure), do)
		})
	}
}

func compareOperation(b *testing.B, rivals []*rival, do operation) {
	tallies := map[string]*tally{}
	for _, r := range rivals {
		t := &tally{do: puts}
		tallies[r.kind] = t
		for i := range putClients {
			client := mustDialOver(b, r.tls, r.servers[i%len(r.servers)].ClientURL())
			defer client.Close()
			t.clients = append(t.clients, client)
		}
		t.slice(b) // warms up, and writes what reads will find
		t.do = do
	}
	for b.Loop() {
		d := newDuel(b, do.name+"/s", "p50-ms", "p99-ms", "cpu-us/"+do.name, "resident-MB")
		for range rounds(15) {
			for _, r := range rivals {
				tallies[r.kind].begin(b, r)
			}
			for range putSlices {
				for _, r := range rivals {
					tallies[r.kind].slice(b)
				}
				slices.Reverse(rivals)
			}
			for _, r := range rivals {
				d.add(r.kind, tallies[r.kind].end(b, r))
			}
		}
		d.report()
	}
}

// tally collects the results of one rival in a round.
type tally struct {
	do      operation
	clients []*clientv3.Client
	cpu     float64 // the CPU seconds of the servers before the round

	mu   sync.Mutex
	all  int       // operations
	took []float64 // milliseconds, of the operations that count
}

func (t *tally) begin(b *testing.B, r *rival) {
	b.Helper()
	t.all, t.took = 0, nil
	t.cpu, _ = r.usage(b)
}

// slice repeats the operation as often as the clients can.
func (t *tally) slice(b *testing.B) {
	b.Helper()
	warm := time.Now().Add(putWarm)
	end := warm.Add(putTime)
	var group errgroup.Group
	for _, client := range t.clients {
		group.Go(func() error {
			count, took, err := putUntil(b.Context(), client, t.do, warm, end)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.all += count
			t.took = append(t.took, took...)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatalf("%s: %v", t.do.name, err)
	}
}

// end sums up the round. The CPU time includes what the servers used during the other rival's slices.
func (t *tally) end(b *testing.B, r *rival) []float64 {
	b.Helper()
	return r.figures(b, t.took, putSlices*putTime, t.all, t.cpu)
}

// figures returns the results of a round: operations a second, their p50 and p99 in ms, the servers' CPU µs for each,
// and the resident MB of one server. took has the operations that count, of all of them, and cpu the servers' CPU
// seconds before the round.
func (r *rival) figures(b *testing.B, took []float64, within time.Duration, all int, cpu float64) []float64 {
	b.Helper()
	now, resident := r.usage(b)
	slices.Sort(took)
	return []float64{
		float64(len(took)) / within.Seconds(), took[len(took)/2], took[len(took)*99/100],
		(now - cpu) * 1e6 / float64(all), resident / 1e6 / float64(len(r.servers)),
	}
}

// putUntil works until end. It returns the number of operations, and how long each took that ended after warm.
func putUntil(ctx context.Context, client *clientv3.Client, do operation, warm, end time.Time) (count int, took []float64, err error) {
	value := make([]byte, putSize)
	for i := range value {
		value[i] = byte('a' + rand.IntN(26))
	}
	for {
		key := fmt.Sprintf("bench/%04d", rand.IntN(putKeys))
		begin := time.Now()
		if err := do.do(ctx, client, key, string(value)); err != nil {
			return count, took, err
		}
		now := time.Now()
		if now.After(end) {
			return count, took, nil
		}
		count++
		if now.After(warm) {
			took = append(took, float64(now.Sub(begin))/1e6)
		}
	}
}

// idleTime is how long idle processes are watched. Both kinds are watched at once, because the kernel counts the use
// of each process.
const idleTime = time.Minute

// BenchmarkIdle compares what a process uses without clients.
func BenchmarkIdle(b *testing.B) {
	rivals := runningRivals(b, false)
	watch := idleTime
	if testing.Short() {
		watch = 20 * time.Second
	}
	for b.Loop() {
		d := newDuel(b, "cpu-s/minute", "resident-MB")
		for range rounds(3) {
			before := map[string]float64{}
			for _, r := range rivals {
				before[r.kind], _ = r.usage(b)
			}
			time.Sleep(watch) // the duration of the measurement
			for _, r := range rivals {
				cpu, resident := r.usage(b)
				each := float64(len(r.servers))
				d.add(r.kind, []float64{(cpu - before[r.kind]) / each / watch.Minutes(), resident / 1e6 / each})
			}
		}
		d.report()
	}
}
