package ec2test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// loopMajor is the major number of loop devices (Documentation/admin-guide/devices.txt of Linux).
const loopMajor = 7

// The requests to a filesystem: fsfreeze, and the shutdown that makes all its operations fail (FS_IOC_SHUTDOWN, with
// the same number for ext4 and xfs).
const (
	ioctlFreeze   = 0xC0045877
	ioctlThaw     = 0xC0045878
	ioctlShutdown = 0x8004587D
	noLogFlush    = 2 // not even the journal is written
)

// loop is a loop device, open as long as it is needed. When nobody has it open any more, it is removed
// (LO_FLAGS_AUTOCLEAR), even if this process is killed.
type loop struct {
	number  int
	path    string
	backing string // the file, without symbolic links
	file    *os.File
}

// openLoop makes a loop device of a file.
func openLoop(path string) (*loop, error) {
	backing, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range 100 {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		p, err := configure(number, backing)
		if !errors.Is(err, unix.EBUSY) { // otherwise another process was faster
			return p, err
		}
	}
	return nil, errors.New("every free loop device was taken by somebody else")
}

func configure(number int, backing *os.File) (*loop, error) {
	p := &loop{number: number, path: "/dev/loop" + strconv.Itoa(number), backing: backing.Name()}
	// If nobody makes the nodes of new devices, do it here.
	if _, err := os.Stat(p.path); errors.Is(err, fs.ErrNotExist) {
		if err := unix.Mknod(p.path, unix.S_IFBLK|0o660, int(unix.Mkdev(loopMajor, uint32(number)))); err != nil &&
			!errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("make %s: %w", p.path, err)
		}
	}
	var err error
	p.file, err = os.OpenFile(p.path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	// With direct I/O, what the device has accepted is in the file, and not in a cache of this device, when the next
	// device for this file is opened.
	err = unix.IoctlLoopConfigure(int(p.file.Fd()), &unix.LoopConfig{
		Fd:   uint32(backing.Fd()),
		Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_DIRECT_IO | unix.LO_FLAGS_AUTOCLEAR},
	})
	if err != nil {
		_ = p.file.Close()
		return nil, fmt.Errorf("configure %s: %w", p.path, err)
	}
	return p, nil
}

// exclusive opens the device so that nobody can begin to use it. release is nil if someone uses it.
func (p *loop) exclusive() (release func(), err error) {
	fd, err := unix.Open(p.path, unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s exclusively: %w", p.path, err)
	}
	return func() { _ = unix.Close(fd) }, nil
}

// resized tells the device that the size of its file has changed.
func (p *loop) resized() error {
	if err := unix.IoctlSetInt(int(p.file.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("resize %s: %w", p.path, err)
	}
	return nil
}

// disable shrinks the device to one sector, so that no request can reach the file any more. It first writes what the
// device has accepted.
func (p *loop) disable() error {
	_ = p.file.Sync()
	info, err := unix.IoctlLoopGetStatus64(int(p.file.Fd()))
	if err == nil {
		info.Sizelimit = 512
		err = unix.IoctlLoopSetStatus64(int(p.file.Fd()), info)
	}
	if err != nil {
		return fmt.Errorf("disable %s: %w", p.path, err)
	}
	return nil
}

// close closes the device. It is removed when nobody else has it open.
func (p *loop) close() {
	_ = p.file.Close()
	p.file = nil
}

// gone waits until the device is released.
func (p *loop) gone(within time.Duration) bool {
	for end := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		if !p.bound() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// bound reports whether the device still has its file. Its number may have been reused for another file.
func (p *loop) bound() bool {
	text, err := os.ReadFile(fmt.Sprintf("/sys/block/loop%d/loop/backing_file", p.number))
	return err == nil && strings.TrimSuffix(strings.TrimSpace(string(text)), " (deleted)") == p.backing
}

// mountsOf finds the mounts of a loop device in all mount namespaces, as paths that lead there from here.
func mountsOf(number int) ([]string, error) {
	threads, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*") // each thread may have a namespace of its own
	if err != nil {
		return nil, err
	}
	var found []string
	seen := map[string]bool{}
	for _, p := range threads {
		// A thread can end at any moment. Then its files are missing.
		namespace, err := os.Readlink(p + "/ns/mnt")
		if err != nil || seen[namespace] {
			continue
		}
		mounts, err := readMounts(p+"/mountinfo", number)
		if err != nil {
			continue
		}
		seen[namespace] = true
		for _, m := range mounts {
			found = append(found, filepath.Join(p+"/root", m))
		}
	}
	return found, nil
}

func readMounts(path string, number int) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	infos, err := mountinfo.GetMountsFromReader(f, func(i *mountinfo.Info) (skip, stop bool) {
		return i.Major != loopMajor || i.Minor != number, false
	})
	if err != nil {
		return nil, err
	}
	var found []string
	for _, i := range infos {
		found = append(found, i.Mountpoint)
	}
	return found, nil
}

// shutdown makes every operation of the filesystem on a loop device fail. Processes that wait in a frozen one continue.
func shutdown(number int) error {
	mounts, err := mountsOf(number)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mounts {
		err := ioctl(number, m, ioctlShutdown, noLogFlush)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was just unmounted
		}
		if errors.Is(err, unix.EIO) {
			continue // it has shut itself down because of the dead device: xfs then refuses to open anything
		}
		errs = append(errs, err)
		_ = ioctl(number, m, ioctlThaw, 0)
	}
	return errors.Join(errs...)
}

// ioctl sends a request to the filesystem of a loop device that is mounted at a directory. If it is not mounted there
// any more, the error wraps fs.ErrNotExist: another filesystem must not get the request.
func ioctl(number int, directory string, request uint, argument int) error {
	f, err := os.Open(directory)
	if err != nil {
		return err
	}
	defer f.Close()
	var info unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &info); err != nil {
		return err
	}
	if info.Dev != unix.Mkdev(loopMajor, uint32(number)) {
		return fmt.Errorf("mount of /dev/loop%d at %s: %w", number, directory, fs.ErrNotExist)
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), request, argument); err != nil {
		return fmt.Errorf("ioctl %#x of %s: %w", request, directory, err)
	}
	return nil
}

// unmount unmounts the device at all mount points of this thread's namespace.
func (p *loop) unmount() error {
	if !p.bound() {
		return nil
	}
	mounts, err := readMounts("/proc/thread-self/mountinfo", p.number)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mounts {
		errs = append(errs, unix.Unmount(m, unix.MNT_DETACH))
	}
	return errors.Join(errs...)
}
