package layout

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"holdfast/durable"
)

// logLocked reports whether a log file is locked as etcd locks it (client/pkg/fileutil/lock_linux.go). It takes no lock
// itself, because an etcd that starts at that moment would give up.
func logLocked(f *os.File) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := durable.Uninterrupted(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) })
	return err == nil && lock.Type != unix.F_UNLCK, err
}
