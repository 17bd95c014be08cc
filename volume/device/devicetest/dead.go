package devicetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Dead mounts a file system at a new directory. Like that of a dead server, it answers nothing, until the test ends. A
// process may be unable to end before that, even if it is killed. Without root it skips the test.
func Dead(t testing.TB) (path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	path = filepath.Join(t.TempDir(), "dead")
	must(t, os.Mkdir(path, 0o700))
	// A FUSE server that never reads a request. When its file is closed, all calls end with an error.
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		err = unix.Mount("dead", path, "fuse", unix.MS_NODEV|unix.MS_NOSUID,
			fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd()))
	}
	if err != nil {
		t.Skipf("mount a FUSE file system: %v", err)
	}
	t.Cleanup(func() {
		server.Close()
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", path, err)
		}
	})
	return path
}
