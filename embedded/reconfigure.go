package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"holdfast/embedded/plan"
)

// appliedPoll is how often perform checks whether a proposed change was applied. That takes about as long as an fsync.
const appliedPoll = 2 * time.Millisecond

// reconfiguration is a change of the members that the leader itself proposes.
//
// etcd refuses to add a member, or to remove one that serves, until the voters have been connected for 5 s
// (StrictReconfigCheck). That protects a cluster from an operator's mistake, and stays on for operators. The plan
// changes nothing without a connected majority of voters, and checks again right before a change. So its changes go to
// raft directly, and need only that the voters are connected now. Removing a voter that serves still goes through etcd:
// the rest may be connected only for this moment, if one of them keeps restarting.
type reconfiguration struct {
	kind    raftpb.ConfChangeType
	member  types.ID
	context any // what etcd applies; nil for a removal
}

// applied reports whether this member has applied the change.
func (r reconfiguration) applied(srv *etcdserver.EtcdServer) bool {
	if r.kind == raftpb.ConfChangeRemoveNode {
		return srv.IsIDRemoved(uint64(r.member))
	}
	return srv.Cluster().Member(r.member) != nil
}

// perform proposes the change, and waits until it is applied here. usual is etcd's own way. It is taken by a member
// that does not lead, and for the removal of a voter that serves.
func (r reconfiguration) perform(ctx context.Context, srv *etcdserver.EtcdServer, usual func() error) error {
	node := raftNode(srv)
	list, _ := srv.Cluster().(*membership.RaftCluster) // nil if a later etcd uses another type
	if node == nil || list == nil || node.Status().RaftState != raft.StateLeader || r.serves(srv, list) {
		return usual()
	}
	if err := r.keepsQuorum(srv, list.VotingMembers()); err != nil {
		return err
	}
	var data []byte
	if r.context != nil {
		var err error
		if data, err = json.Marshal(r.context); err != nil {
			return fmt.Errorf("encode the change: %w", err)
		}
	}
	change := confChange(r.kind, uint64(r.member), data)
	if err := list.ValidateConfigurationChange(message(change), membership.ApplyBoth); err != nil {
		return err
	}
	if err := node.ProposeConfChange(ctx, message(change)); err != nil {
		return err
	}
	// Raft silently drops the next change until it has heard that this one is applied (etcd-io/etcd #15528).
	var until uint64
	for {
		if until == 0 && r.applied(srv) {
			until = commit(node.Status())
		}
		if until != 0 && node.Status().Applied >= until {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-srv.StopNotify():
			return errStopped
		case <-time.After(appliedPoll):
		}
	}
}

// serves reports whether the change removes a connected voter.
func (r reconfiguration) serves(srv *etcdserver.EtcdServer, list *membership.RaftCluster) bool {
	m := list.Member(r.member)
	_, connected := connectedSince(srv, r.member)
	return r.kind == raftpb.ConfChangeRemoveNode && m != nil && !m.IsLearner && connected
}

// keepsQuorum returns an error unless a majority of the voters after the change is connected now. Like etcd, it counts
// an added member as a voter that is not connected, because it is to become one.
func (r reconfiguration) keepsQuorum(srv *etcdserver.EtcdServer, now []*membership.Member) error {
	voters, healthy := 0, 0
	for _, m := range now {
		if m.ID == r.member {
			continue
		}
		voters++
		if _, connected := connectedSince(srv, m.ID); connected || m.ID == srv.MemberID() {
			healthy++
		}
	}
	if r.kind == raftpb.ConfChangeAddLearnerNode && voters > 1 { // otherwise a single voter could never get a second
		voters++
	}
	if healthy <= voters/2 {
		return fmt.Errorf("%w: of %d voters after the change of member %s only %d are connected", plan.ErrUnhealthy, voters,
			r.member, healthy)
	}
	return nil
}
