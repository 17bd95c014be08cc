package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"holdfast/embedded/plan"
)

// errNotFound: there is no such member, or it was removed.
var errNotFound = errors.New("no such member")

// Cluster reads and changes the member list and the leadership of the cluster. It reads what this member has applied,
// and changes go through raft.
type Cluster struct {
	*present
	names Names
}

// Members returns the member list as this member has applied it, sorted by ID; nil if the member is not running. State
// adds whether they are connected, and how far their logs are.
func (c Cluster) Members() []plan.MemberInfo {
	var all []plan.MemberInfo
	for _, mm := range c.list() {
		all = append(all, c.names.listed(listedMember(uint64(mm.ID), mm)))
	}
	return all
}

// list returns the member list as etcd has it, nil if the member is not running.
func (c Cluster) list() []*membership.Member {
	l, err := c.running()
	if err != nil {
		return nil
	}
	return l.etcd.Server.Cluster().Members()
}

// MemberNames returns what etcd calls the members, by ID. A name is "" until the member has started for the first time.
func (c Cluster) MemberNames() map[uint64]string {
	names := map[uint64]string{}
	for _, mm := range c.list() {
		names[uint64(mm.ID)] = mm.Name
	}
	return names
}

// ClientURLs returns each member's advertised client URLs, by ID. A member has none until it has started for the first
// time.
func (c Cluster) ClientURLs() map[uint64][]string {
	urls := map[uint64][]string{}
	for _, mm := range c.list() {
		urls[uint64(mm.ID)] = slices.Clone(mm.ClientURLs)
	}
	return urls
}

// AddLearner adds a member without a vote and returns its ID, which depends on the time. Errors: [plan.ErrUnhealthy].
// After any other error, above all when ctx has ended, the member may still have been added: check Members before
// trying again.
func (c Cluster) AddLearner(ctx context.Context, peerURL string) (uint64, error) {
	urls, err := types.NewURLs([]string{peerURL})
	if err != nil {
		return 0, fmt.Errorf("add learner: %w", err)
	}
	now := time.Now()
	// The ID is a hash of the URLs, this name and the second. Without a unique name, a slot could be replaced only once
	// a second.
	learner := membership.NewMemberAsLearner("", urls, now.Format(time.RFC3339Nano), &now)
	err = c.change(ctx, "add learner "+peerURL, func(ctx context.Context, srv *etcdserver.EtcdServer) error {
		return reconfiguration{raftpb.ConfChangeAddLearnerNode, learner.ID, *learner}.perform(ctx, srv, func() error {
			_, err := srv.AddMember(ctx, *learner)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	return uint64(learner.ID), nil
}

// Promote gives a learner its vote; it does nothing to a voter. Any member may be asked, and the leader decides.
// Errors: [plan.ErrNotReady], [plan.ErrUnhealthy], errNotFound.
func (c Cluster) Promote(ctx context.Context, id uint64) error {
	what := fmt.Sprintf("promote member %x", id)
	return c.change(ctx, what, func(ctx context.Context, srv *etcdserver.EtcdServer) error {
		// For a voter, etcd would first check whether it has caught up.
		if mm := srv.Cluster().Member(types.ID(id)); mm != nil && !mm.IsLearner {
			return nil
		}
		_, err := srv.PromoteMember(ctx, id)
		if errors.Is(err, membership.ErrMemberNotLearner) {
			return nil
		}
		return err
	})
}

// Update gives a voter another peer URL. It may be repeated. Errors: errNotFound.
func (c Cluster) Update(ctx context.Context, id uint64, peerURL string) error {
	what := fmt.Sprintf("update member %x", id)
	urls, err := types.NewURLs([]string{peerURL})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return c.change(ctx, what, func(ctx context.Context, srv *etcdserver.EtcdServer) error {
		_, err := srv.UpdateMember(ctx, membership.Member{ID: types.ID(id),
			RaftAttributes: membership.RaftAttributes{PeerURLs: urls.StringSlice()}})
		return err
	})
}

// Reach returns an error unless a peer answers at the URL and both sides accept the other's certificate.
func (c Cluster) Reach(ctx context.Context, peerURL string) (err error) {
	defer during(&err, "reach %s", peerURL)
	l, err := c.running()
	if err != nil {
		return err
	}
	t, err := transport.NewTransport(l.etcd.Config().PeerTLSInfo, reachTimeout)
	if err != nil {
		return err
	}
	defer t.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, peerURL+"/version", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := t.RoundTrip(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", answer.Status)
	}
	return nil
}

// reachTimeout is for one peer.
const reachTimeout = 3 * time.Second

// Remove removes a member for good. It may be repeated. Errors: [plan.ErrUnhealthy].
func (c Cluster) Remove(ctx context.Context, id uint64) error {
	what := fmt.Sprintf("remove member %x", id)
	err := c.change(ctx, what, func(ctx context.Context, srv *etcdserver.EtcdServer) error {
		return reconfiguration{raftpb.ConfChangeRemoveNode, types.ID(id), nil}.perform(ctx, srv, func() error {
			_, err := srv.RemoveMember(ctx, id)
			return err
		})
	})
	if errors.Is(err, errNotFound) { // the member is gone already
		return nil
	}
	return err
}

// IsRemoved reports whether a quorum has removed the member with that ID, as this member has applied it. An ID that was
// removed never comes back.
func (c Cluster) IsRemoved(id uint64) bool {
	l, err := c.running()
	return err == nil && l.etcd.Server.IsIDRemoved(id)
}

// change asks etcd for a membership change, as root. Errors begin with what.
func (c Cluster) change(ctx context.Context, what string,
	ask func(context.Context, *etcdserver.EtcdServer) error) error {
	return c.asRoot(ctx, what, func(ctx context.Context, l *life) error {
		switch err := ask(ctx, l.etcd.Server); {
		case errors.Is(err, etcderrors.ErrLearnerNotReady):
			return fmt.Errorf("%w: %w", plan.ErrNotReady, err)
		case errors.Is(err, etcderrors.ErrUnhealthy), errors.Is(err, etcderrors.ErrNotEnoughStartedMembers):
			return fmt.Errorf("%w: %w", plan.ErrUnhealthy, err)
		case errors.Is(err, membership.ErrIDNotFound), errors.Is(err, membership.ErrIDRemoved):
			return fmt.Errorf("%w: %w", errNotFound, err)
		case errors.Is(err, etcderrors.ErrStopped):
			return fmt.Errorf("%w: %w", errStopped, err)
		default:
			return err
		}
	})
}

// TransferLeadership hands the leadership to the voter that has been connected longest. It does nothing if this member
// does not lead or is the only voter. Errors: [plan.ErrUnhealthy] if no other voter is connected. If it does not
// succeed in time, the leadership stays here or there is an election; nothing is lost.
func (c Cluster) TransferLeadership(ctx context.Context) error {
	l, err := c.running()
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	return transferLeadership(ctx, l.etcd.Server)
}

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
