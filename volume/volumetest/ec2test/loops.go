package ec2test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Loops gives attached volumes a loop device. Each volume is a sparse file. Each machine is a directory that imitates
// the root directory of a Nitro instance with its disks:
//
//	volumes/<volume>                                 the content
//	<instance>/dev/nvme2n1                           a link to /dev/loop7
//	<instance>/sys/block/nvme2n1/device/serial       vol0123456789abcdef0
//	<instance>/sys/block/nvme2n1/device/model        Amazon Elastic Block Store
//	<instance>/sys/block/nvme2n1/size                in sectors of 512 bytes
//
// Every machine also has a root volume and an instance store, which are only names.
//
// There are never two loop devices that can write to one file. A device that was taken away exists until its last user
// closes it, but with a size of one sector: nothing of it can be read or written any more. The loop devices vanish with
// this process in any case, unless they are mounted.
type Loops struct {
	directory string
	mib       int64

	mu    sync.Mutex // guards the rest, and the device roots
	disks map[string]*disk
	names map[string]int // the last nvme number of each machine
	dead  []*loop
}

// disk is a volume. If it has no loop, it has no device, even if it is attached.
type disk struct {
	size     int64 // bytes
	loop     *loop
	instance string
	name     string // nvme2n1
}

// The numbers of the NVMe devices. The root volume and the instance store have the first ones. Those of the volumes are
// used in turn, so that a reused name does not go untested.
const firstName, lastName = 2, 26

// freeWithin is how long a device may take to be released after everything is unmounted.
const freeWithin = 5 * time.Second

// NewLoops makes a backend that keeps its files in a directory. A volume of n GiB has 256 + n·mibPerGiB MiB (64 each if
// 0): xfs needs at least 300.
func NewLoops(directory string, mibPerGiB int64) (*Loops, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("make loop devices: only root can")
	}
	if mibPerGiB == 0 {
		mibPerGiB = 64
	}
	err := os.MkdirAll(filepath.Join(directory, "volumes"), 0o700)
	if err == nil {
		directory, err = filepath.Abs(directory)
	}
	if err == nil {
		directory, err = filepath.EvalSymlinks(directory) // the kernel names files without them
	}
	if err != nil {
		return nil, fmt.Errorf("prepare loop devices: %w", err)
	}
	return &Loops{directory: directory, mib: mibPerGiB, disks: map[string]*disk{}, names: map[string]int{}}, nil
}

func (l *Loops) file(volume string) string { return filepath.Join(l.directory, "volumes", volume) }

// Host makes the device root of a machine, and returns it.
func (l *Loops) Host(instance string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	root := machine(filepath.Join(l.directory, instance))
	if _, ok := l.names[instance]; ok {
		return string(root), nil
	}
	l.names[instance] = firstName - 1
	id := sha256.Sum256([]byte(instance))
	for _, d := range []struct{ name, serial, model string }{
		{"nvme0n1", fmt.Sprintf("vol0%x", id[:8]), modelEBS},
		{"nvme1n1", fmt.Sprintf("AWS%X", id[:8]), modelStore},
	} {
		if err := root.publish(d.name, d.serial, d.model, os.DevNull, 0); err != nil {
			return "", err
		}
	}
	return string(root), nil
}

// Resize sets the size of a volume.
func (l *Loops) Resize(volume string, gib int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := (256 + gib*l.mib) << 20
	d := l.disks[volume]
	if d == nil {
		d = &disk{}
	}
	f, err := os.OpenFile(l.file(volume), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return err
	}
	d.size = size
	l.disks[volume] = d
	if d.loop == nil {
		return nil
	}
	if err := d.loop.resized(); err != nil {
		return err
	}
	return machine(filepath.Join(l.directory, d.instance)).resize(d.name, size)
}

// Attach makes the device of a volume.
func (l *Loops) Attach(instance, volume, _ string) error {
	if _, err := l.Host(instance); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.disks[volume]
	switch {
	case d == nil:
		return fmt.Errorf("volume %s has no disk", volume)
	case d.loop != nil:
		return fmt.Errorf("volume %s has a device at %s", volume, d.instance)
	}
	name, err := l.free(instance)
	if err != nil {
		return err
	}
	p, err := openLoop(l.file(volume))
	if err != nil {
		return fmt.Errorf("make a loop device for %s: %w", volume, err)
	}
	root := machine(filepath.Join(l.directory, instance))
	if err := root.publish(name, serial(volume), modelEBS, p.path, d.size); err != nil {
		p.close()
		return err
	}
	d.loop, d.instance, d.name = p, instance, name
	return nil
}

// free returns the next NVMe device that an instance does not have.
func (l *Loops) free(instance string) (string, error) {
	taken := map[string]bool{}
	for _, d := range l.disks {
		if d.loop != nil && d.instance == instance {
			taken[d.name] = true
		}
	}
	for range lastName - firstName + 1 {
		n := l.names[instance] + 1
		if n > lastName {
			n = firstName
		}
		l.names[instance] = n
		if name := fmt.Sprintf("nvme%dn1", n); !taken[name] {
			return name, nil
		}
	}
	return "", fmt.Errorf("machine %s has no free NVMe device", instance)
}

// Detach removes a device. It is in use if it is mounted or someone has it open exclusively.
func (l *Loops) Detach(instance, volume string, force bool) (busy bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.disks[volume]
	if d == nil || d.loop == nil || d.instance != instance {
		return false, nil
	}
	if force {
		return false, l.kill(d)
	}
	// While the device is open exclusively, nobody can begin to use it.
	release, err := d.loop.exclusive()
	if err != nil || release == nil {
		return err == nil, err
	}
	defer release()
	err = l.unpublish(d)
	p := d.loop
	d.loop = nil
	// Programs that scan new devices may have it open, but not exclusively: it must be dead for them too.
	err = errors.Join(err, p.disable())
	l.bury(p)
	return false, err
}

// bury closes a disabled loop device. Its last user also has to close it.
func (l *Loops) bury(p *loop) {
	p.close()
	l.dead = append(slices.DeleteFunc(l.dead, func(p *loop) bool { return !p.bound() }), p)
}

func (l *Loops) unpublish(d *disk) error {
	return machine(filepath.Join(l.directory, d.instance)).unpublish(d.name)
}

// kill makes a device fail and vanish.
func (l *Loops) kill(d *disk) error {
	err := errors.Join(l.unpublish(d), shutdown(d.loop.number), d.loop.disable())
	l.bury(d.loop)
	d.loop = nil
	return err
}

// Yank makes the device of a volume fail and vanish for good. The volume stays attached.
func (l *Loops) Yank(volume string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, err := l.device(volume)
	if err != nil {
		return err
	}
	return l.kill(d)
}

// Freeze makes writes to the mounted filesystem of a volume hang, as a stalled device does.
func (l *Loops) Freeze(volume string) error { return l.ioctl(volume, ioctlFreeze) }

// Thaw ends Freeze.
func (l *Loops) Thaw(volume string) error { return l.ioctl(volume, ioctlThaw) }

// ioctl sends a request to the mounted filesystem of a volume. It must be mounted.
func (l *Loops) ioctl(volume string, request uint) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, err := l.device(volume)
	if err != nil {
		return err
	}
	mounts, err := mountsOf(d.loop.number)
	if err != nil {
		return err
	}
	for _, m := range mounts { // all are the same filesystem, but one may just have been unmounted
		if err := ioctl(d.loop.number, m, request, 0); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("volume %s is not mounted", volume)
}

func (l *Loops) device(volume string) (*disk, error) {
	d := l.disks[volume]
	if d == nil || d.loop == nil {
		return nil, fmt.Errorf("volume %s has no device", volume)
	}
	return d, nil
}

// Close removes all devices by force, and all files. It unmounts them in the caller's mount namespace.
func (l *Loops) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, d := range l.disks {
		if d.loop != nil {
			errs = append(errs, l.kill(d))
		}
	}
	for _, p := range l.dead {
		errs = append(errs, p.unmount())
		if !p.gone(freeWithin) {
			errs = append(errs, fmt.Errorf("%s is still in use", p.path))
		}
	}
	for instance := range l.names {
		errs = append(errs, os.RemoveAll(filepath.Join(l.directory, instance)))
	}
	for volume := range l.disks {
		if err := os.Remove(l.file(volume)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, os.Remove(filepath.Join(l.directory, "volumes")))
	l.disks, l.names, l.dead = map[string]*disk{}, map[string]int{}, nil
	return errors.Join(errs...)
}
