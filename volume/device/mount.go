package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
)

// options are used for every mount: a volume only holds data, and etcd needs no access times.
var options = []string{"noatime", "nodev", "nosuid", "noexec"}

// Mount checks the filesystem of a device and mounts it at dir, which it creates. With readonly not even the journal is
// replayed. If the device is already mounted there, it stays mounted, unless the filesystem has failed, or is read-only
// and should be writable. Then it is unmounted, checked and mounted again, since a filesystem that was mounted without
// its journal cannot be remounted writable.
func Mount(ctx context.Context, device, dir string, readonly bool) error {
	err := RetryBusy(ctx, func() error { return mountAt(ctx, device, dir, readonly) })
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", device, dir, err)
	}
	return nil
}

func mountAt(ctx context.Context, device, dir string, readonly bool) error {
	dev, err := numberAt(device)
	if err != nil {
		return err
	}
	there, err := at(dir)
	switch {
	case err != nil:
		return err
	case there == nil:
	case of(there) != dev:
		return fmt.Errorf("%s (%s, %s) is mounted there: unmount it", there.Source, of(there), there.FSType)
	case failure(there) == "" && (readonly || !isReadonly(there)):
		return nil
	default:
		// What a failed filesystem has not written is already lost.
		err := Unmount(ctx, dir)
		if still, e := at(dir); e != nil || still != nil {
			return errors.Join(err, e)
		}
	}
	elsewhere, err := points(dev)
	if err == nil && len(elsewhere) > 0 {
		err = fmt.Errorf("it is mounted at %s: unmount it there", strings.Join(elsewhere, ", "))
	}
	if err != nil {
		return err
	}
	if err := makeDir(dir); err != nil {
		return err
	}
	if err := errors.Join(need("mount", "blkid"), notInUse(device)); err != nil {
		return err
	}
	c, err := Probe(ctx, device)
	if err != nil {
		return err
	}
	if c.Type == "" {
		return fmt.Errorf("it holds no ext4 or xfs filesystem, but %s", c.describe())
	}
	if c.Type == "ext4" && !readonly {
		if err := check(ctx, device); err != nil {
			return err
		}
	}
	return mountNow(ctx, device, dir, c.Type, readonly)
}

// RetryBusy repeats f for 3 s while its error wraps ErrBusy, that is, while another program has the device open
// exclusively. Programs that scan new or changed devices (multipathd, mdadm, LVM) do so for a moment.
func RetryBusy(ctx context.Context, f func() error) error { return retryOn(ctx, ErrBusy, f) }

// retryOn is RetryBusy for any error.
func retryOn(ctx context.Context, busy error, f func() error) error {
	for give := time.Now().Add(busyWait); ; {
		err := f()
		if !errors.Is(err, busy) || time.Now().After(give) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(busyLook):
		}
	}
}

// makeDir creates a mount point. It refuses a symbolic link, since the kernel lists mounts by their real paths.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	return err
}

// check repairs an ext4 filesystem as far as e2fsck can without asking. An xfs filesystem needs no check: mounting it
// replays its log.
func check(ctx context.Context, device string) error {
	_, err := run(ctx, "e2fsck", "-p", device)
	switch out := fmt.Sprint(err); {
	case err == nil, exitCode(err) == 1: // errors were corrected
		return nil
	case exitCode(err) == 8 && strings.Contains(out, "is in use"): // another program has opened it since the last check
		return fmt.Errorf("%w (%w)", ErrBusy, err)
	}
	return fmt.Errorf("its filesystem could not be repaired without asking: run e2fsck -f %s by hand: %w", device, err)
}

func mountNow(ctx context.Context, device, dir, fstype string, readonly bool) error {
	with := slices.Clone(options)
	switch {
	case fstype == "ext4" && readonly:
		with = append(with, "ro", "noload")
	case fstype == "ext4":
		with = append(with, "errors=remount-ro")
	case readonly:
		with = append(with, "ro", "norecovery", "nouuid")
	}
	err := bounded(ctx, "mount", func() error { return newMounter().Mount(device, dir, fstype, with) })
	if err != nil {
		return errors.New(oneLine([]byte(err.Error())))
	}
	dev, err := numberAt(device)
	if err != nil {
		return err
	}
	there, err := at(dir)
	if err == nil && (there == nil || of(there) != dev) {
		err = errors.New("it was mounted, but the mount is not there")
	}
	return err
}

// Grow makes a mounted filesystem as large as its device, and returns its size in bytes before and after. The kernel
// journals each step, so after a kill or a power cut the filesystem can be mounted, and grown again. An ext4 filesystem
// is never grown before it is mounted: if resize2fs is killed there, it leaves what e2fsck -p cannot repair. Growing a
// mounted ext4 filesystem needs the capability CAP_SYS_RESOURCE; without it the filesystem stays as it is, and the
// error names the capability.
func Grow(ctx context.Context, device, dir string) (before, after int64, err error) {
	before, after, err = grow(ctx, device, dir)
	if err != nil {
		return 0, 0, fmt.Errorf("grow %s: %w", device, err)
	}
	return before, after, nil
}

func grow(ctx context.Context, device, dir string) (before, after int64, err error) {
	there, err := at(dir)
	if err == nil && there == nil {
		err = fmt.Errorf("nothing is mounted at %s", dir)
	}
	if err != nil {
		return 0, 0, err
	}
	program := "resize2fs"
	if there.FSType == "xfs" {
		program = "xfs_growfs"
	}
	if err := need("blkid", "blockdev", program); err != nil {
		return 0, 0, err
	}
	if before, err = capacity(dir); err != nil {
		return 0, 0, err
	}
	err = bounded(ctx, "resize", func() error { return resize(ctx, device, there.Mountpoint) })
	if err != nil && there.FSType == "ext4" && !mayGrowExt4() {
		err = fmt.Errorf("this process lacks the capability CAP_SYS_RESOURCE, which the kernel demands for growing a "+
			"mounted ext4 filesystem: grant it (docs/operating.md#files-and-permissions), and restart this node: %w", err)
	}
	if err != nil {
		return 0, 0, err
	}
	after, err = capacity(dir)
	return before, after, err
}

// mayGrowExt4 reports whether a program that this process starts as root has CAP_SYS_RESOURCE.
func mayGrowExt4() bool {
	has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0)
	return err != nil || has == 1
}

func resize(ctx context.Context, device, dir string) error {
	resizer := mount.NewResizeFs(newPrograms(ctx))
	needed, err := resizer.NeedResize(device, dir)
	if err == nil && needed {
		_, err = resizer.Resize(device, dir)
	}
	if err == nil {
		return nil
	}
	return errors.New(oneLine([]byte(err.Error())))
}

func capacity(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Blocks) * st.Bsize, nil
}

// Mounted returns the mount points of a device in this process's mount namespace.
func Mounted(device string) ([]string, error) {
	dev, err := numberAt(device)
	if err != nil {
		return nil, fmt.Errorf("find the mounts of %s: %w", device, err)
	}
	return points(dev)
}

func points(dev number) ([]string, error) {
	list, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	var dirs []string
	for _, m := range list {
		if of(m) == dev {
			dirs = append(dirs, m.Mountpoint)
		}
	}
	return dirs, nil
}

// at returns the uppermost mount at dir, or nil.
func at(dir string) (*mountinfo.Info, error) {
	// dir itself is not resolved: on a failed filesystem even that is an error.
	dir = filepath.Clean(dir)
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return inTable(filepath.Join(parent, filepath.Base(dir)),
		func() ([]*mountinfo.Info, error) { return mountinfo.GetMounts(nil) })
}

// tableReads is how often inTable reads the table of mounts if the table does not show a mount that exists.
const tableReads = 5

// inTable looks for dir in the table of mounts. A kernel before 6.8 can omit an entry while others are unmounted
// (moby/sys#161), so if dir is not in the table, inTable also asks the kernel about the directory.
func inTable(dir string, table func() ([]*mountinfo.Info, error)) (top *mountinfo.Info, err error) {
	missed := false
	for range tableReads {
		list, err := table()
		if err != nil {
			return nil, fmt.Errorf("read the mounts: %w", err)
		}
		for _, m := range list {
			if m.Mountpoint == dir {
				top = m
			}
		}
		if top != nil {
			return top, nil
		}
		mounted, sure, err := mountinfo.MountedFast(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && sure && !mounted {
			return nil, nil
		}
		missed = err == nil && mounted
	}
	if missed {
		return nil, fmt.Errorf("read the mounts: %s is mounted, and the kernel's table does not show it", dir)
	}
	return nil, nil // the kernel cannot say, so the table decides
}

func of(m *mountinfo.Info) number { return number{m.Major, m.Minor} }

func isReadonly(m *mountinfo.Info) bool {
	return has(m.Options, "ro") || has(m.VFSOptions, "ro")
}

// failure returns the mount option that shows that a filesystem has failed, or "". Since Linux 6.15 an ext4 filesystem
// with an error stays rw and shows emergency_ro.
func failure(m *mountinfo.Info) string {
	for _, option := range []string{"emergency_ro", "shutdown"} {
		if has(m.VFSOptions, option) {
			return option
		}
	}
	return ""
}

func has(options, option string) bool { return slices.Contains(strings.Split(options, ","), option) }
