package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

const (
	// lookAtHeir is how often a hand-over looks whether it can still succeed.
	lookAtHeir = 50 * time.Millisecond
	// passOnWait bounds the hand-over of a member that inherits the leadership while it closes. An heir that stays
	// takes a tenth of a second.
	passOnWait = 500 * time.Millisecond
)

// transferLeadership hands the leadership over until one heir has it. etcd's own call waits for its whole
// time even when the heir is gone, or everybody is, which is what stopping a whole cluster looks like.
func transferLeadership(ctx context.Context, srv *etcdserver.EtcdServer) error {
	for srv.Leader() == srv.MemberID() {
		heir, quorum := heirOf(srv)
		switch {
		case heir == 0 && quorum:
			return nil // the only voter
		case heir == 0 || !quorum:
			return fmt.Errorf("transfer leadership: %w: no quorum of voters is connected", ErrUnhealthy)
		}
		err := moveLeader(ctx, srv, heir)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("transfer leadership to %s: %w", heir, err)
		}
	}
	return nil
}

// moveLeader tries one heir, as long as it and a quorum are connected.
func moveLeader(ctx context.Context, srv *etcdserver.EtcdServer, heir types.ID) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		for ctx.Err() == nil {
			if _, ok := connectedSince(srv, heir); !ok {
				cancel()
			}
			if _, quorum := heirOf(srv); !quorum {
				cancel()
			}
			select {
			case <-ctx.Done():
			case <-time.After(lookAtHeir):
			}
		}
	})
	return srv.MoveLeader(ctx, uint64(srv.MemberID()), uint64(heir))
}

// heirOf returns the voter that has been connected longest, 0 if none is, and whether a quorum of voters,
// this member among them, is connected.
func heirOf(srv *etcdserver.EtcdServer) (heir types.ID, quorum bool) {
	var longest time.Time
	voters, connected := 1, 1
	for _, mm := range srv.Cluster().Members() {
		if mm.ID == srv.MemberID() || mm.IsLearner {
			continue
		}
		voters++
		since, ok := connectedSince(srv, mm.ID)
		if !ok {
			continue
		}
		connected++
		if longest.IsZero() || since.Before(longest) {
			heir, longest = mm.ID, since
		}
	}
	return heir, connected > voters/2
}
