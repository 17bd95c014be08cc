package volume

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// isLockedOFD reports whether somebody has an OFD or a POSIX lock on a file. It asks, and takes none itself.
func isLockedOFD(f *os.File) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock)
		if err != unix.EINTR {
			return err == nil && lock.Type != unix.F_UNLCK, err
		}
	}
}
