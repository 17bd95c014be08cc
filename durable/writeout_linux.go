package durable

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// WriteOut starts writing the bytes from from to at to the disk, and waits for those from before to from.
func WriteOut(f *os.File, before, from, at int64) error {
	fd := int(f.Fd())
	err := unix.SyncFileRange(fd, from, at-from, unix.SYNC_FILE_RANGE_WRITE)
	if err == nil && from > before {
		err = unix.SyncFileRange(fd, before, from-before,
			unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	}
	// A file system or sandbox without this call is no reason to fail: the sync at the end decides.
	if err != nil && !slices.Contains([]error{unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP}, err) {
		return os.NewSyscallError("sync_file_range", err)
	}
	return nil
}
