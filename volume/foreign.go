package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// made are names that only holdfast makes at the top of a volume. Where one of them lies, what lies beside it is not
// another program's cluster any more, even if the identity is gone.
var made = []string{"etcd", "origin.json", "founding.json"}

// foreignEtcd returns the data directories of etcd that another program made, relative to the volume: data/TOKEN of
// etcd-manager, which keeps its file state beside data (kubernetes-sigs/etcd-manager, pkg/etcd/etcdserver.go), or . of
// plain etcd. It returns nothing where holdfast has left traces, where there is no data of etcd's, and where only a
// symbolic link leads to it, which may lead off the volume.
func foreignEtcd(dir string) (found []string, err error) {
	for _, name := range made {
		if has, err := exists(filepath.Join(dir, name)); has || err != nil {
			return nil, err
		}
	}
	candidates := []string{"."}
	managed, err := has(filepath.Join(dir, "state"), fs.FileMode.IsRegular)
	if err == nil && managed {
		managed, err = has(filepath.Join(dir, "data"), fs.FileMode.IsDir)
	}
	if err == nil && managed {
		var tokens []fs.DirEntry
		tokens, err = os.ReadDir(filepath.Join(dir, "data"))
		for _, token := range tokens {
			candidates = append(candidates, filepath.Join("data", token.Name()))
		}
	}
	if err != nil {
		return nil, cure(err)
	}
	for _, candidate := range candidates {
		is, err := isEtcd(filepath.Join(dir, candidate))
		if err != nil {
			return nil, cure(err)
		}
		if is {
			found = append(found, candidate)
		}
	}
	return found, nil
}

// isEtcd reports whether dir is a data directory of etcd: one with a log in member/wal.
func isEtcd(dir string) (bool, error) {
	wal := filepath.Join(dir, "member", "wal")
	for _, path := range []string{dir, filepath.Dir(wal), wal} {
		if is, err := has(path, fs.FileMode.IsDir); !is || err != nil {
			return false, err
		}
	}
	logs, err := logsIn(wal)
	return len(logs) > 0, err
}

// logsIn are the paths of the files of a log. A directory that is not there has none.
func logsIn(wal string) (logs []string, err error) {
	files, err := os.ReadDir(wal)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	for _, f := range files {
		if f.Type().IsRegular() && strings.HasSuffix(f.Name(), ".wal") {
			logs = append(logs, filepath.Join(wal, f.Name()))
		}
	}
	return logs, err
}

// has reports whether what lies at path itself, not behind a link, is of a kind.
func has(path string, kind func(fs.FileMode) bool) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	return err == nil && kind(info.Mode()), err
}

// EtcdRuns returns the file on a volume by whose lock a running etcd is known, "" if none is. It looks where etcd-manager,
// plain etcd and holdfast keep the data. etcd locks its database (bbolt, flock) and its log (fileutil.TryLockFile, an OFD
// lock on Linux): while it defragments, only the log is locked. Nothing is written, and a shared lock is held for an instant.
func EtcdRuns(dir string) (locked string, err error) {
	tokens, err := os.ReadDir(filepath.Join(dir, "data"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return "", cure(err)
	}
	candidates := []string{dir, filepath.Join(dir, "etcd")}
	for _, token := range tokens {
		candidates = append(candidates, filepath.Join(dir, "data", token.Name()))
	}
	for _, candidate := range candidates {
		files, err := logsIn(filepath.Join(candidate, "member", "wal"))
		if err != nil {
			return "", cure(err)
		}
		for _, path := range append(files, filepath.Join(candidate, "member", "snap", "db")) {
			if is, err := runsOn(path); is || err != nil {
				return path, err
			}
		}
	}
	return "", nil
}

// runsOn reports whether a program that is not this lock's asker has locked a file of etcd's.
func runsOn(path string) (bool, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false, cure(missing(err)) // opening what is no file could block
	}
	if locked, err := isLocked(path); locked || err != nil {
		return locked, err
	}
	f, err := os.Open(path)
	if err != nil {
		return false, cure(missing(err))
	}
	defer f.Close()
	locked, err := isLockedOFD(f)
	if err != nil {
		err = fmt.Errorf("look for a lock of %s: %w", path, err)
	}
	return locked, err
}

// noEtcd is nil while no etcd runs on a volume; else it wraps ErrBusy and says what to stop.
func noEtcd(dir string) error {
	switch locked, err := EtcdRuns(dir); {
	case err != nil:
		return err
	case locked != "":
		return fmt.Errorf("%w: etcd still runs on %s: stop etcd-manager, or that etcd, on this machine", ErrBusy, locked)
	}
	return nil
}
