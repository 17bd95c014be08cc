package integration_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	beatEvery = 3 * time.Millisecond // from one write to the next, whatever its result
	beatTime  = 3 * time.Second      // the limit of a write
	beats     = 200                  // writes of normal service at the end of a trial
)

// BenchmarkLeaderStop compares the longest time without a write when the leader is told to stop, and how long the
// process takes to end, with and without open watches.
func BenchmarkLeaderStop(b *testing.B) {
	for _, watches := range []int{0, 20} {
		b.Run(fmt.Sprintf("watches=%d", watches), func(b *testing.B) {
			fell(b, rounds(15), syscall.SIGTERM, watches)
		})
	}
}

// BenchmarkLeaderKill compares the longest time without a write when the leader is killed, which takes an election.
func BenchmarkLeaderKill(b *testing.B) {
	fell(b, rounds(21), syscall.SIGKILL, 0)
}

// fell ends one leader after the other, under writes through the two other members.
func fell(b *testing.B, count int, how syscall.Signal, watches int) {
	rivals := runningRivals(b, false)
	columns := []string{"gap-ms", "gap-before-ms", "failed"}
	if how != syscall.SIGKILL { // the kernel ends a killed process
		columns = append(columns, "exit-ms")
	}
	for b.Loop() {
		d := newDuel(b, columns...)
		end := func(leader server) (mend func()) {
			leader.Signal(how)
			leader.Exit(time.Minute)
			return func() { leader.Start() }
		}
		d.fight(count, rivals, func(r *rival) []float64 { return loseLeader(b, r, end, watches)[:len(columns)] })
		d.report()
	}
}

// loseLeader measures the effect on the writes through the two other members when something happens to the leader.
func loseLeader(b *testing.B, r *rival, befall func(leader server) (mend func()), watches int) []float64 {
	b.Helper()
	leader, others := r.leader(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for range watches {
		client := mustDial(b, leader.ClientURL())
		defer client.Close()
		if first := <-client.Watch(ctx, "bench/", clientv3.WithPrefix(), clientv3.WithCreatedNotify()); !first.Created {
			b.Fatalf("watch on %s: %v", leader.ClientURL(), first.Err())
		}
	}
	client := mustDial(b, others...)
	defer client.Close()
	p := newPulse(beatEvery)
	beating, rest := context.WithCancel(ctx)
	defer rest()
	ended := make(chan struct{})
	go func() { p.beat(beating, client); close(ended) }()

	p.wait(b, time.Now(), beats)
	begin := time.Now()
	mend := befall(leader)
	exited := time.Now()
	p.wait(b, exited, beats)
	rest()
	<-ended
	mend()
	r.serving(b)

	return []float64{
		milliseconds(p.gap(begin, time.Now())), milliseconds(p.gap(time.Time{}, begin)), float64(p.failed()),
		milliseconds(exited.Sub(begin)),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

// pulse writes at a steady pace. Each write is independent, so that one that hangs delays no other.
type pulse struct {
	every  time.Duration // from one write to the next, whatever its result
	mu     sync.Mutex
	writes []write
	acked  *sync.Cond
}

type write struct {
	begun, ended time.Time
	failed       bool
}

func newPulse(every time.Duration) *pulse {
	p := &pulse{every: every}
	p.acked = sync.NewCond(&p.mu)
	return p
}

// beat writes until ctx ends, and returns when the result of every write is known.
func (p *pulse) beat(ctx context.Context, client *clientv3.Client) {
	pace := time.NewTicker(p.every)
	defer pace.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		wg.Go(func() {
			call, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatTime)
			defer cancel()
			begun := time.Now()
			_, err := client.Put(call, fmt.Sprintf("bench/%04d", n%putKeys), "beat")
			p.note(write{begun, time.Now(), err != nil})
		})
	}
}

func (p *pulse) note(w write) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = append(p.writes, w)
	p.acked.Broadcast()
}

// wait returns when count writes that began after since are acknowledged.
func (p *pulse) wait(b *testing.B, since time.Time, count int) {
	b.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for seen := 0; ; p.acked.Wait() {
		acked := 0
		for _, w := range p.writes[seen:] {
			if !w.failed && w.begun.After(since) {
				acked++
			}
		}
		seen = len(p.writes)
		if count -= acked; count <= 0 {
			return
		}
		if time.Since(since) > time.Minute { // a write that fails ends the wait, too
			b.Fatal("nothing is acknowledged any more")
		}
	}
}

// gap returns the longest time between two acknowledged writes from from to to.
func (p *pulse) gap(from, to time.Time) (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var acks []time.Time
	for _, w := range p.writes {
		if !w.failed {
			acks = append(acks, w.ended)
		}
	}
	slices.SortFunc(acks, time.Time.Compare)
	for i := 1; i < len(acks); i++ {
		if acks[i].After(from) && acks[i].Before(to) {
			longest = max(longest, acks[i].Sub(acks[i-1]))
		}
	}
	return longest
}

// failed returns how many writes were never acknowledged.
func (p *pulse) failed() (count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.writes {
		if w.failed {
			count++
		}
	}
	return count
}
