package cmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lock makes everything in a directory impossible to delete until the test ends: for root, too, whom modes do not stop.
func lock(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		must(t, os.Chmod(dir, 0o500))
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		return
	}
	const immutable = 0x10 // FS_IMMUTABLE_FL, linux/fs.h
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	for _, path := range files {
		f, err := os.Open(path)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable)
		if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
			t.Skip("root can delete everything on this file system")
		}
		must(t, err)
		t.Cleanup(func() { _ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0) })
	}
}

// A backup that is to go and cannot be deleted fails the command, and the others go all the same.
func TestPruneRefusedFails(t *testing.T) {
	a := newAtStore(t)
	first, second, _ := a.save("ours"), a.save("ours"), a.save("ours")
	lock(t, filepath.Join(a.dir, first))
	prune := []string{
		"prune", "--snapshot.keep.all", "0s", "--snapshot.keep.hourly", "0s", "--snapshot.keep.daily", "0s", "--snapshot.keep.newest", "1",
	}
	for _, output := range []string{"table", "json"} {
		out, err := a.run(append(prune, "-o", output)...)
		if err == nil || !strings.Contains(err.Error(), "1 could not be deleted, such as "+first) || !strings.Contains(out, first) {
			t.Errorf("%s: got %q, %v, want an error about %s", output, out, err, first)
		}
	}
	if _, err := os.Stat(filepath.Join(a.dir, second)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", second, err)
	}
}
