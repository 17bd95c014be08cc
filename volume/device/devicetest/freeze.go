package devicetest

import (
	"os/exec"
	"path/filepath"
	"testing"
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

// Freeze lets every write to the file system mounted at path hang, as on a disk that has stalled, until thaw, or until
// the test ends, even if it is killed: what hangs there could not be.
func Freeze(t testing.TB, path string) (thaw func()) {
	t.Helper()
	Run(t, "fsfreeze", "-f", path)
	// its input ends with this process
	guard := exec.Command("sh", "-c", `trap "" INT TERM; read -r _; fsfreeze -u "$0"`, path)
	input, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		Run(t, "fsfreeze", "-u", path)
		t.Fatal(err)
	}
	thawed := false
	thaw = func() {
		if !thawed {
			thawed = true
			input.Close()
			if err := guard.Wait(); err != nil {
				t.Errorf("thaw %s: %v", path, err)
			}
		}
	}
	t.Cleanup(thaw)
	return thaw
}
