package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"holdfast/durable"
)

// repairReason is the reason in the name of the copy that RepairWAL sets aside. holdfast never deletes that copy.
const repairReason = "before-wal-repair"

// WALRepair is what RepairWAL has found and done.
type WALRepair struct {
	Entries int    `json:"entries"` // number of entries that etcd 3.7 cannot replay
	Last    uint64 `json:"last"`    // index of the last of them
	Applied uint64 `json:"applied"` // index of the last entry that the database contains
	Term    uint64 `json:"term"`    // its term

	Voters   []uint64 `json:"voters"`
	Learners []uint64 `json:"learners,omitempty"`
	// Obstacle says why the log cannot be repaired, and what to do instead; "" if it can be, or needs no repair.
	Obstacle string `json:"obstacle,omitempty"`
	// Copy is where the whole directory was copied before anything was changed, "" if nothing was changed.
	Copy string `json:"copy,omitempty"`
}

// RepairWAL repairs a data directory that Start refuses with ErrOldWAL, so that etcd can be started on it. The entries
// that etcd 3.4 and 3.5 left in the log were applied to the database long ago. RepairWAL appends a record that says so,
// such as etcd writes with each raft snapshot, and etcd then does not replay them. The record has the index of the
// database, its term, and the voters, which the database has.
//
// No etcd may run on the directory (errLocked). Nor may etcd 3.5 run on any other directory of the cluster afterwards,
// because it writes such entries again. The whole directory is copied first, to aside/ beside it. With dryRun nothing
// is changed. Upstream has no such repair; it was tried with directories of etcd 3.4 and 3.5.
func RepairWAL(dir string, dryRun bool) (r WALRepair, err error) {
	defer during(&err, "repair the log of %s", dir)
	if _, err := os.Stat(datadir.ToWALDir(dir)); err != nil {
		return r, fmt.Errorf("it is not a data directory of etcd: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return r, err
	}
	defer lock.Close()
	if err := errors.Join(probeBackend(dir), checkNewer(dir)); err != nil {
		return r, err
	}
	l, err := readLog(datadir.ToWALDir(dir), math.MaxUint64)
	if err != nil {
		return r, err
	}
	r.Entries, r.Last = l.old, l.last.Index
	if l.old == 0 {
		return r, nil
	}
	m, err := ReadMemberships(dir)
	if err != nil {
		return r, err
	}
	r.Applied, r.Term, r.Voters, r.Learners = m.Applied.Index, m.Applied.Term, m.Voters, m.Learners
	r.Obstacle = phantoms(m.Differences)
	r.judge(l)
	if r.Obstacle != "" || dryRun {
		return r, nil
	}
	if r.Copy, err = copyAside(dir, repairReason); err != nil {
		return r, fmt.Errorf("copy it aside: %w", err)
	}
	if err := guard(func() error { return r.append(dir, l) }); err != nil {
		return r, fmt.Errorf("append a snapshot record: %w; it is as before in %s", err, r.Copy)
	}
	if err := checkWAL(dir); err != nil {
		return r, fmt.Errorf("%w; it is as before in %s", err, r.Copy)
	}
	return r, nil
}

// phantoms says which members prevent the repair; "" if none. The appended record says who votes, and etcd 3.7 takes
// that from the database. So both must have the members that the cluster has.
func phantoms(differences []Difference) string {
	var members []string
	for _, d := range differences {
		if d.Kind.Blocks() {
			members = append(members, d.String())
		}
	}
	if members == nil {
		return ""
	}
	return fmt.Sprintf("%s; start etcd 3.5.26 or newer on every member first, which puts the list in order, "+
		"or restore the cluster from a snapshot", strings.Join(members, "; "))
}

// judge sets Obstacle if the log must not be cut at the database's index.
func (r *WALRepair) judge(l log) {
	term := uint64(0)
	for _, e := range l.entries {
		if value(e.Index) == r.Applied {
			term = value(e.Term)
		}
	}
	if r.Term == 0 {
		r.Term = term
	}
	switch {
	case r.Obstacle != "":
	case r.Applied < r.Last:
		r.Obstacle = fmt.Sprintf("the database has the log up to index %d only, and an entry of etcd "+
			"3.5 or older stands at %d: %s", r.Applied, r.Last, hop)
	case term == 0:
		r.Obstacle = fmt.Sprintf("the database has the log up to index %d, which is not in the log: %s", r.Applied, hop)
	case term != r.Term:
		r.Obstacle = fmt.Sprintf("the database has index %d from term %d, and the log from %d: %s", r.Applied, r.Term, term,
			hop)
	case len(r.Voters) == 0:
		r.Obstacle = "no member votes: " + hop
	}
}

// append writes the record. A follower's log may not say yet that the entries up to it are committed, which applied
// entries always are. etcd ignores a record beyond the committed entries, so append commits them first.
func (r *WALRepair) append(dir string, l log) error {
	lg := zap.New(zapcore.NewNopCore(), zap.WithFatalHook(zapcore.WriteThenPanic))
	w, err := wal.Open(lg, datadir.ToWALDir(dir), message(l.start))
	if err != nil {
		return err
	}
	_, state, _, err := w.ReadAll()
	if err == nil && l.commit < r.Applied {
		state.Commit = field(r.Applied)
		err = w.Save(state, nil)
	}
	if err == nil {
		err = w.SaveSnapshot(message(&walpb.Snapshot{
			Index: field(r.Applied), Term: field(r.Term), ConfState: &raftpb.ConfState{Voters: r.Voters, Learners: r.Learners},
		}))
	}
	return errors.Join(err, w.Close())
}

// copyAside copies a data directory to a name like SetAside's, and returns that name when the copy is durable.
func copyAside(dir, reason string) (string, error) {
	volume := filepath.Dir(dir)
	size, err := bytesIn(dir)
	if err == nil {
		err = Disk{}.Room(volume, size)
	}
	if err != nil {
		return "", err
	}
	to, err := nameAside(volume, reason)
	if err != nil {
		return "", err
	}
	partial := to + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := copyTree(dir, partial); err != nil {
		return "", errors.Join(err, os.RemoveAll(partial))
	}
	if err := os.Rename(partial, to); err != nil {
		return "", err
	}
	return to, errors.Join(durable.SyncDir(filepath.Dir(to)), durable.SyncDir(volume))
}

// copyTree copies directories and files with access for their owner only, and makes them durable. Until it returns, the
// directory above must keep others away.
func copyTree(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		mode := fs.FileMode(0o600)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			mode = 0o700
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory", path)
		}
		return errors.Join(os.Chmod(path, mode), durable.SyncDir(path)) // which syncs a file as well
	})
}
