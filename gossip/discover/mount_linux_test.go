package discover

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// In a container /etc/hosts is a mount point: it cannot be replaced, and is written in place.
func TestMountPoint(t *testing.T) {
	dir := t.TempDir()
	path, behind := filepath.Join(dir, "hosts"), filepath.Join(t.TempDir(), "hosts")
	for _, p := range []string{path, behind} {
		must(t, os.WriteFile(p, []byte("x\n"+block+block), 0o644))
	}
	if err := syscall.Mount(behind, path, "", syscall.MS_BIND, ""); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("only root mounts")
		}
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	}()
	if !brought(t, path, two) || brought(t, path, two) {
		t.Error("it was not written once")
	}
	if got, want := read(t, behind), "x\n"+block; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("left behind: %v", all)
	}
}
