package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"holdfast/integration"
)

// BenchmarkRestoreSilence measures how long no write is acknowledged while a serving cluster of three is restored,
// with a client that writes to each member all the time. It also measures how long the command takes. Plain etcd is
// restored with everything stopped.
func BenchmarkRestoreSilence(b *testing.B) {
	for b.Loop() {
		solo(b, rounds(5), []string{"silence-s", "command-s"}, func(int) []float64 { return restoreOnce(b) })
	}
}

// restoreOnce returns the silence and the time of the command, in seconds.
func restoreOnce(b *testing.B) []float64 {
	b.Helper()
	c := benched(b, integration.Options{}, func(*integration.Cluster) {})
	defer c.Kill()
	var writers sync.WaitGroup
	var mu sync.Mutex
	var acked []time.Time
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	for _, n := range c.Nodes {
		client := mustDial(b, n.ClientURL())
		defer client.Close()
		writers.Go(func() {
			for t := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-t.C {
				put, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
				_, err := client.Put(put, "bench/"+n.Name, time.Now().String())
				cancel()
				if err == nil {
					mu.Lock()
					acked = append(acked, time.Now())
					mu.Unlock()
				}
			}
		})
	}
	run := func(args ...string) {
		if o := c.Nodes[0].Command(args...); o.Code != 0 {
			b.Fatalf("%q: exit code %d: %s%s", args, o.Code, o.Out, o.Err)
		}
	}
	run("snapshot", "save")
	begin := time.Now()
	run("restore", "latest", "--yes")
	command := time.Since(begin).Seconds()
	stop()
	writers.Wait()
	silence := 0.0
	for i := 1; i < len(acked); i++ {
		if acked[i].After(begin) {
			silence = max(silence, acked[i].Sub(acked[i-1]).Seconds())
		}
	}
	return []float64{silence, command}
}
