package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Running returns the file on a volume by whose lock a running etcd is known, "" if none is. It looks where plain etcd,
// holdfast and etcd-manager have the data; an etcd of this process counts as any other. What was set aside is not
// looked at.
func Running(volume string) (file string, err error) {
	paths, err := managers(volume)
	for _, path := range append([]string{".", Own}, paths...) {
		if err == nil && file == "" {
			file, err = RunningIn(filepath.Join(volume, path))
		}
	}
	return file, err
}

// RunningIn returns what an etcd has locked in a data directory, "" for nothing. etcd locks its database (bbolt, flock)
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

// isLocked asks of a file. Opening a pipe or a device could block; a file that is gone by now was purged.
func isLocked(path string, asks func(*os.File) (bool, error)) (bool, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false, ignore(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return false, ignore(err)
	}
	defer f.Close()
	is, err := asks(f)
	if err != nil {
		err = fmt.Errorf("look for the lock of %s: %w", path, err)
	}
	return is, err
}

// Locked reports whether somebody has locked a file or directory for himself alone (flock), as bbolt does for who
// writes. Others who only look do not count. Its own lock is shared and given up at once; bbolt tries again until it
// has its own.
func Locked(f *os.File) (bool, error) {
	switch err := retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) }); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, err
	}
	// Before it is closed: a child that was forked this instant has a copy of the file, and with it the lock.
	return false, retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) })
}

func retry(do func() error) error {
	for {
		if err := do(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
