package node

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

const (
	eldersEvery = time.Minute      // how often EC2 is asked for the addresses, while they are wanted
	eldersRetry = 10 * time.Second // the same after an error; also how often wanted is called
)

// elders finds the addresses of the members of an adopted cluster that another program still runs.
type elders struct {
	said   map[string][]netip.Addr // by slot: cluster.adopt-addresses
	ask    func(context.Context) (map[string]netip.Addr, error)
	wanted func() bool // the cluster has slots that no live node holds
	look   func()      // makes the coordinator look again
	lg     *zap.Logger
	seen   atomic.Pointer[map[string]netip.Addr] // EC2's last answer
}

// all returns the addresses by slot: those of the configuration, and for other slots EC2's last answer. It does not ask
// EC2.
func (e *elders) all() map[string][]netip.Addr {
	all := maps.Clone(e.said)
	if seen := e.seen.Load(); seen != nil {
		for slot, at := range *seen {
			if len(all[slot]) == 0 {
				all[slot] = []netip.Addr{at}
			}
		}
	}
	return all
}

// follow asks EC2 while the addresses are wanted, until ctx ends.
func (e *elders) follow(ctx context.Context) error {
	failed := false
	for {
		pause := eldersRetry
		if e.wanted() {
			seen, err := e.ask(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				if last := e.seen.Swap(&seen); last == nil || !maps.Equal(*last, seen) {
					e.lg.Info("members that are not taken over were found by their volumes", zap.Any("slots", seen))
					e.look()
				}
				pause = eldersEvery
			case !failed:
				e.lg.Warn("the cloud did not tell where the members are that are not taken over yet", zap.Error(err))
			}
			failed = err != nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// strangers reports whether a cluster that was adopted, or goes back, has slots that no live node holds.
func strangers(s coordinator.Situation) bool {
	o := s.Observation
	r := o.Disk.Ledger.Record
	if r == nil || r.Cause != plan.Adopted && !o.Member.Returning() {
		return false
	}
	for _, slot := range r.Charter.Slots() {
		holder := o.Holders[slot]
		if holder != o.Node && !slices.ContainsFunc(o.Peers, func(p plan.Peer) bool { return p.Live && p.Node == holder }) {
			return true
		}
	}
	return false
}
