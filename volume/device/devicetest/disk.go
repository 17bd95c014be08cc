// Package devicetest gives tests real block devices that look like EBS volumes: loop devices, and a directory that
// imitates / with sys and dev. It needs root.
package devicetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Small is the size of a device in bytes that both ext4 and xfs fit on: mkfs.xfs wants 300 MiB.
const Small = 320 << 20

// Disk is a blank block device that looks like an EBS volume.
type Disk struct {
	Root   string // a directory that imitates /
	Path   string // of the device, without symbolic links
	Image  string // the file behind the loop device
	Volume string // vol-…
	Number uint64 // of the device
}

// New makes a disk. It removes the disk and every mount of it when the test ends. Without root it skips the test.
func New(t testing.TB, size int64) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	dir := t.TempDir()
	d := &Disk{Root: filepath.Join(dir, "root"), Image: filepath.Join(dir, "image"), Volume: "vol-0123456789abcdef0"}
	write(t, d.Image, "")
	must(t, os.Truncate(d.Image, size))
	d.Path = strings.TrimSpace(Run(t, "losetup", "--find", "--show", "--nooverlap", "--direct-io=on", d.Image))
	t.Cleanup(func() { d.remove(t) })
	var st unix.Stat_t
	must(t, unix.Stat(d.Path, &st))
	d.Number = st.Rdev
	sys := filepath.Join(d.Root, "sys/block/nvme1n1/device")
	for _, dir := range []string{sys, filepath.Join(d.Root, "dev")} {
		must(t, os.MkdirAll(dir, 0o755))
	}
	write(t, filepath.Join(sys, "model"), "Amazon Elastic Block Store              \n")
	write(t, filepath.Join(sys, "serial"), "vol0123456789abcdef0\n")
	must(t, os.Symlink(d.Path, filepath.Join(d.Root, "dev/nvme1n1")))
	return d
}

// Vanish removes the device from sysfs, as a detach does.
func (d *Disk) Vanish(t testing.TB) {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(d.Root, "sys/block/nvme1n1")))
}

// Grow makes the device larger.
func (d *Disk) Grow(t testing.TB, size int64) {
	t.Helper()
	must(t, os.Truncate(d.Image, size))
	Run(t, "losetup", "-c", d.Path)
}

// remove leaves nothing behind, however the test ended.
func (d *Disk) remove(t testing.TB) {
	list, err := mountinfo.GetMounts(nil)
	if err != nil {
		t.Error(err)
	}
	for _, m := range list {
		if unix.Mkdev(uint32(m.Major), uint32(m.Minor)) == d.Number {
			_ = exec.Command("fsfreeze", "-u", m.Mountpoint).Run() // a frozen file system cannot be unmounted
			if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil {
				t.Errorf("unmount %s: %v", m.Mountpoint, err)
			}
		}
	}
	if out, err := exec.Command("losetup", "-d", d.Path).CombinedOutput(); err != nil {
		t.Errorf("losetup -d %s: %v: %s", d.Path, err, out)
	}
}

// Write writes to the device, bypassing every cache.
func (d *Disk) Write(t testing.TB, offset int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(d.Image, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(data, offset)
	must(t, err)
	must(t, f.Sync())
}

// Zero zeroes a part of the device, bypassing every cache.
func (d *Disk) Zero(t testing.TB, offset, length int64) {
	t.Helper()
	f, err := os.OpenFile(d.Image, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	const how = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	must(t, unix.Fallocate(int(f.Fd()), how, offset, length))
}

// Run runs a program that must succeed, and returns its output.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func write(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
