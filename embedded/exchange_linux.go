package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// exchange lets two names of one file system change places in one step (renameat2(2)).
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("the file system cannot exchange %s and %s in one step, as ext4, xfs and btrfs can: %w", a, b,
			err)
	}
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// walLocked reports whether a file of a log is locked as etcd locks it (client/pkg/fileutil/lock_linux.go). It takes no
// lock itself: an etcd that starts would give up.
func walLocked(f *os.File) (bool, error) {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("look for the lock of %s: %w", f.Name(), err)
	}
	return lock.Type != syscall.F_UNLCK, nil
}
