package embedded

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"holdfast/embedded/plan"
)

// keyPrefix begins the keys that holdfast keeps in etcd. They are few, small, and seldom written. Clients see them like
// all keys, and must leave them alone.
const keyPrefix = "holdfast.internal/"

// conflict is an error that is a [plan.ErrConflict].
type conflict string

func (c conflict) Error() string { return string(c) }

// Is reports whether target is [plan.ErrConflict].
func (conflict) Is(target error) bool { return target == plan.ErrConflict }

// ErrChanged: the key was changed by another writer in the meantime. It is a [plan.ErrConflict].
var ErrChanged error = conflict("the key has changed")

// Keys reads and writes holdfast's own keys in etcd, including the disruption lock, and reads a few keys of clients.
type Keys struct{ *present }

// Key returns one of holdfast's own keys as this member has applied it, and its version: the number of writes since it
// was created, 0 if it does not exist. It asks no other member. It repeats its last answer while the database is
// defragmented or its disk stalls.
func (k Keys) Key(name string) (value []byte, version int64, err error) {
	defer during(&err, "read key %s", name)
	l, err := k.running()
	if err != nil {
		return nil, 0, err
	}
	s, err := l.key(name)
	return s.value, s.version, err
}

// storedKey is a key as last read.
type storedKey struct {
	value   []byte
	version int64 // 0: the key does not exist
	lease   int64
}

// key reads a key, or returns what it read before if it cannot.
func (l *life) key(name string) (storedKey, error) {
	var k storedKey
	var err error
	if !l.glimpse(func() { k, err = readKey(l.etcd.Server, name) }) {
		if k, ok := l.keys.Load(name); ok {
			return k.(storedKey), nil
		}
		return storedKey{}, errBusy
	}
	if err == nil {
		l.keys.Store(name, k)
	}
	return k, err
}

func readKey(srv *etcdserver.EtcdServer, name string) (storedKey, error) {
	r, err := srv.KV().Range(context.Background(), []byte(keyPrefix+name), nil, mvcc.RangeOptions{})
	if err != nil || len(r.KVs) == 0 {
		return storedKey{}, err
	}
	return storedKey{r.KVs[0].Value, r.KVs[0].Version, r.KVs[0].Lease}, nil
}

// PutKey sets one of holdfast's own keys through raft, if its version is still the one that Key returned. A nil value
// deletes the key. If the version differs, the error is ErrChanged.
func (k Keys) PutKey(ctx context.Context, name string, value []byte, version int64) error {
	key := []byte(keyPrefix + name)
	op := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value}}}
	if value == nil {
		op = deletion(&pb.DeleteRangeRequest{Key: key})
	}
	return k.onlyIf(ctx, "write key "+name, versionIs(key, version), op)
}

// versionIs compares the version of a key, which is 0 if the key does not exist.
func versionIs(key []byte, version int64) *pb.Compare {
	return &pb.Compare{Key: key, Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_Version{Version: version}}
}

func deletion(r *pb.DeleteRangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}}
}

// onlyIf carries out op, as root, if a comparison holds; otherwise the error is ErrChanged. Errors begin with what.
func (k Keys) onlyIf(ctx context.Context, what string, compare *pb.Compare, op *pb.RequestOp) error {
	return k.asRoot(ctx, what, func(ctx context.Context, l *life) error {
		resp, err := l.etcd.Server.Txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{compare}, Success: []*pb.RequestOp{op}})
		if errors.Is(err, etcderrors.ErrNoSpace) || errors.Is(err, etcderrors.ErrCorrupt) {
			return fmt.Errorf("%w: %w", plan.ErrReadOnly, err)
		}
		if err == nil && !resp.Succeeded {
			err = ErrChanged
		}
		return err
	})
}

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
