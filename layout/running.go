package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"holdfast/durable"
)

// Running returns a file on a volume that a running etcd has locked, or "". It looks where plain etcd, holdfast and
// etcd-manager keep their data, but not at data that was set aside. An etcd in this process counts too.
func Running(volume string) (file string, err error) {
	paths, err := managers(volume)
	for _, path := range append([]string{".", Own}, paths...) {
		if err == nil && file == "" {
			file, err = RunningIn(filepath.Join(volume, path))
		}
	}
	return file, err
}

// RunningIn returns a file that an etcd has locked in a data directory, or "". etcd locks its database (bbolt, flock)
// and its log (client/pkg/fileutil, an OFD lock on Linux). While it defragments, only the log is locked.
func RunningIn(dir string) (file string, err error) {
	database := filepath.Join(dir, Member, "snap", "db") // what etcd opens first
	if is, err := isLocked(database, Locked); is || err != nil {
		return database, err
	}
	logs, err := logsIn(filepath.Join(dir, Member, "wal"))
	for _, log := range logs {
		if is, err := isLocked(log, logLocked); is || err != nil {
			return log, err
		}
	}
	return "", err
}

// isLocked applies locked to a regular file. Opening a pipe or a device could block. A file that is gone was purged.
func isLocked(path string, locked func(*os.File) (bool, error)) (bool, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false, ignore(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return false, ignore(err)
	}
	defer f.Close()
	is, err := locked(f)
	if err != nil {
		err = fmt.Errorf("look for the lock of %s: %w", path, err)
	}
	return is, err
}

// Locked reports whether someone has locked a file or directory exclusively (flock), as a process does that opens a
// bbolt database for writing; a reader's shared lock does not count. It takes a shared lock and gives it up at once.
// bbolt retries until it has its own.
func Locked(f *os.File) (bool, error) {
	switch err := durable.Flock(f, unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, err
	}
	// Closing is not enough: a child that was just forked has a copy of the open file, and with it the lock.
	return false, durable.Flock(f, unix.LOCK_UN)
}
