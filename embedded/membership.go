package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
)

var (
	// ErrNotReady: the learner has not caught up with the leader; ask again later.
	ErrNotReady = errors.New("learner is not in sync with the leader")
	// ErrUnhealthy: the change would endanger the quorum. For 5 s after a member has
	// joined etcd says so of a healthy cluster as well; ask again later.
	ErrUnhealthy = errors.New("cluster is not healthy enough for a membership change")
	// ErrNotFound: no such member, or it was removed.
	ErrNotFound = errors.New("no such member")
)

// MemberInfo is one entry of the applied member list.
type MemberInfo struct {
	ID         uint64
	Name       string // empty until the member has started for the first time
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
}

// Members returns the member list as far as this member has applied it, sorted by ID; nil
// when it is not running.
func (m *Member) Members() []MemberInfo {
	l, err := m.running()
	if err != nil {
		return nil
	}
	var infos []MemberInfo
	for _, mm := range l.etcd.Server.Cluster().Members() {
		infos = append(infos, MemberInfo{
			ID:         uint64(mm.ID),
			Name:       mm.Name,
			PeerURLs:   mm.PeerURLs,
			ClientURLs: mm.ClientURLs,
			Learner:    mm.IsLearner,
		})
	}
	return infos
}

// AddLearner adds a member without a vote and returns its ID, which depends on the time.
// Errors: ErrUnhealthy. After any other error, and above all when ctx has ended, the
// member may have been added all the same: look at Members before trying again.
func (m *Member) AddLearner(ctx context.Context, peerURL string) (uint64, error) {
	urls, err := types.NewURLs([]string{peerURL})
	if err != nil {
		return 0, fmt.Errorf("add learner: %w", err)
	}
	now := time.Now()
	learner := membership.NewMemberAsLearner("", urls, "", &now)
	err = m.change(ctx, func(ctx context.Context, srv *etcdserver.EtcdServer) error {
		_, err := srv.AddMember(ctx, *learner)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("add learner %s: %w", peerURL, err)
	}
	return uint64(learner.ID), nil
}

// Promote gives a learner its vote; it does nothing to a voter. Any member may be asked,
// the leader decides. Errors: ErrNotReady, ErrUnhealthy, ErrNotFound.
func (m *Member) Promote(ctx context.Context, id uint64) error {
	err := m.change(ctx, func(ctx context.Context, srv *etcdserver.EtcdServer) error {
		// etcd would first ask whether the voter has caught up.
		if mm := srv.Cluster().Member(types.ID(id)); mm != nil && !mm.IsLearner {
			return nil
		}
		_, err := srv.PromoteMember(ctx, id)
		if errors.Is(err, membership.ErrMemberNotLearner) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("promote member %x: %w", id, err)
	}
	return nil
}

// Remove removes a member for good. Errors: ErrUnhealthy, ErrNotFound.
func (m *Member) Remove(ctx context.Context, id uint64) error {
	err := m.change(ctx, func(ctx context.Context, srv *etcdserver.EtcdServer) error {
		_, err := srv.RemoveMember(ctx, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("remove member %x: %w", id, err)
	}
	return nil
}

// IsRemoved reports whether a quorum has removed the member with that ID, as far as this
// member has applied it. An ID that was removed never comes back.
func (m *Member) IsRemoved(id uint64) bool {
	l, err := m.running()
	return err == nil && l.etcd.Server.IsIDRemoved(id)
}

// change asks etcd for a membership change, as root: this is the member's own process, and
// with etcd's authentication switched on nobody else has a token to give.
func (m *Member) change(ctx context.Context, ask func(context.Context, *etcdserver.EtcdServer) error) error {
	l, err := m.running()
	if err != nil {
		return err
	}
	srv := l.etcd.Server
	switch err := ask(srv.AuthStore().WithRoot(ctx), srv); {
	case errors.Is(err, etcderrors.ErrLearnerNotReady):
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	case errors.Is(err, etcderrors.ErrUnhealthy), errors.Is(err, etcderrors.ErrNotEnoughStartedMembers):
		return fmt.Errorf("%w: %w", ErrUnhealthy, err)
	case errors.Is(err, membership.ErrIDNotFound), errors.Is(err, membership.ErrIDRemoved):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case errors.Is(err, etcderrors.ErrStopped):
		return fmt.Errorf("%w: %w", ErrStopped, err)
	default:
		return err
	}
}

// TransferLeadership hands the leadership to the voter that has been connected longest. It
// does nothing when this member does not lead or is the only voter. Errors: ErrUnhealthy
// when no other voter is connected; without success in time the leadership stays here or
// is voted on, nothing is lost.
func (m *Member) TransferLeadership(ctx context.Context) error {
	l, err := m.running()
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	return transferLeadership(ctx, l.etcd.Server)
}
