package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"golang.org/x/sys/unix"

	"holdfast/durable"
	"holdfast/layout"
)

// errLocked: another process, or another Member, uses the data directory.
var errLocked = errors.New("data directory is in use by another process")

// lockDir creates the data directory if need be, makes it private, and locks it until the file is closed. The lock is
// on the directory itself. So it needs no file that could be left behind or copied, and it covers the time before etcd
// has created its database. It keeps other holdfast processes away; for etcd itself and its tools see probeBackend.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o077 != 0 { // copied by hand, most likely
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, fmt.Errorf("close data directory to others: %w", err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := flock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// errDamaged: the database cannot be opened. etcd would panic at each start.
var errDamaged = errors.New("the database is damaged")

// probeBackend fails if another process, such as etcd or etcdutl, has the database open. etcd would wait forever
// without logging anything, and then start on whatever that process left. The lock is given back at once, because etcd
// must take it. A process that takes it in between makes etcd wait, as it would without the probe.
func probeBackend(dir string) error {
	f, err := os.Open(datadir.ToBackendFileName(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("probe database: %w", err)
	}
	defer f.Close()
	return flock(f)
}

// checkBackend is probeBackend, and returns an errDamaged if the file is no database or its beginning is incomplete. It
// does not notice damage further inside.
func checkBackend(dir string) error {
	if err := probeBackend(dir); err != nil {
		return err
	}
	path := datadir.ToBackendFileName(dir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := viewDatabase(path, func(*bolt.Tx) error { return nil })
	if err != nil && !errors.Is(err, berrors.ErrTimeout) { // in between, another process may have opened it
		return fmt.Errorf("%w: %s: %w; if the cluster has a quorum without it, set it aside with `holdfast volume "+
			"set-aside`, and the slot gets the others' data", errDamaged, path, err)
	}
	return nil
}

// flock takes the same kind of lock as bbolt, without waiting.
func flock(f *os.File) error {
	err := durable.Flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: %s is locked", errLocked, f.Name())
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// InUse returns the path of the database or log on a volume that a running etcd has locked, "" if there is none. It
// changes nothing and keeps nothing locked. Call it only while no Start, Fit or SetAside runs, because they would
// mistake the probe for another holdfast.
func (Disk) InUse(volume string) (by string, err error) {
	if by, err = layout.Running(volume); err == nil && by == "" {
		// holdfast locks the directory itself, even before etcd has created a database.
		by, err = lockedDir(filepath.Join(volume, layout.Own))
	}
	if err != nil {
		return "", fmt.Errorf("check what uses %s: %w", volume, err)
	}
	return by, nil
}

// lockedDir returns the path of a directory that is locked, "" if it is not.
func lockedDir(path string) (string, error) {
	f, err := os.Open(path)
	if layout.Absent(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if is, err := layout.Locked(f); !is || err != nil {
		return "", err
	}
	return path, nil
}
