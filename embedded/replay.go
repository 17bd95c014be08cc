package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"holdfast/durable"
	"holdfast/embedded/plan"
)

// Copy writes the database of the data directory from, as it is now, to a new file and makes it durable. It copies from
// the member that runs on the directory if there is one, otherwise from the file. It never changes the original, and
// its memory does not grow with the database.
func (m *Member) Copy(ctx context.Context, from, to string, progress func(done, total int64)) (err error) {
	defer during(&err, "copy the database of %s", from)
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Sync(), f.Close()) }()
	out := &counted{ctx: ctx, f: f, progress: progress}
	if m.Status().Running {
		tx, err := m.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tx.Close()) }()
		out.total = tx.Size()
		_, err = tx.WriteTo(out)
		return err
	}
	return viewDatabase(DatabasePath(from), func(tx *bolt.Tx) error {
		out.total = tx.Size()
		_, err := tx.WriteTo(out)
		return err
	})
}

// counted reports how much of a copy is written, and fails when its context ends.
type counted struct {
	ctx         context.Context
	f           *os.File
	progress    func(done, total int64)
	done, total int64
}

func (c *counted) Write(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	n, err := c.f.Write(p)
	c.done += int64(n)
	c.progress(c.done, c.total)
	return n, err
}

// Replay brings the database in dir, a copy of the one in the data directory from, up to the end of that directory's
// log, and returns where the log ends. It applies every entry, even if the member there has not heard that it was
// committed, because a majority may have acknowledged it. from is only read, even under a running etcd. In the end dir
// holds only the database, as Rebuild needs it.
//
// etcd's own way, ForceNewCluster, works on the original. It also drops entries above HardState.Commit, which on a
// follower lags behind what was acknowledged (etcdserver/bootstrap.go, CommitedEntries). Replay instead writes a new
// log beside the copy and lets etcd apply it, as a member of a cluster of two of which the other does not exist. So it
// never leads, and no lease expires. It must run in a process of its own, like Try.
func Replay(ctx context.Context, from, dir string, lg *zap.Logger) (end plan.LogEnd, err error) {
	defer during(&err, "replay the log of %s", from)
	if err := databaseOnly(dir); err != nil {
		return end, err
	}
	applied, term, err := appliedEntry(DatabasePath(dir))
	if err != nil {
		return end, err
	}
	tail, end, err := readTail(datadir.ToWALDir(from), applied)
	if err != nil {
		return end, err
	}
	if end == (plan.LogEnd{}) { // the log has nothing but the snapshot that became the database
		end = plan.LogEnd{Term: term, Index: applied}
	}
	if len(tail) == 0 {
		return end, nil
	}
	f, err := newFounder(replaySpec, Names{})
	if err != nil {
		return end, err
	}
	if err := changeDatabase(DatabasePath(dir), f.writeMembers); err != nil { // its place in its log stays as it is
		return end, err
	}
	if err := f.writeTail(dir, plan.LogEnd{Term: term, Index: applied}, tail); err != nil {
		return end, err
	}
	if err := applyAll(ctx, dir, end.Index, lg); err != nil {
		return end, err
	}
	if now, _, err := appliedEntry(DatabasePath(dir)); err != nil || now != end.Index {
		return end, errors.Join(err, fmt.Errorf("etcd has applied the entries up to %d, and the log ends at %d", now,
			end.Index))
	}
	return end, errors.Join(os.RemoveAll(datadir.ToWALDir(dir)), databaseAlone(dir),
		durable.SyncDir(filepath.Dir(DatabasePath(dir))))
}

// replaySpec is the member that applies the log. It listens nowhere, and the other member's port can never be reached.
var replaySpec = plan.Spec{Slot: "replay", Token: "replay",
	Peers: map[string]string{"replay": "http://127.0.0.1:2380", "nobody": "http://127.0.0.1:0"}}

// databaseAlone removes what etcd has put beside the database.
func databaseAlone(dir string) error {
	snaps := filepath.Dir(DatabasePath(dir))
	entries, err := os.ReadDir(snaps)
	for _, e := range entries {
		if e.Name() != filepath.Base(DatabasePath(dir)) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(snaps, e.Name())))
		}
	}
	return err
}

// appliedEntry returns index and term of the last log entry that a database contains.
func appliedEntry(path string) (index, term uint64, err error) {
	err = viewDatabase(path, func(tx *bolt.Tx) error {
		if err := checkVersions(tx); err != nil {
			return err
		}
		meta := tx.Bucket(schema.Meta.Name())
		index, term = number(meta.Get(schema.MetaConsistentIndexKeyName)), number(meta.Get(schema.MetaTermKeyName))
		return nil
	})
	return index, term, err
}

// readTail returns the entries of a log after an index, and where the log ends.
func readTail(walDir string, after uint64) (tail []logEntry, end plan.LogEnd, err error) {
	l, err := readLog(walDir, after)
	if err != nil {
		return nil, end, fmt.Errorf("read WAL: %w", err)
	}
	if end = l.end(); end.Index < after {
		return nil, end, fmt.Errorf("it ends at entry %d, and the database holds entry %d: the log has lost its end",
			end.Index, after)
	}
	for _, e := range l.entries {
		if value(e.Index) <= after {
			continue
		}
		if _, ok := replayable(e.Data); !ok && value(e.Type) == raftpb.EntryNormal {
			return nil, end, fmt.Errorf("%w: entry %d", ErrOldWAL, value(e.Index))
		}
		tail = append(tail, withoutMembers(e))
	}
	return tail, end, nil
}

// withoutMembers empties an entry that is about members. The old cluster's members are dropped anyway. And a log that
// removes its own member, or names one that was never added, would end etcd.
func withoutMembers(e logEntry) logEntry {
	var r pb.InternalRaftRequest
	if value(e.Type) == raftpb.EntryNormal && (unmarshal(e.Data, &r) != nil || r.ClusterMemberAttrSet == nil) {
		return e
	}
	return message(&raftpb.Entry{Type: field(raftpb.EntryNormal), Term: e.Term, Index: e.Index})
}

// writeTail writes the log that continues after an entry into a data directory, all of it committed, and the raft
// snapshot that covers everything before. The database contains that entry. As with writeLog, etcd 3.7 does not need
// the snapshot's file.
func (f founder) writeTail(dir string, after plan.LogEnd, tail []logEntry) error {
	return guard(func() error {
		last := tail[len(tail)-1]
		record := &walpb.Snapshot{Term: field(after.Term), Index: field(after.Index), ConfState: f.confState()}
		return f.createLog(datadir.ToWALDir(dir), datadir.ToSnapDir(dir), record, func(w *wal.WAL) error {
			if err := w.SaveSnapshot(message(record)); err != nil {
				return err
			}
			return w.Save(message(&raftpb.HardState{Term: last.Term, Commit: last.Index}), tail)
		})
	})
}

// replayEvery is how often applyAll checks how far etcd has come.
const replayEvery = 5 * time.Millisecond

// applyAll runs etcd on a data directory until it has applied the entry at index last.
func applyAll(ctx context.Context, dir string, last uint64, lg *zap.Logger) error {
	spec := replaySpec
	spec.DataDir = dir
	c := trialConfig(spec, lg)
	c.SnapshotCount = 1 << 40 // no snapshot: nobody continues with this log
	e, err := embed.StartEtcd(c)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer end(e)
	t := time.NewTicker(replayEvery)
	defer t.Stop()
	for e.Server.AppliedIndex() < last {
		select {
		case <-t.C:
		case <-e.Server.StoppingNotify():
			return errors.New("etcd ended by itself")
		case <-ctx.Done():
			return fmt.Errorf("wait for entry %d: %w", last, context.Cause(ctx))
		}
	}
	return nil
}
