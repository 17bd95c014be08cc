package snapshot_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

func TestDir(t *testing.T) {
	snapshottest.Run(t, func(t *testing.T) snapshot.Store { return snapshot.NewDir(t.TempDir()) })
}

// TestDirGone removes the root in every way: the result is an error, never "empty".
func TestDirGone(t *testing.T) {
	for name, take := range map[string]func(t *testing.T, root string){
		"removed":            func(t *testing.T, root string) { must(t, os.RemoveAll(root)) },
		"unmounted":          func(t *testing.T, root string) { must(t, os.RemoveAll(root)); must(t, os.Mkdir(root, 0o700)) },
		"replaced by a file": func(t *testing.T, root string) { must(t, os.RemoveAll(root)); must(t, os.WriteFile(root, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "store")
			must(t, os.Mkdir(root, 0o700))
			s := snapshot.NewDir(root)
			must(t, s.Put(t.Context(), "a", strings.NewReader("x")))
			take(t, root)
			if got, err := s.List(t.Context(), ""); err == nil {
				t.Errorf("List: want an error, got %v", got)
			}
			if _, err := s.Get(t.Context(), "a"); err == nil || errors.Is(err, snapshot.ErrNotFound) {
				t.Errorf("Get: want an error that is not ErrNotFound, got %v", err)
			}
			if err := s.PutIfAbsent(t.Context(), "a", nil); err == nil {
				t.Error("PutIfAbsent: want an error")
			}
			if err := s.Put(t.Context(), "a", strings.NewReader("x")); err == nil {
				t.Error("Put: want an error")
			}
			if err := s.Delete(t.Context(), "a"); err == nil {
				t.Error("Delete: want an error")
			}
		})
	}
}

func TestDirMissing(t *testing.T) {
	s := snapshot.NewDir(filepath.Join(t.TempDir(), "store"))
	if _, err := s.List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "create the directory or mount it") {
		t.Errorf("List of a missing root: want advice, got %v", err)
	}
}

// TestDirReading reads an empty directory while its owner waits for a mount there: that does not make it a store.
func TestDirReading(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	must(t, os.Mkdir(root, 0o700))
	owner, other := snapshot.NewDir(root), snapshot.NewDir(root)
	must(t, owner.Put(t.Context(), "a", strings.NewReader("x")))
	must(t, os.RemoveAll(root))
	must(t, os.Mkdir(root, 0o500))
	if got, err := other.List(t.Context(), ""); err != nil || len(got) != 0 {
		t.Errorf("List: want nothing, got %v, %v", got, err)
	}
	if _, err := other.Get(t.Context(), "a"); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("Get: want ErrNotFound, got %v", err)
	}
	if left := files(t, root); len(left) != 0 {
		t.Errorf("directory after reading: want it empty, got %v", left)
	}
	if err := owner.Put(t.Context(), "a", strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "is it still mounted?") {
		t.Errorf("Put into what is no store any more: want an error, got %v", err)
	}
}

// TestDirLeftovers finds files of crashed writers: old ones are removed, those that may still have a writer stay.
func TestDirLeftovers(t *testing.T) {
	root := t.TempDir()
	hidden := filepath.Join(root, ".holdfast")
	must(t, os.Mkdir(hidden, 0o700))
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "young": time.Hour} {
		must(t, os.WriteFile(filepath.Join(hidden, name), nil, 0o600))
		must(t, os.Chtimes(filepath.Join(hidden, name), time.Time{}, time.Now().Add(-age)))
	}
	s := snapshot.NewDir(root)
	got, err := s.List(t.Context(), "")
	if err != nil || len(got) != 0 {
		t.Errorf("List: want nothing, got %v, %v", got, err)
	}
	must(t, s.Put(t.Context(), "a", strings.NewReader("x")))
	if left := files(t, hidden); len(left) != 1 || left[0] != "young" {
		t.Errorf("unfinished files: want [young], got %v", left)
	}
}

// TestDirForeign checks that files of others in the directory are not listed, and cause no errors.
func TestDirForeign(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "lost+found"), 0))
	must(t, os.WriteFile(filepath.Join(root, "a file"), nil, 0o600))
	must(t, os.Symlink("/", filepath.Join(root, "link")))
	s := snapshot.NewDir(root)
	must(t, s.Put(t.Context(), "a/b", strings.NewReader("x")))
	got, err := s.List(t.Context(), "")
	if err != nil || len(got) != 1 || got[0].Name != "a/b" {
		t.Errorf("List: want a/b, got %v, %v", got, err)
	}
	if err := s.Put(t.Context(), "link/tmp/x", strings.NewReader("x")); err == nil {
		t.Error("Put through a link that leaves the root: want an error")
	}
}

func TestDirLeavesNothingBehind(t *testing.T) {
	root := t.TempDir()
	s := snapshot.NewDir(root)
	must(t, s.Put(t.Context(), "a/b/c", strings.NewReader("x")))
	must(t, s.PutIfAbsent(t.Context(), "a/b/d", nil))
	if err := s.PutIfAbsent(t.Context(), "a/b/d", nil); !errors.Is(err, snapshot.ErrExists) {
		t.Errorf("want ErrExists, got %v", err)
	}
	must(t, s.Delete(t.Context(), "a/b/c"))
	must(t, s.Delete(t.Context(), "a/b/d"))
	if got := files(t, root); len(got) != 1 || got[0] != ".holdfast" {
		t.Errorf("root: want only .holdfast, got %v", got)
	}
	if got := files(t, filepath.Join(root, ".holdfast")); len(got) != 0 {
		t.Errorf("unfinished files: want none, got %v", got)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files returns the names in a directory.
func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// An operator's command that runs as root leaves nothing in the store that the node, as a user of its own, could not
// read: an order that it cannot read makes the whole store unreadable to it.
func TestDirGivesRootsObjectsToItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const uid, gid = 4321, 4322
	for name, c := range map[string]struct {
		mode  os.FileMode // of the store's directory
		first int         // who writes first
		want  uint32
	}{
		"a node's store":      {0o755, uid, uid},
		"prepared for a node": {0o700, 0, uid},
		"somebody's":          {0o755, 0, 0}, // a node that is root may use it
	} {
		dir := t.TempDir()
		must(t, errors.Join(os.Chown(dir, uid, gid), os.Chmod(dir, c.mode)))
		if c.first != 0 {
			made := filepath.Join(dir, ".holdfast")
			must(t, errors.Join(os.Mkdir(made, 0o700), os.Chown(made, uid, gid)))
		}
		d := snapshot.NewDir(dir)
		must(t, d.Put(t.Context(), "a/b/put", strings.NewReader("x")))
		must(t, d.PutIfAbsent(t.Context(), "a/absent", []byte("x")))
		must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			info, err := e.Info()
			if err == nil && info.Sys().(*syscall.Stat_t).Uid != c.want {
				t.Errorf("%s: %s belongs to %d", name, path, info.Sys().(*syscall.Stat_t).Uid)
			}
			return err
		}))
	}
}
