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
	putClients = 16              // connections, each with one write at a time, a third of them to each member
	putKeys    = 1000            // that are overwritten at random
	putSize    = 256             // bytes of a value
	putWarm    = time.Second     // of each round that is not counted
	putTime    = 5 * time.Second // of each round that is
)

// BenchmarkPut compares throughput, latency and the CPU time that all three servers together spend on a write.
func BenchmarkPut(b *testing.B) {
	rivals := runningRivals(b)
	clients := map[string][]*clientv3.Client{}
	for _, r := range rivals {
		for i := range putClients {
			client := mustDial(b, r.servers[i%len(r.servers)].ClientURL())
			defer client.Close()
			clients[r.kind] = append(clients[r.kind], client)
		}
	}
	for b.Loop() {
		d := newDuel(b, "put/s", "p50-ms", "p99-ms", "cpu-us/put", "resident-MB")
		d.fight(rounds(15), rivals, func(r *rival) []float64 { return put(b, r, clients[r.kind]) })
		d.report()
	}
}

// put writes as fast as the clients can.
func put(b *testing.B, r *rival, clients []*clientv3.Client) []float64 {
	b.Helper()
	before, _ := r.usage(b)
	begin := time.Now()
	warm := begin.Add(putWarm)
	end := warm.Add(putTime)
	var (
		mu    sync.Mutex
		all   int
		took  []float64 // milliseconds
		group errgroup.Group
	)
	for _, client := range clients {
		group.Go(func() error {
			count, mine, err := putUntil(b.Context(), client, warm, end)
			mu.Lock()
			defer mu.Unlock()
			all += count
			took = append(took, mine...)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatalf("write to %s: %v", r.kind, err)
	}
	after, resident := r.usage(b)
	slices.Sort(took)
	return []float64{
		float64(len(took)) / putTime.Seconds(), took[len(took)/2], took[len(took)*99/100],
		(after - before) * 1e6 / float64(all), resident / 1e6 / float64(len(r.servers)),
	}
}

// putUntil writes until end, and returns the number of writes and how long those took that ended after warm.
func putUntil(ctx context.Context, client *clientv3.Client, warm, end time.Time) (count int, took []float64, err error) {
	value := make([]byte, putSize)
	for i := range value {
		value[i] = byte('a' + rand.IntN(26))
	}
	for {
		key := fmt.Sprintf("bench/%04d", rand.IntN(putKeys))
		begin := time.Now()
		if _, err := client.Put(ctx, key, string(value)); err != nil {
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

// idleTime is how long idle processes are watched. What they use is counted by the kernel for each of them, so
// both kinds are watched at once.
const idleTime = time.Minute

// BenchmarkIdle compares what a process takes when no client is there.
func BenchmarkIdle(b *testing.B) {
	rivals := runningRivals(b)
	watch := idleTime
	if testing.Short() {
		watch = 2 * time.Second
	}
	for b.Loop() {
		d := newDuel(b, "cpu-s/minute", "resident-MB")
		for range rounds(3) {
			before := map[string]float64{}
			for _, r := range rivals {
				before[r.kind], _ = r.usage(b)
			}
			time.Sleep(watch) // it is the time that is measured
			for _, r := range rivals {
				cpu, resident := r.usage(b)
				each := float64(len(r.servers))
				d.add(r.kind, []float64{(cpu - before[r.kind]) / each / watch.Minutes(), resident / 1e6 / each})
			}
		}
		d.report()
	}
}
