package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"

	"holdfast/embedded/plan"
)

const (
	// lookAtHeir is how often a hand-over looks whether it can still succeed.
	lookAtHeir = 50 * time.Millisecond
	// passOnWait bounds the hand-over of a member that inherits the leadership while it closes. An heir that stays
	// takes a tenth of a second.
	passOnWait = 500 * time.Millisecond
)

// transferLeadership hands the leadership over until one heir has it, or somebody else. etcd's own call waits for its
// whole time even when the heir is gone, or everybody is, which is what stopping a whole cluster looks like, and when
// another than the heir was elected or raft has given the hand-over up, which a busy machine brings about.
func transferLeadership(ctx context.Context, srv *etcdserver.EtcdServer) error {
	failed := map[types.ID]int{} // how often each was tried
	for srv.Leader() == srv.MemberID() {
		heir, quorum := heirOf(srv, failed)
		switch {
		case heir == 0 && quorum:
			return nil // the only voter
		case heir == 0 || !quorum:
			return fmt.Errorf("transfer leadership: %w: no quorum of voters is connected", plan.ErrUnhealthy)
		}
		err := moveLeader(ctx, srv, heir)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("transfer leadership to %s: %w", heir, err)
		}
		failed[heir]++
	}
	return nil
}

// moveLeader tries one heir, as long as it and a quorum are connected, nobody else leads, and raft tries: it gives a
// hand-over up after an election timeout, and says so to nobody.
func moveLeader(ctx context.Context, srv *etcdserver.EtcdServer, heir types.ID) error {
	election := time.Duration(srv.Cfg.ElectionTicks) * time.Duration(srv.Cfg.TickMs) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, 2*election)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		for ctx.Err() == nil {
			_, connected := connectedSince(srv, heir)
			_, quorum := heirOf(srv, nil)
			leader := srv.Leader()
			if !connected || !quorum || leader != 0 && leader != heir && leader != srv.MemberID() {
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

// heirOf returns the voter that has failed least often, of those the one that has been connected longest, 0 if none is,
// and whether a quorum of voters, this member among them, is connected.
func heirOf(srv *etcdserver.EtcdServer, failed map[types.ID]int) (heir types.ID, quorum bool) {
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
		tries, least := failed[mm.ID], failed[heir]
		if heir == 0 || tries < least || tries == least && since.Before(longest) {
			heir, longest = mm.ID, since
		}
	}
	return heir, connected > voters/2
}
