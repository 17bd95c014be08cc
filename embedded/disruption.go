package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/lease"

	"holdfast/embedded/plan"
)

// The disruption lock is one of holdfast's own keys, with a lease. A node that may take a member down on purpose has
// put its own value there. The lock expires when it was not refreshed for its whole time to live, which the leader
// measures. A change of leaders starts that time again.

// errHeld: another node holds the disruption lock. It is a [plan.ErrConflict].
var errHeld error = conflict("the disruption lock is held")

// errGivenBack: the lock was given back while TryLock asked for it.
var errGivenBack = errors.New("the key has changed")

// TryLock takes the disruption lock through raft if it is free, or if its value is old. With old, a holder that has
// forgotten its lock takes it again; nil means that it never had it. The lock holds until Unlock, or until it was not
// refreshed for ttl. ttl is rounded up to whole seconds, and to etcd's shortest lease, a little more than one election
// timeout.
//
// If another node has the lock, the error wraps errHeld and present is its value. TryLock never waits for the lock, and
// returns soon after ctx ends.
func (k Keys) TryLock(ctx context.Context, value, old []byte, ttl time.Duration) (present []byte, err error) {
	defer during(&err, "take the disruption lock")
	l, err := k.running()
	if err != nil {
		return nil, err
	}
	srv := l.etcd.Server
	ctx = srv.AuthStore().WithRoot(ctx)
	granted, err := srv.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: int64((ttl + time.Second - 1) / time.Second)})
	if err != nil {
		return nil, fmt.Errorf("grant its lease: %w", err)
	}
	present, before, err := putLock(ctx, srv, value, old, granted.ID)
	switch {
	case err != nil:
		// It is unknown whether the key was put. Revoking the lease removes it; if that fails, the lease soon expires.
		revoke(ctx, srv, granted.ID)
		return nil, err
	case present != nil:
		revoke(ctx, srv, granted.ID)
		return present, errHeld
	case before != 0:
		revoke(ctx, srv, before) // the lease of the old value; the key no longer has it
	}
	return nil, nil
}

// putLock puts value with a lease if there is no lock, or if its value is old. If there is another value, it is
// returned as present. before is the lease of old.
func putLock(ctx context.Context, srv *etcdserver.EtcdServer, value, old []byte,
	id int64) (present []byte, before int64, err error) {
	key := []byte(keyPrefix + plan.KeyLock)
	put := []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value, Lease: id,
		PrevKv: true}}}}
	look := []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}}
	resp, err := srv.Txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{versionIs(key, 0)}, Success: put, Failure: look})
	if err == nil && !resp.Succeeded && old != nil {
		resp, err = srv.Txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{lockIs(old)}, Success: put, Failure: look})
	}
	if err != nil {
		return nil, 0, err
	}
	if resp.Succeeded {
		if before := resp.Responses[0].GetResponsePut().GetPrevKv(); before != nil {
			return nil, before.Lease, nil
		}
		return nil, 0, nil
	}
	kvs := resp.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return nil, 0, errGivenBack
	}
	return kvs[0].Value, 0, nil
}

func lockIs(value []byte) *pb.Compare {
	return &pb.Compare{Key: []byte(keyPrefix + plan.KeyLock), Target: pb.Compare_VALUE, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_Value{Value: value}}
}

// RefreshLock renews the lock's lease if the lock, as applied here, has this value; otherwise the error wraps
// ErrChanged. Any member can do it for the holder, through the leader.
func (k Keys) RefreshLock(ctx context.Context, value []byte) error {
	return k.asRoot(ctx, "refresh the disruption lock", func(ctx context.Context, l *life) error {
		held, err := l.key(plan.KeyLock)
		if err != nil {
			return err
		}
		if held.version == 0 || !bytes.Equal(held.value, value) {
			return ErrChanged
		}
		_, err = l.etcd.Server.LeaseRenew(ctx, lease.LeaseID(held.lease))
		if errors.Is(err, lease.ErrLeaseNotFound) {
			return ErrChanged
		}
		return err
	})
}

// Unlock gives the disruption lock back through raft if it has this value; otherwise there is nothing to do. First it
// waits until this member has applied all that was committed. Until then, the cluster would miss it as a voter.
func (k Keys) Unlock(ctx context.Context, value []byte) error {
	return k.asRoot(ctx, "give back the disruption lock", func(ctx context.Context, l *life) error {
		srv := l.etcd.Server
		if err := srv.LinearizableReadNotify(ctx); err != nil {
			return fmt.Errorf("catch up: %w", err)
		}
		resp, err := srv.Txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{lockIs(value)}, Success: []*pb.RequestOp{
			deletion(&pb.DeleteRangeRequest{Key: []byte(keyPrefix + plan.KeyLock), PrevKv: true})}})
		if err == nil && resp.Succeeded {
			for _, kv := range resp.Responses[0].GetResponseDeleteRange().GetPrevKvs() {
				revoke(ctx, srv, kv.Lease)
			}
		}
		return err
	})
}

// revoke ends a lease. A lease that cannot be revoked expires by itself.
func revoke(ctx context.Context, srv *etcdserver.EtcdServer, id int64) {
	_, _ = srv.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
}
