package child

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	"golang.org/x/sys/unix"

	"holdfast/durable"
	"holdfast/embedded"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// drillPrefix begins the names of the drills' directories.
const drillPrefix = "holdfast-drill-"

// Drill proves that a backup can be restored. It fetches the backup into opt.Scratch, makes a data directory from it,
// and starts etcd there in a process of its own. It compares etcd's answers with what was recorded when the backup was
// saved or, if nothing was recorded, with the database. The error means that the drill was not tried; what is wrong
// with the backup is in the result. Drill removes what it writes. If it is killed, the next drill removes the rest.
func Drill(ctx context.Context, store snapshot.Store, name string, opt snapshot.Options) (d snapshot.Drill, err error) {
	d = snapshot.Drill{Name: name, Time: time.Now().UTC()}
	defer func() { d.Took = time.Since(d.Time) }()
	var dir drillDir
	err = soon(cmp.Or(opt.Scratch, os.TempDir()), func() (err error) {
		dir, err = newDrillDir(opt.Scratch)
		return err
	})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, soon(dir.path, dir.remove)) }()
	path := embedded.DatabasePath(dir.data())
	// Until ctx ends, a store that hangs would look like a backup that takes too long.
	store = &snapshot.Timely{Store: store, Limit: storeTime}
	meta, err := snapshot.Fetch(ctx, store, name, path, opt)
	switch {
	case snapshot.Damaged(err):
		d.Error = err.Error()
		return d, nil
	case err != nil:
		return d, err
	}
	if plan.Older(version.Version, meta.StorageVersion) {
		return d, fmt.Errorf("%w: it has the data of etcd %s, which etcd %s in this program cannot open: use a newer "+
			"holdfast", snapshot.ErrNotExamined, meta.StorageVersion, version.Version)
	}
	d.Unrecorded = !meta.Recorded()
	if err := rehearse(ctx, dir.data(), meta.Content, &d); err != nil {
		// None of these says anything about the backup.
		if errors.Is(err, errNoRoom) || errors.Is(err, snapshot.ErrNotExamined) {
			return d, err
		}
		if ctx.Err() != nil {
			return d, context.Cause(ctx)
		}
		d.Error = err.Error()
	}
	return d, nil
}

const (
	// storeTime is how long the store may take for one request of a drill.
	storeTime = time.Minute
	// diskTime is how long the disk of a drill may take to make or remove its directory.
	diskTime = time.Minute
)

// soon does something on the disk of a drill, which may hang. What is late is left behind.
func soon(dir string, do func() error) error {
	err, ok := durable.Soon(diskTime, do)
	if !ok {
		return fmt.Errorf("%w: the disk of %s does not answer within %s", snapshot.ErrNotExamined, dir, diskTime)
	}
	return err
}

// rehearse restores and starts the database in a data directory, in a child, and compares its answer with want.
func rehearse(ctx context.Context, data string, want snapshot.Content, d *snapshot.Drill) error {
	var got embedded.Trial
	err := runChild(ctx, drillCommand, data, drillOrder{Dir: data, Revision: want.Revision}, &got)
	if err != nil {
		return fmt.Errorf("restore and start it: %w", err)
	}
	d.Revision, d.CompactRevision, d.HashKV = got.Revision, got.CompactRevision, got.HashKV
	d.Compared = want.HashKV != 0 && !d.Unrecorded
	d.Checked, err = compareTrial(want, got)
	return err
}

// compareTrial compares a restored member with what was saved. It returns what it compared, and an error that names
// every difference. For a backup without a hash it compares less.
func compareTrial(want snapshot.Content, got embedded.Trial) (checked []string, err error) {
	var errs []error
	compare := func(what string, want, got int64) {
		checked = append(checked, fmt.Sprintf("%s %d", what, want))
		if want != got {
			errs = append(errs, fmt.Errorf("%s: want %d, got %d", what, want, got))
		}
	}
	compare("revision", want.Revision, got.Revision)
	compare("records", want.Keys, got.Keys)
	if want.HashKV != 0 {
		compare("compacted revision", max(0, want.CompactRevision), max(0, got.CompactRevision)) // -1 and 0 mean none
		compare("HashKV", int64(want.HashKV), int64(got.HashKV))
	}
	if len(got.Alarms) > 0 {
		errs = append(errs,
			fmt.Errorf("the restored member has the alarm %s and serves nothing: its cluster did not agree on the data, "+
				"choose an older backup", strings.Join(got.Alarms, ", ")))
	}
	return checked, errors.Join(errs...)
}

// drillDir is the directory of one drill, locked while the drill lasts.
type drillDir struct {
	path string
	lock *os.File
}

// drillLeft is the age from which an unlocked directory counts as one of a killed drill. A new one is locked at once.
const drillLeft = time.Minute

// newDrillDir makes a directory below scratch ("": the system's temporary directory), and removes those of killed
// drills.
func newDrillDir(scratch string) (drillDir, error) {
	if scratch == "" {
		scratch = os.TempDir()
	}
	removeDrills(scratch, time.Now().Add(-drillLeft))
	path, err := os.MkdirTemp(scratch, drillPrefix)
	if err != nil {
		return drillDir{}, fmt.Errorf("make scratch directory: %w", err)
	}
	d := drillDir{path: path}
	if d.lock, err = lockDrill(path); err != nil {
		return drillDir{}, errors.Join(err, os.Remove(path))
	}
	if err := os.MkdirAll(filepath.Dir(embedded.DatabasePath(d.data())), 0o700); err != nil {
		return drillDir{}, errors.Join(fmt.Errorf("make scratch directory: %w", err), d.remove())
	}
	return d, nil
}

func (d drillDir) data() string { return filepath.Join(d.path, "etcd") }

func (d drillDir) remove() error {
	if err := errors.Join(os.RemoveAll(d.path), d.lock.Close()); err != nil {
		return fmt.Errorf("remove scratch directory: %w", err)
	}
	return nil
}

// removeDrills removes the directories of killed drills. It ignores one that it cannot remove, which may be in use.
func removeDrills(scratch string, before time.Time) {
	found, _ := filepath.Glob(filepath.Join(scratch, drillPrefix+"*"))
	for _, path := range found {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() || !info.ModTime().Before(before) {
			continue
		}
		if lock, err := lockDrill(path); err == nil {
			_ = drillDir{path, lock}.remove()
		}
	}
}

func lockDrill(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock scratch directory: %w", err)
	}
	if err := durable.Flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock scratch directory %s: %w", path, err), f.Close())
	}
	return f, nil
}
