package ec2test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const disk1 = "vol-0123456789abcdef0"

// withLoops returns a cloud with devices, instances i-1 to i-3, and volume disk1.
func withLoops(t *testing.T) (*fixture, *Loops) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices and mounts need root")
	}
	if testing.Short() {
		t.Skip("filesystems are made")
	}
	// Mount in a separate namespace, which nobody can copy: a namespace that another test makes meanwhile would keep the
	// mounts in use. This namespace ends with its thread.
	runtime.LockOSThread()
	ok(t, unix.Unshare(unix.CLONE_NEWNS))
	ok(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	directory := t.TempDir()
	loops, err := NewLoops(directory, 0)
	ok(t, err)
	t.Cleanup(func() {
		if left, _ := os.ReadDir(directory); len(left) != 0 {
			t.Errorf("got %v left behind, want nothing", left)
		}
		files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
		for _, f := range files {
			if text, _ := os.ReadFile(f); bytes.HasPrefix(text, []byte(directory)) {
				t.Errorf("got %s, a loop device of %s left behind", f, text)
			}
		}
	})
	f := open(t, Options{Devices: loops, PowerOff: 300 * time.Millisecond})
	must(t)(f.AddVolume(Volume{ID: disk1}))
	return f, loops
}

// device waits for the device of disk1 at an instance and returns its path.
func device(t *testing.T, f *fixture, instance string) string {
	t.Helper()
	f.until(t, disk1, "in-use "+instance+":attached")
	found := devices(t, f, instance)
	if len(found) != 1 {
		t.Fatalf("got the devices %v at %s, want one", found, instance)
	}
	return found[0]
}

// devices finds the devices of disk1 at an instance as a node does: in sysfs.
func devices(t *testing.T, f *fixture, instance string) []string {
	t.Helper()
	root, err := f.options.Devices.Host(instance)
	ok(t, err)
	serials, err := filepath.Glob(filepath.Join(root, "sys/block/nvme*n1/device/serial"))
	ok(t, err)
	var found []string
	for _, s := range serials {
		text, err := os.ReadFile(s)
		ok(t, err)
		model, err := os.ReadFile(filepath.Join(filepath.Dir(s), "model"))
		ok(t, err)
		if string(text) == "vol0123456789abcdef0\n" && string(model) == "Amazon Elastic Block Store              \n" {
			name := filepath.Base(filepath.Dir(filepath.Dir(s)))
			found = append(found, filepath.Join(root, "dev", name))
		}
	}
	return found
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// mount makes a filesystem on a device if it is blank, and mounts it.
func mount(t *testing.T, device, kind string) string {
	t.Helper()
	if exec.CommandContext(t.Context(), "blkid", "-p", device).Run() != nil {
		run(t, "mkfs."+kind, "-q", device)
	}
	dir := t.TempDir()
	ok(t, unix.Mount(device, dir, kind, unix.MS_NOATIME, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// store writes a file and syncs it to the device.
func store(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func TestDeviceTravels(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) { deviceTravels(t, kind) })
	}
}

func deviceTravels(t *testing.T, kind string) {
	f, _ := withLoops(t)
	for n, instance := range []string{"i-1", "i-2", "i-1"} {
		ok(t, f.attach(t, instance, disk1, "/dev/sdf"))
		dir := mount(t, device(t, f, instance), kind)
		if n > 0 {
			text, err := os.ReadFile(filepath.Join(dir, "file"))
			ok(t, err)
			if got, want := string(text), fmt.Sprint(n-1); got != want {
				t.Errorf("got %q, want %q of the holder before", got, want)
			}
		}
		ok(t, store(filepath.Join(dir, "file"), fmt.Sprint(n)))

		// "stuck in the busy state … until you unmount" (DetachVolume)
		ok(t, f.detach(t, instance, disk1))
		f.until(t, disk1, "in-use "+instance+":busy")
		wantCode(t, f.attach(t, "i-3", disk1, "/dev/sdf"), "VolumeInUse")
		ok(t, store(filepath.Join(dir, "file"), fmt.Sprint(n)))
		ok(t, unix.Unmount(dir, 0))
		f.until(t, disk1, "available")
		if got := devices(t, f, instance); len(got) != 0 {
			t.Errorf("got the devices %v after the detach, want none", got)
		}
	}
	if got := Overlaps(f.Intervals()); len(got) != 0 {
		t.Errorf("got the overlaps %v, want none", got)
	}
}

// A program that has a device open cannot reach the volume after a detach, when it has its next holder.
func TestOldDeviceIsDead(t *testing.T) {
	f, _ := withLoops(t)
	ok(t, f.attach(t, "i-1", disk1, "/dev/sdf"))
	old, err := os.OpenFile(device(t, f, "i-1"), os.O_RDWR, 0)
	ok(t, err)
	defer old.Close()
	ok(t, f.detach(t, "i-1", disk1))
	f.until(t, disk1, "available")
	ok(t, f.attach(t, "i-2", disk1, "/dev/sdf"))
	now, err := os.Open(device(t, f, "i-2"))
	ok(t, err)
	defer now.Close()
	_, _ = old.WriteAt(bytes.Repeat([]byte("x"), 4096), 1<<20)
	_ = old.Sync()
	got := make([]byte, 4096)
	_, err = now.ReadAt(got, 1<<20)
	ok(t, err)
	if !bytes.Equal(got, make([]byte, 4096)) {
		t.Error("the old holder has written to the volume of the new one")
	}
	ok(t, old.Close())
}

// xfs may notice the dead device before the shutdown request. Then it shuts itself down and refuses to open anything.
func TestShutdownOfWhatIsDown(t *testing.T) {
	f, _ := withLoops(t)
	ok(t, f.attach(t, "i-1", disk1, "/dev/sdf"))
	path := device(t, f, "i-1")
	dir := mount(t, path, "xfs")
	var info unix.Stat_t
	ok(t, unix.Stat(dir, &info))
	number := int(unix.Minor(info.Dev))
	ok(t, shutdown(number))
	if _, err := os.Open(dir); !errors.Is(err, unix.EIO) {
		t.Fatalf("got %v opening what is down, want EIO", err)
	}
	ok(t, shutdown(number))
}

func TestYank(t *testing.T) {
	for _, how := range []string{"yank", "force-detach", "terminate"} {
		t.Run(how, func(t *testing.T) {
			f, _ := withLoops(t)
			ok(t, f.attach(t, "i-1", disk1, "/dev/sdf"))
			dir := mount(t, device(t, f, "i-1"), "ext4")
			ok(t, store(filepath.Join(dir, "file"), "acknowledged"))
			open, err := os.OpenFile(filepath.Join(dir, "file"), os.O_RDWR, 0)
			ok(t, err)
			defer open.Close()
			switch how {
			case "yank":
				ok(t, f.Yank(disk1))
				if got := view(f.describe(t, "i-1", disk1)); got != "in-use i-1:attached" {
					t.Errorf("got %s, want that EC2 does not know", got)
				}
			case "force-detach":
				ok(t, f.ForceDetach(disk1))
			case "terminate": // while what runs there does not end
				ok(t, f.TerminateInstance("i-1"))
			}
			if _, err := open.WriteString("lost"); !errors.Is(err, unix.EIO) {
				t.Errorf("got %v writing to an open file, want EIO at once", err)
			}
			if err := store(filepath.Join(dir, "other"), "lost"); err == nil {
				t.Error("got no error writing a new file")
			}
			if got := devices(t, f, "i-1"); len(got) != 0 {
				t.Errorf("got the devices %v, want none", got)
			}
			if how == "yank" {
				ok(t, f.detach(t, "i-1", disk1))
				f.until(t, disk1, "available")
			}
			// The next holder has everything that was acknowledged, although the last one still has the device open.
			ok(t, f.attach(t, "i-2", disk1, "/dev/sdf"))
			text, err := os.ReadFile(filepath.Join(mount(t, device(t, f, "i-2"), "ext4"), "file"))
			if err != nil || string(text) != "acknowledged" {
				t.Errorf("got %q and %v, want what was written", text, err)
			}
			ok(t, open.Close())
			ok(t, unix.Unmount(dir, unix.MNT_DETACH))
		})
	}
}

func TestGrowDevice(t *testing.T) {
	f, _ := withLoops(t)
	ok(t, f.attach(t, "i-1", disk1, "/dev/sdf"))
	d := device(t, f, "i-1")
	dir := mount(t, d, "ext4")
	size := func() string {
		name := filepath.Base(d)
		text, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(d)), "sys/block", name, "size"))
		ok(t, err)
		return strings.TrimSpace(run(t, "blockdev", "--getsz", d)) + " " + strings.TrimSpace(string(text))
	}
	if got, want := size(), "655360 655360"; got != want { // 320 MiB
		t.Errorf("got the sizes %s, want %s", got, want)
	}
	ok(t, f.GrowVolume(disk1, 2))
	if got, want := size(), "786432 786432"; got != want { // 384 MiB
		t.Errorf("grown: got the sizes %s, want %s", got, want)
	}
	// Not while it is mounted: that needs CAP_SYS_RESOURCE, which root does not have everywhere.
	ok(t, unix.Unmount(dir, 0))
	run(t, "e2fsck", "-fp", d)
	run(t, "resize2fs", d)
	run(t, "e2fsck", "-fn", d)
	if err := f.GrowVolume(disk1, 1); err == nil {
		t.Error("got no error of a volume that should shrink")
	}
}

// A request for the filesystem of a device never reaches the filesystem below its mount point.
func TestRequestMissesTheWrongFilesystem(t *testing.T) {
	if err := ioctl(0, t.TempDir(), ioctlThaw, 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that it is not mounted there", err)
	}
}

// A device is found in a separate mount namespace, and its processes hang and continue.
func TestFreezeElsewhere(t *testing.T) {
	f, loops := withLoops(t)
	ok(t, f.attach(t, "i-1", disk1, "/dev/sdf"))
	d := device(t, f, "i-1")
	run(t, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0", d)
	writer := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c",
		`mount "$0" "$1" && cd "$1" && echo mounted && while read line; do { echo "$line" >file && sync file; } 2>/dev/null && echo "$line" || echo failed; done`, d, t.TempDir())
	writer.Stderr = os.Stderr
	in, err := writer.StdinPipe()
	ok(t, err)
	pipe, err := writer.StdoutPipe()
	ok(t, err)
	ok(t, writer.Start())
	t.Cleanup(func() {
		_ = loops.Thaw(disk1)
		_ = writer.Process.Kill()
		_ = writer.Wait()
	})
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(pipe); s.Scan(); {
			lines <- s.Text()
		}
	}()
	said := func() string {
		select {
		case line := <-lines:
			return line
		case <-time.After(10 * time.Second):
			return "nothing"
		}
	}
	if got := said(); got != "mounted" {
		t.Fatalf("got %s, want mounted", got)
	}
	ok(t, f.Freeze(disk1))
	fmt.Fprintln(in, "one")
	select {
	case line := <-lines:
		t.Errorf("got %s while it was frozen, want nothing", line)
	case <-time.After(200 * time.Millisecond):
	}
	ok(t, f.Thaw(disk1))
	if got := said(); got != "one" {
		t.Errorf("got %s after the thaw, want one", got)
	}
	ok(t, f.Freeze(disk1))
	fmt.Fprintln(in, "two")
	ok(t, f.Yank(disk1)) // ends the waiting of hanging processes
	if got := said(); got != "failed" {
		t.Errorf("got %s after the yank, want failed", got)
	}
}

// Device names are used in turn, and there are devices that are not EBS volumes.
func TestDeviceNames(t *testing.T) {
	f, _ := withLoops(t)
	var names []string
	for range 26 {
		ok(t, f.attach(t, "i-1", disk1, "/dev/sdf"))
		names = append(names, filepath.Base(device(t, f, "i-1")))
		ok(t, f.detach(t, "i-1", disk1))
		f.until(t, disk1, "available")
	}
	if got := names[0] + " " + names[1] + " " + names[24] + " " + names[25]; got != "nvme2n1 nvme3n1 nvme26n1 nvme2n1" {
		t.Errorf("got %v, want the numbers 2 to 26 in turn", names)
	}
	root, err := f.options.Devices.Host("i-1")
	ok(t, err)
	models, err := filepath.Glob(filepath.Join(root, "sys/block/nvme[01]n1/device/model"))
	if err != nil || len(models) != 2 {
		t.Errorf("got %v and %v, want a root volume and an instance store", models, err)
	}
}
