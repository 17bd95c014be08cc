package volumetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/volume"
)

// Cluster is the name of the cluster the suite claims volumes for.
const Cluster = "suite"

// lostWithin is how soon a lost volume must be noticed, with a margin for a busy machine.
const lostWithin = 2*time.Second + 500*time.Millisecond

// Fixture is a set of blank volumes for one test.
type Fixture struct {
	// Slots are the slots, at least three. There is one volume for each.
	Slots []string
	// TakeoverAfter is how long a volume is kept for a node that is gone and has not released it.
	TakeoverAfter time.Duration
	// Open returns the provider of a node, as in a new process of that node.
	Open func(node string) volume.Provider
	// Crash ends the holder's process as kill -9 does: its locks are gone, everything else is unchanged, and the node can
	// be opened again.
	Crash func(c volume.Claim)
	// Gone ends the holder in such a way that others may take its volume: with a local volume by a crash, in a cloud by
	// the end of the machine.
	Gone func(c volume.Claim)
	// Lose takes the volume away from its living holder.
	Lose func(c volume.Claim)
	// Change calls change with the directory of a slot's volume, while nobody holds it. On a volume that was never used,
	// the directory need not exist, or may be the empty root of a filesystem of another program.
	Change func(slot string, change func(dir string))
}

// Run runs the suite, with a new fixture for each test.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Fixture)
	}{
		{"one holder for each volume", oneHolder},
		{"one volume for each process", oneVolume},
		{"epochs rise and the disk stays", epochsRise},
		{"a standby is told why", standby},
		{"a node adopts its volume after a crash", adoptAfterCrash},
		{"a dropped volume is free at once", dropped},
		{"the volume of a node that is gone is free after a while", leftBehind},
		{"avoided slots are left alone", avoided},
		{"watch ends with its context and the claim", watchEnds},
		{"a lost volume is noticed", lost},
		{"a volume of another cluster is left alone", otherCluster},
		{"data without an identity is left alone", foreignData},
		{"the data of another program's etcd is adopted", adopted},
		{"a blank volume is yielded without a trace", yielded},
		{"list shows every volume", listed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

func (f Fixture) want() volume.Want {
	return volume.Want{Cluster: Cluster, Slots: f.Slots}
}

// only wants one slot.
func (f Fixture) only(slot string) volume.Want {
	return volume.Want{Cluster: Cluster, Slots: []string{slot}}
}

func claim(t *testing.T, p volume.Provider, want volume.Want) volume.Claim {
	t.Helper()
	c, err := p.Claim(t.Context(), want)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	t.Cleanup(func() { _ = c.Release(context.Background(), false) })
	return c
}

// claimSoon claims as a node does: it repeats the attempt while no volume is free.
func claimSoon(t *testing.T, p volume.Provider, want volume.Want) volume.Claim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		c, err := p.Claim(ctx, want)
		if err == nil {
			t.Cleanup(func() { _ = c.Release(context.Background(), false) })
			return c
		}
		if !errors.Is(err, volume.ErrNoneFree) {
			t.Fatalf("claim: %v", err)
		}
		<-again.C
	}
}

func noneFree(t *testing.T, p volume.Provider, want volume.Want) error {
	t.Helper()
	c, err := p.Claim(t.Context(), want)
	if err == nil {
		_ = c.Release(t.Context(), false)
		t.Fatalf("claimed slot %s, want none free", c.Volume().Slot)
	}
	if !errors.Is(err, volume.ErrNoneFree) {
		t.Fatalf("got %v, want an error that wraps ErrNoneFree", err)
	}
	return err
}

func release(t *testing.T, c volume.Claim) {
	t.Helper()
	if err := c.Release(t.Context(), true); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// race lets all providers claim at the same time and returns the claims and the errors.
func race(ctx context.Context, providers []volume.Provider, want volume.Want) ([]volume.Claim, []error) {
	var mu sync.Mutex
	var claims []volume.Claim
	var errs []error
	var all sync.WaitGroup
	start := make(chan struct{})
	for _, p := range providers {
		all.Go(func() {
			<-start
			c, err := p.Claim(ctx, want)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else {
				claims = append(claims, c)
			}
		})
	}
	close(start)
	all.Wait()
	return claims, errs
}

func oneHolder(t *testing.T, f Fixture) {
	providers := make([]volume.Provider, 20)
	for i := range providers {
		providers[i] = f.Open(fmt.Sprintf("n%d", i))
	}
	claims, errs := race(t.Context(), providers, f.want())
	for _, err := range errs {
		if !errors.Is(err, volume.ErrNoneFree) {
			t.Errorf("a loser got %v, want an error that wraps ErrNoneFree", err)
		}
	}
	for len(claims) < len(f.Slots) { // a provider may spread the nodes, and leave a volume for the next attempt
		claims = append(claims, claimSoon(t, f.Open(fmt.Sprintf("late%d", len(claims))), f.want()))
	}
	var slots []string
	for _, c := range claims {
		slots = append(slots, c.Volume().Slot)
		defer c.Release(context.Background(), false)
	}
	slices.Sort(slots)
	if !slices.Equal(slots, f.Slots) {
		t.Errorf("held slots: got %v, want each of %v once", slots, f.Slots)
	}
}

func oneVolume(t *testing.T, f Fixture) {
	p := f.Open("n1")
	claims, errs := race(t.Context(), slices.Repeat([]volume.Provider{p}, 20), f.want())
	if len(claims) != 1 || len(errs) != 19 {
		t.Fatalf("got %d claims and %d errors, want 1 and 19", len(claims), len(errs))
	}
	for _, err := range errs {
		if errors.Is(err, volume.ErrNoneFree) {
			t.Errorf("got %v, want an error that is no reason to wait", err)
		}
	}
	release(t, claims[0])
	release(t, claims[0])
	claim(t, p, f.want())
}

func epochsRise(t *testing.T, f Fixture) {
	want := f.only(f.Slots[0])
	var last volume.Identity
	for i, node := range []string{"n1", "n1", "n2", "n2", "n3"} {
		c := claim(t, f.Open(node), want)
		id := c.Volume()
		if id.Cluster != Cluster || id.Slot != f.Slots[0] || id.Volume == "" || id.Disk == "" || id.Created.IsZero() {
			t.Errorf("claim %d: incomplete identity %+v", i, id)
		}
		if id.Epoch <= last.Epoch {
			t.Errorf("claim %d: got epoch %d after %d, want a higher one", i, id.Epoch, last.Epoch)
		}
		if i > 0 && id.Disk != last.Disk {
			t.Errorf("claim %d: got disk %s, want %s", i, id.Disk, last.Disk)
		}
		last = id
		if i%2 == 0 {
			f.Crash(c)
		} else {
			release(t, c)
		}
	}
}

func standby(t *testing.T, f Fixture) {
	for i := range f.Slots {
		claim(t, f.Open(fmt.Sprintf("n%d", i)), f.want())
	}
	err := noneFree(t, f.Open("standby"), f.want())
	for i, slot := range f.Slots {
		if node := fmt.Sprintf("n%d", i); !strings.Contains(err.Error(), slot) || !strings.Contains(err.Error(), node) {
			t.Errorf("got %q, want it to name slot %s and node %s", err, slot, node)
		}
	}
}

func adoptAfterCrash(t *testing.T, f Fixture) {
	claim(t, f.Open("n1"), f.want())
	second := claim(t, f.Open("n2"), f.want())
	slot := second.Volume().Slot
	f.Crash(second)
	noneFree(t, f.Open("n3"), f.only(slot))
	if got := claim(t, f.Open("n2"), f.want()).Volume().Slot; got != slot {
		t.Errorf("after the crash: got slot %s, want %s", got, slot)
	}
}

func dropped(t *testing.T, f Fixture) {
	want := f.only(f.Slots[0])
	c := claim(t, f.Open("n1"), want)
	disk := c.Volume().Disk
	release(t, c)
	if got := claim(t, f.Open("n2"), want).Volume().Disk; got != disk {
		t.Errorf("got disk %s, want %s", got, disk)
	}
}

func leftBehind(t *testing.T, f Fixture) {
	want := f.only(f.Slots[0])
	c := claim(t, f.Open("n1"), want)
	p := f.Open("n2")
	noneFree(t, p, want)
	before := c.Volume()
	begin := time.Now()
	f.Gone(c)
	after := claimSoon(t, p, want).Volume()
	if got := time.Since(begin); got < f.TakeoverAfter {
		t.Errorf("taken over after %s, want %s at least", got, f.TakeoverAfter)
	}
	if after.Disk != before.Disk || after.Epoch <= before.Epoch {
		t.Errorf("taken over: got %+v after %+v, want the same disk and a higher epoch", after, before)
	}
}

func avoided(t *testing.T, f Fixture) {
	want := f.want()
	want.Slots = f.Slots[:2]
	want.Avoid = map[string]string{f.Slots[0]: "n9 serves it elsewhere"}
	if got := claim(t, f.Open("n1"), want).Volume().Slot; got != f.Slots[1] {
		t.Errorf("got slot %s, want %s", got, f.Slots[1])
	}
	for _, slot := range want.Slots {
		want.Avoid[slot] = "n9 serves it elsewhere"
	}
	if err := noneFree(t, f.Open("n2"), want); !strings.Contains(err.Error(), "n9 serves it elsewhere") {
		t.Errorf("got %q, want the reason to avoid the slot", err)
	}
}
