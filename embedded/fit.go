package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// ErrOldWAL: the WAL has entries of etcd 3.4 or 3.5 that etcd 3.7 would panic on.
var ErrOldWAL = errors.New("WAL has entries this etcd cannot replay")

// Fit returns a [plan.Unfit] if etcd must not be started on a data directory because it would panic there: errNewer or
// ErrOldWAL. It reads the whole log. It is for a directory that Start has refused, to see whether the problem is gone.
func (Disk) Fit(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	return unfit(fit(dir, false))
}

// unfit wraps an error in a [plan.Unfit] if it says that etcd would panic on the data.
func unfit(err error) error {
	if errors.Is(err, ErrOldWAL) || errors.Is(err, errNewer) {
		return plan.Unfit{Err: err}
	}
	return err
}

func fit(dir string, trustWAL bool) error {
	if err := checkNewer(dir); err != nil {
		return err
	}
	if trustWAL {
		return nil
	}
	return checkWAL(dir)
}

// checkWAL looks for entries that this etcd cannot replay. etcd 3.4 and 3.5 publish a member's attributes and the
// cluster's version in the format of the v2 store. 3.6 leaves such entries in the WAL until a raft snapshot (every 10
// 000 entries; 100 000 in 3.5). 3.7 panics on them in a goroutine of its own, at each start. Conversely, every etcd
// panics on a cluster version above its own. checkWAL reads the WAL as etcd will: from the last snapshot on, without
// entries that a later leader overwrote.
func checkWAL(dir string) error {
	walDir := datadir.ToWALDir(dir)
	if !wal.Exist(walDir) {
		return nil
	}
	log, err := readLog(walDir, math.MaxUint64)
	if err != nil {
		return fmt.Errorf("check WAL %s: %w", walDir, err)
	}
	if log.newer != nil {
		return fmt.Errorf("check WAL %s: %w", walDir, log.newer)
	}
	if log.old > 0 && !replaysV2 {
		return fmt.Errorf("%w: %s has %d of etcd 3.5 or older, the last at index %d: `holdfast volume repair-wal %s` "+
			"tells whether they can be left behind; else %s", ErrOldWAL, walDir, log.old, log.last.Index, dir, hop)
	}
	return nil
}

// hop is what to do about entries that cannot be left behind.
const hop = "run etcd 3.6.11 or newer on it until it has taken a raft snapshot beyond that index " +
	"(--snapshot-count=100 and as many writes), or restore the cluster from a snapshot"

// log is the part of a WAL that etcd will replay.
type log struct {
	start    *walpb.Snapshot   // the snapshot that the log continues
	raft     *raftpb.ConfState // the voters and learners there; nil before etcd 3.5
	identity []byte            // of the member and the cluster, as pb.Metadata
	entries  []logEntry
	commit   uint64
	old      int         // number of entries in the format of the v2 store
	last     plan.LogEnd // the last of those
	newer    error       // set if only a newer etcd can replay some entry
}

// end returns the last entry of the log.
func (l log) end() plan.LogEnd {
	if n := len(l.entries); n > 0 {
		return plan.LogEnd{Term: value(l.entries[n-1].Term), Index: value(l.entries[n-1].Index)}
	}
	return plan.LogEnd{Term: value(l.start.Term), Index: value(l.start.Index)}
}

// readLog reads a WAL as etcd will, from the newest snapshot that is not after an index, and changes nothing.
func readLog(walDir string, from uint64) (l log, err error) {
	snaps, err := wal.ValidSnapshotEntries(zap.NewNop(), walDir)
	if err != nil {
		return l, err
	}
	l.start = &walpb.Snapshot{}
	for _, s := range snaps {
		if value(s.Index) <= from {
			l.start.Index, l.start.Term, l.raft = s.Index, s.Term, s.ConfState
		}
	}
	w, err := wal.OpenForRead(zap.NewNop(), walDir, message(l.start))
	if err != nil {
		return l, err
	}
	defer w.Close()
	identity, state, entries, err := w.ReadAll()
	if err != nil {
		return l, err
	}
	l.identity, l.entries, l.commit = identity, entries, value(state.Commit)
	for _, e := range entries {
		if value(e.Type) != raftpb.EntryNormal {
			continue
		}
		r, ok := replayable(e.Data)
		switch {
		case !ok:
			l.old, l.last = l.old+1, plan.LogEnd{Term: value(e.Term), Index: value(e.Index)}
		case r.ClusterVersionSet != nil: // the database may not contain that version yet
			l.newer = cmp.Or(newer(r.ClusterVersionSet.Ver), l.newer)
		}
	}
	return l, nil
}

// replayable returns the request in a normal entry, and whether etcd 3.7 can apply it: it must parse and have an ID
// (etcdserver/apply/apply.go). Raft's own entries are empty.
func replayable(data []byte) (*pb.InternalRaftRequest, bool) {
	r := &pb.InternalRaftRequest{}
	if len(data) == 0 {
		return r, true
	}
	return r, unmarshal(data, r) == nil && (r.ID != 0 || r.Header != nil)
}

// errNewer: the cluster's version is above that of the etcd in this binary, which would panic on the data.
var errNewer = errors.New("the data is of a newer etcd")

// newer returns an errNewer if a version is of a later minor than our etcd. Our etcd can open data of an earlier one.
func newer(made string) error {
	v, known := plan.MinorOf(made)
	switch {
	case !known:
		return fmt.Errorf("%q is not a version", made)
	case !plan.Older(version.Version, made):
		return nil
	}
	return fmt.Errorf("%w: it was made by etcd %s, and this holdfast embeds %s, which cannot open it: use a holdfast "+
		"that embeds etcd %s or newer", errNewer, v, version.Version, v)
}

// checkNewer refuses a data directory whose database is of a newer etcd. It has either a cluster version on which our
// etcd panics (etcdserver/version, MustDetectDowngrade) or a storage version that it cannot read.
func checkNewer(dir string) error {
	path := DatabasePath(dir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := viewDatabase(path, databaseNewer); err != nil {
		return fmt.Errorf("check the version of %s: %w", path, err)
	}
	return nil
}

// databaseNewer returns an errNewer if a newer etcd has made the database. A member that never ran may leave a database
// without these buckets.
func databaseNewer(tx *bolt.Tx) error {
	if tx.Bucket(schema.Meta.Name()) != nil {
		if v := schema.ReadStorageVersionFromSnapshot(tx); v != nil {
			if err := newer(v.String()); err != nil {
				return err
			}
		}
	}
	if b := tx.Bucket(schema.Cluster.Name()); b != nil {
		if v := b.Get(schema.ClusterClusterVersionKeyName); v != nil {
			return newer(string(v))
		}
	}
	return nil
}
