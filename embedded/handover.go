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
	// heirPoll is how often a hand-over checks whether it can still succeed.
	heirPoll = 50 * time.Millisecond
	// passOnWait bounds the hand-over by a member that becomes the leader while it closes. A hand-over to a member that
	// stays takes a tenth of a second.
	passOnWait = 500 * time.Millisecond
)

// transferLeadership hands the leadership over until another member has it. etcd's own call waits for its whole timeout
// even if it can no longer succeed. That happens when the heir is gone, or all members are, as when a whole cluster
// stops. It also happens when another member was elected, or raft has given the hand-over up, as it does on a busy
// machine.
func transferLeadership(ctx context.Context, srv *etcdserver.EtcdServer) error {
	failed := map[types.ID]int{} // attempts by heir
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

// moveLeader tries one heir as long as the heir and a quorum are connected, no other member leads, and raft tries. Raft
// gives a hand-over up after an election timeout and reports that to nobody.
func moveLeader(ctx context.Context, srv *etcdserver.EtcdServer, heir types.ID) error {
	ctx, cancel := context.WithTimeout(ctx, 2*electionTimeout(srv))
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
			case <-time.After(heirPoll):
			}
		}
	})
	return srv.MoveLeader(ctx, uint64(srv.MemberID()), uint64(heir))
}

// heirOf returns the connected voter that has failed least often; among equals, the one connected longest; 0 if none is
// connected. quorum reports whether a majority of voters is connected, including this member.
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
