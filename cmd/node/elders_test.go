package node

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// The cloud is asked only while somebody wants to know, soon again after an error, and the operator's word goes first.
func TestElders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := netip.MustParseAddr
		var mu sync.Mutex // of what both goroutines use
		asked, looked, wanted := 0, 0, false
		var fails error
		cloud := map[string]netip.Addr{"b": at("10.0.0.2"), "c": at("10.0.0.3")}
		e := &elders{said: map[string][]netip.Addr{"b": {at("10.9.0.2")}}, lg: zap.NewNop(),
			wanted: func() bool { mu.Lock(); defer mu.Unlock(); return wanted },
			look:   func() { mu.Lock(); defer mu.Unlock(); looked++ },
			ask: func(context.Context) (map[string]netip.Addr, error) {
				mu.Lock()
				defer mu.Unlock()
				asked++
				return maps.Clone(cloud), fails
			}}
		change := func(to func()) { mu.Lock(); defer mu.Unlock(); to() }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.follow(ctx) }()
		expect := func(when string, asks, looks int, slots ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := slices.Sorted(maps.Keys(e.all())); asked != asks || looked != looks || !slices.Equal(got, slots) {
				t.Errorf("%s: asked %d times, looked %d times, got %v; want %d, %d, %v", when, asked, looked, got, asks, looks, slots)
			}
		}
		time.Sleep(10 * eldersEvery)
		expect("nobody wants to know", 0, 0, "b")
		change(func() { wanted, fails = true, errors.New("throttled") })
		time.Sleep(eldersRetry)
		expect("an error", 1, 0, "b")
		change(func() { fails = nil })
		time.Sleep(eldersRetry)
		expect("an answer", 2, 1, "b", "c")
		if got := e.all()["b"]; !slices.Equal(got, []netip.Addr{at("10.9.0.2")}) {
			t.Errorf("the operator's word: got %v", got)
		}
		time.Sleep(eldersEvery)
		expect("the same answer", 3, 1, "b", "c")
		change(func() { cloud["a"] = at("10.0.0.1") })
		time.Sleep(eldersEvery)
		expect("another answer", 4, 2, "a", "b", "c")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestStrangers(t *testing.T) {
	record := &plan.Record{Cluster: "main", Generation: 1, ID: "00000000000000aa", Cause: plan.Adopted,
		Charter: plan.Charter{Cluster: "main", Generation: 1, Seats: []plan.Seat{{Slot: "a"}, {Slot: "b"}}}}
	s := coordinator.Situation{Observation: plan.Observation{Node: "n1", Holders: map[string]string{"a": "n1"}, Disk: plan.Disk{Ledger: plan.Ledger{Record: record}}}}
	if !strangers(s) {
		t.Error("nobody is heard of that holds slot b")
	}
	s.Observation.Holders["b"] = "n2"
	s.Observation.Peers = []plan.Peer{{Node: "n2"}}
	if !strangers(s) {
		t.Error("the holder of slot b is lost: another program may run its member again")
	}
	s.Observation.Peers[0].Live = true
	if strangers(s) {
		t.Error("every slot is held")
	}
	delete(s.Observation.Holders, "b")
	record.Cause = plan.Founding
	if strangers(s) || strangers(coordinator.Situation{}) {
		t.Error("no cluster that was adopted")
	}
}
