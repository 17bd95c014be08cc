package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const (
	unmountWait = 30 * time.Second       // for the device to take what has to be written
	busyWait    = 3 * time.Second        // for anyone who looks at the mount in passing
	busyLook    = 100 * time.Millisecond // between attempts
	fenceWait   = 400 * time.Millisecond // for either of the two steps of Fence
)

// Unmount writes what has not been written yet and unmounts what is mounted at dir; nothing is no error. An
// error of that last write is returned, but the filesystem is unmounted all the same.
func Unmount(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, unmountWait)
	defer cancel()
	for {
		there, err := at(dir)
		if err == nil && there == nil {
			return nil
		}
		if err == nil {
			err = unmount(ctx, there)
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
	}
}

func unmount(ctx context.Context, m *mountinfo.Info) error {
	dir := m.Mountpoint
	var unwritten error
	if failure(m) == "" && !isReadonly(m) { // there is something to write, and it can be written
		unwritten = bounded(ctx, "sync", func() error { return syncfs(dir) })
	}
	if errors.Is(unwritten, ErrStalled) {
		return unwritten
	}
	err := inPassing(ctx, unix.EBUSY, func() error {
		return bounded(ctx, "umount", func() error { return unix.Unmount(dir, unix.UMOUNT_NOFOLLOW) })
	})
	if errors.Is(err, unix.EBUSY) {
		err = busy(dir, err)
	}
	return errors.Join(unwritten, err)
}

// busy says what to look at when a filesystem is in use.
func busy(dir string, err error) error {
	below, _ := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(m.Mountpoint, dir+"/"), false
	})
	if len(below) > 0 {
		return fmt.Errorf("%w: %s is mounted below it: unmount that first", err, below[0].Mountpoint)
	}
	return fmt.Errorf("%w: some process has a file or its working directory there: see fuser -vm %s", err, dir)
}

func syncfs(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err = unix.Syncfs(int(f.Fd())); err != nil {
		err = fmt.Errorf("write what was still to be written: %w", err)
	}
	return errors.Join(err, f.Close())
}

// shutdownRequest is FS_IOC_SHUTDOWN, for ext4 and xfs alike, and shutdownNow its argument (…_NOLOGFLUSH): fail
// everything from now on, and write nothing more, not even the journal.
const (
	shutdownRequest = 0x8004587D
	shutdownNow     = 2
)

// Fence makes every access to the filesystem mounted at dir fail from now on, also through files that are
// open, and detaches the mount. It returns within a second, whatever the device does; what then still waits
// for the device can change nothing on it. Nothing mounted is no error.
func Fence(dir string) error {
	there, err := at(dir)
	if err != nil || there == nil {
		return err
	}
	now := make(chan struct{})
	close(now)
	err = within(now, fenceWait, "shut down the filesystem", func() error { return shutdown(there) })
	// Whatever came of it: what is detached is not reached any more by a path.
	e := within(now, fenceWait, "detach the mount", func() error {
		return unix.Unmount(there.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	})
	if err = errors.Join(err, e); err != nil {
		return fmt.Errorf("fence %s: %w", dir, err)
	}
	return nil
}

// shutdown shuts down exactly the filesystem that was seen: should dir not be its mount point any more, the
// request would hit the filesystem below, which may be that of the whole machine.
func shutdown(m *mountinfo.Info) error {
	f, err := os.Open(m.Mountpoint)
	if errors.Is(err, unix.EIO) {
		return nil // it is shut down
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	switch err := unix.Fstat(int(f.Fd()), &st); {
	case errors.Is(err, unix.EIO):
		return nil
	case err != nil:
		return err
	case numberOf(st.Dev) != of(m) || m.Mountpoint == "/" || filepath.Clean(m.Root) != "/":
		return fmt.Errorf("%s is not what was mounted there", m.Mountpoint)
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), shutdownRequest, shutdownNow)
}
