package embedded

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"holdfast/embedded/plan"
)

// Unleased checks the first limit keys below prefix, as this member has applied them, for keys that will never expire.
// Those have no lease, or one that no longer exists. A restore that drops leases leaves such keys behind.
func (k Keys) Unleased(ctx context.Context, prefix string, limit int64) (u plan.Unleased, err error) {
	defer during(&err, "read the keys below %s", prefix)
	l, err := k.running()
	if err != nil {
		return u, err
	}
	if !l.backend.TryRLock() {
		return u, errBusy
	}
	defer l.backend.RUnlock()
	srv := l.etcd.Server
	read := func() (*mvcc.RangeResult, error) {
		return srv.KV().Range(ctx, []byte(prefix), prefixEnd(prefix), firstOf(limit))
	}
	first, err := read()
	if err != nil {
		return u, err
	}
	leases, err := srv.LeaseLeases(srv.AuthStore().WithRoot(ctx), &pb.LeaseLeasesRequest{})
	if err != nil {
		return u, fmt.Errorf("list the leases: %w", err)
	}
	// Read again: keys that expired between the two reads are gone by now.
	again, err := read()
	if err != nil {
		return u, err
	}
	still := map[string]int64{}
	for _, kv := range again.KVs {
		still[string(kv.Key)] = kv.ModRevision
	}
	alive := map[int64]bool{}
	for _, s := range leases.GetLeases() {
		alive[s.GetID()] = true
	}
	u = plan.Unleased{Prefix: prefix, Read: len(first.KVs), Total: first.Count}
	for _, kv := range first.KVs {
		k := plan.UnleasedKey{Key: string(kv.Key), Revision: kv.ModRevision, Lease: kv.Lease}
		if !alive[k.Lease] && still[k.Key] == k.Revision {
			u.Keys = append(u.Keys, k)
		}
	}
	return u, nil
}

// prefixEnd returns the first key after all keys with the prefix.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++ // none of our prefixes ends in the byte 0xff
	return end
}

// DeleteUnchanged deletes a client's key, through raft and as root, if revision is still that of its last write.
// Otherwise the error is ErrChanged.
func (k Keys) DeleteUnchanged(ctx context.Context, key string, revision int64) error {
	same := &pb.Compare{Key: []byte(key), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision}}
	return k.onlyIf(ctx, "delete key "+key, same, deletion(&pb.DeleteRangeRequest{Key: []byte(key)}))
}
