package devicetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Mount gives the disk an ext4 file system and mounts it at a new directory.
func (d *Disk) Mount(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "mnt")
	Run(t, "mkfs.ext4", "-q", d.Path)
	Run(t, "mkdir", path)
	Run(t, "mount", d.Path, path)
	return path
}

// Freeze makes every write to the file system mounted at path hang, as on a stalled disk, until thaw is called or the
// test ends. It thaws even if the test is killed, because processes that hang there cannot be killed.
func Freeze(t testing.TB, path string) (thaw func()) {
	t.Helper()
	Run(t, "fsfreeze", "-f", path)
	return thawed(t, path, `fsfreeze -u "$0"`)
}

// Stalls returns a function that makes every write to the file system mounted at path hang for a time. It thaws from
// within this process, so that the duration does not depend on when another process is scheduled.
func Stalls(t testing.TB, path string) (stall func(time.Duration)) {
	t.Helper()
	dir, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { dir.Close() })
	thawed(t, path, `fsfreeze -u "$0" 2>/dev/null; true`) // if this process is killed meanwhile
	return func(d time.Duration) {
		const freeze, thaw = 0xc0045877, 0xc0045878 // linux/fs.h
		if err := unix.IoctlSetInt(int(dir.Fd()), freeze, 0); err != nil {
			t.Errorf("freeze %s: %v", path, err)
			return
		}
		time.Sleep(d)
		if err := unix.IoctlSetInt(int(dir.Fd()), thaw, 0); err != nil {
			t.Errorf("thaw %s: %v", path, err)
		}
	}
}

// thawed runs the shell command how, which thaws path, when thaw is called, the test ends or this process is killed.
func thawed(t testing.TB, path, how string) (thaw func()) {
	t.Helper()
	// The guard's input ends with this process.
	guard := exec.Command("sh", "-c", `trap "" INT TERM; read -r _; `+how, path)
	input, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		Run(t, "fsfreeze", "-u", path)
		t.Fatal(err)
	}
	thaw = sync.OnceFunc(func() {
		input.Close()
		if err := guard.Wait(); err != nil {
			t.Errorf("thaw %s: %v", path, err)
		}
	})
	t.Cleanup(thaw)
	return thaw
}
