package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Before etcd has made its database, only the lock on the directory keeps a second process out.
func TestLockWithoutDatabase(t *testing.T) {
	n := newNode(t, "a")
	lock, err := lockDir(n.spec.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.begin(t); !errors.Is(err, errLocked) {
		t.Errorf("start: got %v, want errLocked", err)
	}
	if _, err := (Disk{}).SetAside(n.spec.DataDir, "test"); !errors.Is(err, errLocked) {
		t.Errorf("set aside: got %v, want errLocked", err)
	}
	lock.Close()
	if _, err := (Disk{}).SetAside(n.spec.DataDir, "test"); err != nil {
		t.Error(err)
	}
}

func TestLockNeedsADirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "etcd")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(file); err == nil {
		t.Error("locked a file")
	}
}

// A directory that was copied by hand, open to all, is made private before etcd writes into it.
func TestLockClosesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}
