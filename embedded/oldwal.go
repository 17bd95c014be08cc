package embedded

import (
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// ErrOldWAL: the WAL has entries of etcd 3.4 or 3.5 that etcd 3.7 would panic on.
var ErrOldWAL = errors.New("WAL has entries this etcd cannot replay")

// checkWAL looks for entries that etcd 3.7 cannot replay. 3.4 and 3.5 publish a member's
// attributes and the cluster's version in the format of the v2 store, 3.6 leaves them in
// the WAL until a raft snapshot (every 10 000 entries; 100 000 in 3.5), and 3.7 panics in
// a goroutine of its own, for ever again at each start. It reads the WAL as etcd will: from
// the last snapshot on, with what a later leader overwrote left out.
func checkWAL(dir string) error {
	walDir := datadir.ToWALDir(dir)
	if !wal.Exist(walDir) {
		return nil
	}
	snaps, err := wal.ValidSnapshotEntries(zap.NewNop(), walDir)
	if err != nil {
		return fmt.Errorf("check WAL %s: %w", walDir, err)
	}
	start := &walpb.Snapshot{}
	if len(snaps) > 0 {
		last := snaps[len(snaps)-1]
		start.Index, start.Term = new(last.GetIndex()), new(last.GetTerm())
	}
	w, err := wal.OpenForRead(zap.NewNop(), walDir, start)
	if err != nil {
		return fmt.Errorf("check WAL %s: %w", walDir, err)
	}
	defer w.Close()
	_, _, entries, err := w.ReadAll()
	if err != nil {
		return fmt.Errorf("check WAL %s: %w", walDir, err)
	}
	old, last := 0, uint64(0)
	for _, e := range entries {
		if e.GetType() == raftpb.EntryNormal && !replayable(e.Data) {
			old, last = old+1, e.GetIndex()
		}
	}
	if old > 0 {
		return fmt.Errorf("%w: %s has %d of etcd 3.5 or older, the last at index %d: "+
			"run etcd 3.6.11 or newer on it until it has taken a raft snapshot beyond that index "+
			"(--snapshot-count=100 and as many writes), or restore the cluster from a snapshot", ErrOldWAL, walDir, old, last)
	}
	return nil
}

// replayable tells whether etcd 3.7 can apply the data of a normal entry: it must parse as
// a request and bear an ID (etcdserver/apply/apply.go). Raft's own entries are empty.
func replayable(data []byte) bool {
	if len(data) == 0 {
		return true
	}
	var r pb.InternalRaftRequest
	return proto.Unmarshal(data, &r) == nil && (r.ID != 0 || r.Header != nil)
}
