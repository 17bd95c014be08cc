package embedded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// repairReason is why the copy of a repaired data directory lies aside. It is never deleted by holdfast.
const repairReason = "before-wal-repair"

// WALRepair is what RepairWAL has found and done.
type WALRepair struct {
	Entries int    `json:"entries"` // that etcd 3.7 cannot replay
	Last    uint64 `json:"last"`    // index of the last of them
	Applied uint64 `json:"applied"` // index up to which the database has the log
	Term    uint64 `json:"term"`    // of the entry there

	Voters   []uint64 `json:"voters"`
	Learners []uint64 `json:"learners,omitempty"`
	// Obstacle is why it cannot be repaired, and what to do instead; "" if it can, or need not be.
	Obstacle string `json:"obstacle,omitempty"`
	// Copy is where all of the directory was copied to before anything was changed, "" if nothing was.
	Copy string `json:"copy,omitempty"`
}

// RepairWAL makes a data directory that Start refuses with ErrOldWAL one that etcd can be started on. What etcd 3.4 and
// 3.5 left in the log has long been applied to the database; a record in the log that says so, as etcd writes one with
// each raft snapshot, keeps it from being replayed. The record holds the index of the database, the term there, and who
// votes, which the database tells. etcd must not run on the directory (errLocked), nor 3.5 on any other of the cluster
// afterwards: that writes such entries again. All of the directory is copied first, to aside/ beside it. With dryRun
// nothing is changed. Upstream knows no such repair; it was tried with directories of etcd 3.4 and 3.5.
func RepairWAL(dir string, dryRun bool) (r WALRepair, err error) {
	if _, err := os.Stat(datadir.ToWALDir(dir)); err != nil {
		return r, fmt.Errorf("repair the log of %s: it is no data directory of etcd: %w", dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return r, fmt.Errorf("repair the log of %s: %w", dir, err)
	}
	defer lock.Close()
	if err := repairWAL(dir, dryRun, &r); err != nil {
		return r, fmt.Errorf("repair the log of %s: %w", dir, err)
	}
	return r, nil
}

func repairWAL(dir string, dryRun bool, r *WALRepair) error {
	if err := errors.Join(probeBackend(dir), checkNewer(dir)); err != nil {
		return err
	}
	l, err := readLog(datadir.ToWALDir(dir))
	if err != nil {
		return err
	}
	r.Entries, r.Last = l.old, l.last.index
	if l.old == 0 {
		return nil
	}
	m, err := ReadMemberships(dir)
	if err != nil {
		return err
	}
	r.Applied, r.Term, r.Voters, r.Learners = m.Applied.Index, m.Applied.Term, m.Voters, m.Learners
	r.Obstacle = phantoms(m.Differences)
	r.judge(l)
	if r.Obstacle != "" || dryRun {
		return nil
	}
	if r.Copy, err = copyAside(dir, repairReason); err != nil {
		return fmt.Errorf("copy it aside: %w", err)
	}
	if err := guard(func() error { return r.append(dir, l) }); err != nil {
		return fmt.Errorf("append a snapshot record: %w; it is as before in %s", err, r.Copy)
	}
	if err := checkWAL(dir); err != nil {
		return fmt.Errorf("%w; it is as before in %s", err, r.Copy)
	}
	return nil
}

// phantoms says which members keep the log from being cut: the record that is appended says who votes, and etcd 3.7
// takes it from the database, so both must have the members that the cluster has.
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

// judge says whether the log may be cut at the database's index.
func (r *WALRepair) judge(l log) {
	const hop = ": run etcd 3.6.11 or newer on it until it has taken a raft snapshot beyond that index " +
		"(--snapshot-count=100 and as many writes), " +
		"or restore the cluster from a snapshot"
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
			"3.5 or older stands at %d%s", r.Applied, r.Last, hop)
	case term == 0:
		r.Obstacle = fmt.Sprintf("the database has the log up to index %d, which is not in the log%s", r.Applied, hop)
	case term != r.Term:
		r.Obstacle = fmt.Sprintf("the database has index %d from term %d, and the log from %d%s", r.Applied, r.Term, term,
			hop)
	case len(r.Voters) == 0:
		r.Obstacle = "no member votes" + hop
	}
}

// append writes the record. A follower's log may not say yet that the entries up to there are committed, which what
// was applied always is, and a record beyond that would count for nothing.
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

// copyAside copies a data directory to a name as SetAside gives, and returns it when all of it is durable.
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

// copyTree copies directories and files, for their owner alone, and makes them durable.
func copyTree(from, to string) error {
	var dirs []string
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		into := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			dirs = append(dirs, into)
			return os.Mkdir(into, 0o700)
		case d.Type().IsRegular():
			return copyFile(path, into)
		}
		return fmt.Errorf("%s is neither a file nor a directory", path)
	})
	for _, dir := range dirs {
		if err == nil {
			err = durable.SyncDir(dir)
		}
	}
	return err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
