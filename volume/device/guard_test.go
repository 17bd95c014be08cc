package device

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/volume/device/devicetest"
)

// guarded is a mounted volume with a file, and its guard.
func guarded(t *testing.T, d *devicetest.Disk, fstype string) (*Guard, Target) {
	t.Helper()
	dir := t.TempDir()
	format(t, d, fstype)
	mounted(t, d, dir, false)
	put(t, filepath.Join(dir, "identity"), "mine")
	must(t, syncfs(dir))
	g := NewGuard(EBS(d.Root))
	g.Mounted(d.Path)
	target := Target{Volume: d.Volume, Device: d.Path, Dir: dir, File: filepath.Join(dir, "identity")}
	must(t, g.Check(target))
	return g, target
}

// evidence waits up to 2 s for evidence with this text.
func evidence(t *testing.T, g *Guard, target Target, text string) {
	t.Helper()
	begun := time.Now()
	err := g.Check(target)
	if err == nil || errors.Is(err, ErrStalled) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want evidence: %q", err, text)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it took %s, want 2 s at most", took)
	}
}

func TestFenceStopsOpenFiles(t *testing.T) {
	each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
		g, target := guarded(t, d, fstype)
		f, err := os.Create(filepath.Join(target.Dir, "open"))
		must(t, err)
		defer f.Close()
		must(t, g.Fence(target.Dir))
		_, err = f.WriteString("late")
		if err = errors.Join(err, f.Sync()); !errors.Is(err, unix.EIO) {
			t.Errorf("write to an open file: got %v, want %v", err, unix.EIO)
		}
		evidence(t, g, target, "not mounted at")
		if err := g.Fence(target.Dir); err != nil {
			t.Errorf("again: %v", err)
		}
		must(t, f.Close())
		mounted(t, d, target.Dir, false) // and it is mounted again
		contains(t, filepath.Join(target.Dir, "identity"), "mine")
	})
}

func TestFenceOfWhatIsNotMounted(t *testing.T) {
	dir := t.TempDir()
	if err := NewGuard(nil).Fence(dir); err != nil {
		t.Error(err)
	}
	put(t, filepath.Join(dir, "f"), "the filesystem below must not be shut down")
}

// Something else that was mounted over the volume shows that the volume is lost, and is not harmed.
func TestFenceSparesWhatIsMountedOver(t *testing.T) {
	d, other := devicetest.New(t, devicetest.Small), devicetest.New(t, devicetest.Small)
	g, target := guarded(t, d, "ext4")
	format(t, other, "ext4")
	must(t, unix.Mount(other.Path, target.Dir, "ext4", 0, ""))
	evidence(t, g, target, "what is mounted at")
	if err := g.Fence(target.Dir); err == nil || !strings.Contains(err.Error(), "not what was mounted there") {
		t.Errorf("got %v, want that it is another filesystem", err)
	}
	put(t, filepath.Join(target.Dir, "f"), "the other filesystem must not be shut down")
	contains(t, filepath.Join(target.Dir, "f"), "the other filesystem must not be shut down")
	if points, err := Mounted(other.Path); err != nil || len(points) != 1 {
		t.Errorf("got %v, %v, want it still mounted", points, err)
	}
}

// TestCheckSeesAShutdown shuts down the filesystem without the guard's knowledge.
func TestCheckSeesAShutdown(t *testing.T) {
	each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
		g, target := guarded(t, d, fstype)
		m, err := at(target.Dir)
		must(t, err)
		must(t, shutdown(m))
		evidence(t, g, target, "")
		if err := read(d.Path, target.File); !errors.Is(err, unix.EIO) {
			t.Errorf("read a file: got %v, want %v", err, unix.EIO)
		}
		left := Unmount(t.Context(), target.Dir)
		if dirs, err := Mounted(d.Path); err != nil || len(dirs) > 0 {
			t.Errorf("got mounts %v, %v, %v, want none", dirs, err, left)
		}
	})
}

func TestCheckSeesWhatIsGone(t *testing.T) {
	d, other := devicetest.New(t, devicetest.Small), devicetest.New(t, devicetest.Small)
	g, target := guarded(t, d, "ext4")
	serial := filepath.Join(d.Root, "sys/block/nvme1n1/device/serial")
	node := filepath.Join(d.Root, "dev/nvme1n1")

	put(t, serial, "vol00000000000000bad\n")
	evidence(t, g, target, "device of "+d.Volume+" is gone")
	put(t, serial, "vol0123456789abcdef0\n")

	link(t, other.Path, node)
	evidence(t, g, target, other.Path+" now")
	must(t, os.Remove(node))
	if err := g.Check(target); err != nil {
		t.Errorf("no node, but the device: got %v, want no evidence", err)
	}
	link(t, d.Path, node)

	unmounted(t, target.Dir)
	evidence(t, g, target, "not mounted at")
	format(t, other, "ext4")
	mounted(t, other, target.Dir, false)
	evidence(t, g, target, "what is mounted at")
	unmounted(t, target.Dir)
	mounted(t, d, target.Dir, false)
	must(t, g.Check(target))
	d.Vanish(t)
	evidence(t, g, target, "device of "+d.Volume+" is gone")
	must(t, os.RemoveAll(filepath.Join(d.Root, "sys")))
	if err := g.Check(target); err != nil {
		t.Errorf("without sysfs: got %v, want no evidence: unknown is not gone", err)
	}
}

func TestCheckSeesADeadDevice(t *testing.T) {
	each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
		g, target := guarded(t, d, fstype)
		if err := os.Truncate(d.Image, 0); err != nil { // every read fails with EIO
			t.Fatal(err)
		}
		evidence(t, g, target, "read the device")
		if err := g.Fence(target.Dir); err != nil {
			t.Error(err)
		}
	})
}

func link(t *testing.T, to, path string) {
	t.Helper()
	_ = os.Remove(path)
	must(t, os.Symlink(to, path))
}

func TestCheckSeesAReadonlyFilesystem(t *testing.T) {
	each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
		g, target := guarded(t, d, fstype)
		must(t, unix.Mount("", target.Dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		evidence(t, g, target, "read-only")
		target.Readonly = true
		if err := g.Check(target); err != nil {
			t.Errorf("it is meant to be: got %v, want no evidence", err)
		}
	})
}

func TestCheckSeesErrorsOfThisMountOnly(t *testing.T) {
	d := devicetest.New(t, devicetest.Small)
	g, target := guarded(t, d, "ext4")
	m, err := at(target.Dir)
	must(t, err)
	trigger := filepath.Join("/sys/fs/ext4", kernelName(of(m)), "trigger_fs_error")
	// With errors=remount-ro the error also shows in the options; with errors=continue it only shows in the count.
	devicetest.Run(t, "mount", "-o", "remount,errors=continue", target.Dir)
	put(t, trigger, "a test")
	// The kernel counts the errors a little later.
	for end := time.Now().Add(2 * time.Second); g.Check(target) == nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	evidence(t, g, target, "1 errors")
	g.Mounted(d.Path)
	if err := g.Check(target); err != nil {
		t.Errorf("an old error: got %v, want no evidence", err)
	}
	devicetest.Run(t, "mount", "-o", "remount,errors=remount-ro", target.Dir)
	put(t, trigger, "a test")
	evidence(t, g, target, "kernel log")
	// Mounting it again repairs it.
	mounted(t, d, target.Dir, false)
	g.Mounted(d.Path)
	if err := g.Check(target); err != nil {
		t.Errorf("after the repair: %v", err)
	}
}

func TestAFrozenFilesystemIsNotLost(t *testing.T) {
	each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
		g, target := guarded(t, d, fstype)
		devicetest.Run(t, "fsfreeze", "-f", target.Dir)
		for range 3 {
			if err := g.Check(target); err != nil && !errors.Is(err, ErrStalled) {
				t.Errorf("got %v, want no evidence", err)
			}
		}
		devicetest.Run(t, "fsfreeze", "-u", target.Dir)
		if err := g.Check(target); err != nil {
			t.Errorf("thawed: %v", err)
		}
	})
}

func TestFenceOfAFrozenFilesystem(t *testing.T) {
	each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
		g, target := guarded(t, d, fstype)
		f, err := os.Create(filepath.Join(target.Dir, "open"))
		must(t, err)
		defer f.Close()
		devicetest.Run(t, "fsfreeze", "-f", target.Dir)
		thaw := func() { _, _ = unix.IoctlRetInt(int(f.Fd()), fithaw) }
		t.Cleanup(thaw)
		begun := time.Now()
		err = g.Fence(target.Dir)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %s (%v), want a second at most", took, err)
		}
		t.Logf("fence of a frozen filesystem: %v", err)
		thaw()
		if _, err := f.WriteString("late"); err == nil {
			err = f.Sync()
			if err == nil {
				t.Error("a write after the fence has succeeded")
			}
		}
	})
}

const fithaw = 0xC0045878

// TestAStallIsNoEvidence needs no device: its read hangs as long as the test wants.
func TestAStallIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuard(EBS(""))
		var looks atomic.Int32
		answer := make(chan error)
		hang := func() error { looks.Add(1); return <-answer }
		begun := time.Now()
		if err := g.ask(hang); !errors.Is(err, ErrStalled) {
			t.Errorf("got %v, want %v", err, ErrStalled)
		}
		if took := time.Since(begun); took != readWait {
			t.Errorf("it took %s, want %s", took, readWait)
		}
		begun = time.Now()
		for range 5 {
			if err := g.ask(hang); !errors.Is(err, ErrStalled) {
				t.Errorf("got %v, want %v", err, ErrStalled)
			}
		}
		if took := time.Since(begun); took != 0 || looks.Load() != 1 {
			t.Errorf("later looks took %s, and %d were under way; want no time, and one", took, looks.Load())
		}
		answer <- unix.EIO
		synctest.Wait()
		if err := g.ask(hang); !errors.Is(err, unix.EIO) {
			t.Errorf("got %v, want what the device said in the end: %v", err, unix.EIO)
		}
		if err := g.ask(func() error { return nil }); err != nil {
			t.Errorf("got %v, want no evidence", err)
		}
	})
}
