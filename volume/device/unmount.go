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
	unmountWait = 30 * time.Second       // for the device to take all data that is still to be written
	busyWait    = 3 * time.Second        // for a program that only scans the device or looks at the mount
	busyLook    = 100 * time.Millisecond // between attempts
	fenceWait   = 400 * time.Millisecond // for each of the two steps of Fence
)

// Unmount writes all pending data and unmounts what is mounted at dir, if anything. If the write fails, Unmount returns
// the error but has unmounted the filesystem all the same.
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
	if failure(m) == "" && !isReadonly(m) { // otherwise nothing can be written
		unwritten = bounded(ctx, "sync", func() error { return syncfs(dir) })
	}
	if errors.Is(unwritten, ErrStalled) {
		return unwritten
	}
	err := retryOn(ctx, unix.EBUSY, func() error {
		return bounded(ctx, "umount", func() error { return unix.Unmount(dir, unix.UMOUNT_NOFOLLOW) })
	})
	if errors.Is(err, unix.EBUSY) {
		err = busy(dir, err)
	}
	return errors.Join(unwritten, err)
}

// busy adds to an error what uses the filesystem, or how to find out.
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

// shutdownRequest is FS_IOC_SHUTDOWN, for both ext4 and xfs. Its argument shutdownNow (…_NOLOGFLUSH) means: fail every
// operation from now on, and write nothing more, not even the journal.
const (
	shutdownRequest = 0x8004587D
	shutdownNow     = 2
)

// Fence makes every access to the filesystem mounted at dir fail from now on, even through open files, and detaches the
// mount. It returns within a second, whatever the device does. An operation that still waits for the device can no
// longer change anything on it. If nothing is mounted, Fence does nothing. A filesystem that somebody has mounted over
// the volume is not touched.
func (g *Guard) Fence(dir string) error {
	there, err := at(dir)
	if err != nil || there == nil {
		return err
	}
	if _, ours := g.ours.Load(of(there)); !ours {
		return fmt.Errorf("fence %s: %s (%s) is not what was mounted there", dir, there.Source, of(there))
	}
	now := make(chan struct{})
	close(now)
	err = within(now, fenceWait, "shut down the filesystem", func() error { return shutdown(there) })
	// Detach in any case: then no path leads to the filesystem any more.
	e := within(now, fenceWait, "detach the mount", func() error {
		return unix.Unmount(there.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	})
	if err = errors.Join(err, e); err != nil {
		return fmt.Errorf("fence %s: %w", dir, err)
	}
	return nil
}

// shutdown shuts down the filesystem m, and no other: if dir were no longer its mount point, the request would apply to
// the filesystem below, which may be that of the whole machine.
func shutdown(m *mountinfo.Info) error {
	f, err := os.Open(m.Mountpoint)
	if errors.Is(err, unix.EIO) {
		return nil // it is already shut down
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
