package integration_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/volume/device/devicetest"
)

// countFor is how long elections are counted. A meaningful result takes an hour.
var countFor = flag.Duration("elections.for", 30*time.Second, "how long BenchmarkElections counts")

const (
	longestStall = 400 * time.Millisecond // of a disk or a process; plain etcd waits for at least a second
	nextStall    = time.Second            // the longest time to the next stall
)

// BenchmarkElections counts elections although no member dies. Both clusters run at once, under writes, on a busy
// processor, while disks and processes stall for a moment, the same ones in both clusters.
func BenchmarkElections(b *testing.B) {
	rivals := newRivals(b)
	disks := ownDisks(b, rivals)
	startAll(b, rivals)
	for b.Loop() {
		d := newDuel(b, "elections", "early", "writes", "gap-ms", "stall-ms")
		before, early := []uint64{rivals[0].term(b), rivals[1].term(b)}, rivals[0].early()
		pulses, longest := strain(b, rivals, disks)
		for i, r := range rivals {
			d.add(r.kind, []float64{float64(r.term(b) - before[i]), float64(max(0, r.early()-early)), float64(len(pulses[i].writes)),
				milliseconds(pulses[i].gap(time.Time{}, time.Now())), milliseconds(longest)})
		}
		d.report()
	}
}

// strain lets both clusters serve under strain. It returns the results of the writes, and how long the longest stall
// really was: on a busy processor, a stall may end late.
func strain(b *testing.B, rivals []*rival, disks map[server]string) (pulses []*pulse, longest time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), *countFor)
	defer cancel()
	stall := map[server]func(time.Duration){}
	for s, path := range disks {
		stall[s] = devicetest.Stalls(b, path)
	}
	var all sync.WaitGroup
	for range 4 * runtime.NumCPU() {
		hog := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		all.Add(1)
		if err := integration.Own(hog, all.Done); err != nil {
			b.Fatal(err)
		}
	}
	for _, r := range rivals {
		var urls []string
		for _, s := range r.servers {
			urls = append(urls, s.ClientURL())
		}
		client, p := mustDial(b, urls...), newPulse(beatEvery)
		defer client.Close()
		all.Go(func() { p.beat(ctx, client) })
		pulses = append(pulses, p)
	}
	for ctx.Err() == nil {
		begin, i, disk, length := time.Now(), rand.IntN(len(rivals[0].servers)), rand.IntN(2) == 0, rand.N(longestStall)
		var stalled sync.WaitGroup
		for _, r := range rivals {
			s := r.servers[i]
			stalled.Go(func() {
				if disk {
					stall[s](length)
					return
				}
				s.Signal(syscall.SIGSTOP)
				time.Sleep(length)
				s.Signal(syscall.SIGCONT)
			})
		}
		stalled.Wait()
		longest = max(longest, time.Since(begin))
		time.Sleep(rand.N(nextStall))
	}
	all.Wait()
	return pulses, longest
}

// term returns the highest raft term. Each election has its own term.
func (r *rival) term(b *testing.B) (term uint64) {
	b.Helper()
	r.serving(b)
	for _, s := range r.servers {
		client := mustDial(b, s.ClientURL())
		defer client.Close()
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		status, err := client.Status(ctx, s.ClientURL())
		if err != nil {
			b.Fatalf("ask %s for its term: %v", s.ClientURL(), err)
		}
		term = max(term, status.RaftTerm)
	}
	return term
}

// early returns how many early elections holdfast has started.
func (r *rival) early() (count int) {
	for _, s := range r.servers {
		if n, ok := s.(*integration.Node); ok {
			count += strings.Count(n.Log(), "started an election early")
		}
	}
	return count
}
