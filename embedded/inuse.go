package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/datadir"
	"golang.org/x/sys/unix"
)

// InUse returns what an etcd works on among the data on a volume, "" for nothing: the database or the log that is
// locked. It looks at holdfast's data and at that of others: at the top, where plain etcd has it, and in data/*, where
// etcd-manager has it. It changes nothing and keeps nothing locked, and this process counts as any other. What was set
// aside is not looked at. Call it where no Start, Fit or SetAside runs: they would take the probe for another holdfast.
func (Disk) InUse(volume string) (by string, err error) {
	dirs := []string{volume, filepath.Join(volume, etcdDir)}
	tokens, err := os.ReadDir(filepath.Join(volume, managerData))
	if err != nil && !absent(err) {
		return "", fmt.Errorf("look who uses %s: %w", volume, err)
	}
	for _, t := range tokens {
		dirs = append(dirs, filepath.Join(volume, managerData, t.Name()))
	}
	for _, dir := range dirs {
		if by, err = lockedIn(dir); err != nil || by != "" {
			break
		}
	}
	if err == nil && by == "" { // holdfast's own lock, from before etcd has made a database
		by, err = flocked(filepath.Join(volume, etcdDir))
	}
	if err != nil {
		return "", fmt.Errorf("look who uses %s: %w", volume, err)
	}
	return by, nil
}

// lockedIn returns what an etcd has locked in a data directory, "" for nothing.
func lockedIn(dir string) (string, error) {
	// The database is what etcd opens first.
	if by, err := flocked(datadir.ToBackendFileName(dir)); err != nil || by != "" {
		return by, err
	}
	logs, err := os.ReadDir(datadir.ToWALDir(dir))
	if err != nil && !absent(err) {
		return "", err
	}
	for _, l := range logs {
		path := filepath.Join(datadir.ToWALDir(dir), l.Name())
		if filepath.Ext(path) != ".wal" {
			continue
		}
		f, err := os.Open(path)
		if absent(err) {
			continue // etcd has purged it
		}
		if err != nil {
			return "", err
		}
		locked, err := walLocked(f)
		f.Close()
		if err != nil {
			return "", err
		}
		if locked {
			return path, nil
		}
	}
	return "", nil
}

// flocked returns the path if somebody has locked the file for himself alone, as bbolt does for who writes. Others who
// only look do not count. The probe's own lock is shared and given back at once; bbolt tries again until it has its
// own.
func flocked(path string) (string, error) {
	f, err := os.Open(path)
	if absent(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return path, nil
	}
	if err != nil {
		return "", fmt.Errorf("look for the lock of %s: %w", path, err)
	}
	return "", nil
}

// absent: there is no such file, or what should be a directory above it is a file.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }
