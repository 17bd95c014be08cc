package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// The store is looked at only while etcd-manager may run members, again and again, and what is wrong is said once.
func TestMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		var mu sync.Mutex // of what both goroutines use
		var fails error
		wanted, missing, looks := false, false, 0
		m := &marker{lg: zap.New(core), wanted: func() bool { mu.Lock(); defer mu.Unlock(); return wanted },
			keep: func(context.Context) (bool, error) { mu.Lock(); defer mu.Unlock(); looks++; return missing, fails }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.follow(ctx) }()
		expect := func(when string, wantLooks, wantSaid int, change func()) {
			t.Helper()
			mu.Lock()
			change()
			mu.Unlock()
			time.Sleep(3 * markEvery)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if looks != wantLooks || logs.Len() != wantSaid {
				t.Errorf("%s: %d looks, said %d times, want %d and %d", when, looks, logs.Len(), wantLooks, wantSaid)
			}
		}
		expect("nobody wants to know", 0, 0, func() {})
		expect("it is there", 3, 0, func() { wanted = true })
		expect("the store fails", 6, 1, func() { fails = errors.New("throttled") })
		expect("it is missing", 9, 4, func() { missing, fails = true, nil })
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// While etcd-manager may run members its mark is needed: also where the cluster goes back, and where the others were not
// heard of yet.
func TestManaged(t *testing.T) {
	record := func(change func(*plan.Record)) *plan.Record {
		r := &plan.Record{Cluster: "main", Generation: 1, ID: "00000000000000aa", Cause: plan.Adopted,
			Adopted: &plan.Adoption{Program: plan.EtcdManager},
			Charter: plan.Charter{Cluster: "main", Generation: 1, Seats: []plan.Seat{{Slot: "a"}, {Slot: "b"}}}}
		change(r)
		return r
	}
	as := func(*plan.Record) {}
	for name, test := range map[string]struct {
		ledger plan.Ledger
		want   bool
	}{
		"no cluster":      {plan.Ledger{}, false},
		"mixed":           {plan.Ledger{Record: record(as)}, true},
		"over":            {plan.Ledger{Record: record(as), Taken: "00000000000000aa"}, false},
		"founded":         {plan.Ledger{Record: record(func(r *plan.Record) { r.Cause, r.Adopted = plan.Founding, nil })}, false},
		"plain etcd's":    {plan.Ledger{Record: record(func(r *plan.Record) { r.Adopted.Program = plan.PlainEtcd })}, false},
		"an older record": {plan.Ledger{Record: record(func(r *plan.Record) { r.Adopted.Program, r.Adopted.Token = "", "xyz" })}, true},
	} {
		s := coordinator.Situation{Observation: plan.Observation{Node: "n1", Claim: plan.Claim{Held: true, Slot: "a"},
			Disk: plan.Disk{Ledger: test.ledger}}}
		if got := managed(s); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
