package volume

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// newDirectory returns a provider whose only volume is the directory itself, with slot a.
func newDirectory(t testing.TB, dir, marker string) *Local {
	t.Helper()
	cfg := Default().Local
	cfg.Directory, cfg.Slot, cfg.Mount = dir, "a", mountIgnore
	return NewLocal(cfg, "n1", []string{marker}, zap.NewNop())
}

func TestDirectoryIsTheVolume(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "mnt")
	writeFiles(t, dir, managersFiles)
	before := filesIn(t, parent)
	l := newDirectory(t, dir, "")
	adopt := wantABC
	adopt.Adopt = true
	c, err := l.Claim(t.Context(), adopt)
	if err != nil || c.Mismatch() != "" || c.Path() != dir || c.Volume().Slot != "a" {
		t.Fatalf("got %v, %v, want %s as slot a", c, err, dir)
	}
	disk := c.Volume().Disk
	if names, err := os.ReadDir(parent); err != nil || len(names) != 1 {
		t.Errorf("beside the volume: got %v, %v, want nothing", names, err)
	}
	after := filesIn(t, parent)
	maps.DeleteFunc(after, func(name, _ string) bool {
		return slices.Contains([]string{"mnt/identity.json", "mnt/.holdfast/volume.lock", "mnt/.holdfast/volume.claim"}, name)
	})
	if !maps.Equal(after, before) {
		t.Errorf("got %q, want %q", after, before)
	}
	if infos, err := l.List(t.Context(), wantABC); err != nil || len(infos) != 1 || infos[0].State != StateHeld || infos[0].Slot != "a" {
		t.Errorf("list: got %+v, %v, want the held one alone", infos, err)
	}
	if _, err := newDirectory(t, dir, "").Claim(t.Context(), adopt); !errors.Is(err, ErrNoneFree) {
		t.Errorf("a second process: got %v, want none free", err)
	}
	root := newLocal(t, parent, "n2")
	root.cfg.Slot, root.cfg.Scope = "mnt", ScopeHost
	if _, err := root.Claim(t.Context(), Want{Cluster: "c", Slots: []string{"mnt"}}); !errors.Is(err, ErrNoneFree) {
		t.Errorf("a process that takes its parent for the root: got %v, want none free", err)
	}
	mustRelease(t, c, true)
	other := newDirectory(t, dir, "")
	other.cfg.Slot = "b"
	if c, err = other.Claim(t.Context(), adopt); err != nil || !strings.Contains(c.Mismatch(), `slot "a", expected "b"`) {
		t.Errorf("as another slot: got %v, %v, want a mismatch", c, err)
	}
	mustRelease(t, c, true)
	if c, err = newDirectory(t, dir, "").Claim(t.Context(), adopt); err != nil || c.Volume().Disk != disk {
		t.Fatalf("claimed again: got %v, %v, want disk %s", c, err, disk)
	}
	must(t, c.SetAside(t.Context()))
	if err := c.(*localClaim).evidence(); err != nil {
		t.Errorf("after it was set aside: got %v, want no loss", err)
	}
	if err := c.(Yielder).Yield(t.Context()); err == nil {
		t.Error("yielded a volume with what was set aside")
	}
}

func TestBlankDirectoryIsYielded(t *testing.T) {
	dir := t.TempDir()
	c, err := newDirectory(t, dir, "").Claim(t.Context(), wantABC)
	if err != nil || c.Mismatch() != "" {
		t.Fatalf("got %v, %v, want a new volume", c, err)
	}
	must(t, c.(Yielder).Yield(t.Context()))
	if names, err := movable(dir); err != nil || len(names) > 0 {
		t.Errorf("left: got %v, %v, want the directory, with nothing that counts", names, err)
	}
	again, err := newDirectory(t, dir, "").Claim(t.Context(), wantABC)
	if err != nil || again.Mismatch() != "" || again.Volume().Disk == c.Volume().Disk {
		t.Errorf("claimed again: got %v, %v, want a new disk", again, err)
	}
}

func TestDirectoryMustBeThere(t *testing.T) {
	parent := t.TempDir()
	writeFile(t, filepath.Join(parent, "file"), "")
	for name, want := range map[string]string{
		"none": "does not exist: mount its disk, or create it",
		"file": "must be a directory",
	} {
		before := filesIn(t, parent)
		_, err := newDirectory(t, filepath.Join(parent, name), "").Claim(t.Context(), wantABC)
		if err == nil || errors.Is(err, ErrNoneFree) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if got := filesIn(t, parent); !maps.Equal(got, before) {
			t.Errorf("%s: got %q, want %q", name, got, before)
		}
		if _, err := newDirectory(t, filepath.Join(parent, "none"), "").List(t.Context(), wantABC); err != nil {
			t.Errorf("list: %v", err)
		}
	}
}

// TestUnmountedDirectoryIsNotBlank: the claim lies on the disk itself, so only the marker remembers it.
func TestUnmountedDirectoryIsNotBlank(t *testing.T) {
	parent := t.TempDir()
	dir, marker := filepath.Join(parent, "mnt"), filepath.Join(t.TempDir(), MarkerName)
	writeFiles(t, dir, managersFiles)
	adopt := wantABC
	adopt.Adopt = true
	c, err := newDirectory(t, dir, marker).Claim(t.Context(), adopt)
	must(t, err)
	c.SetRecord("r1")
	mustRelease(t, c, false)
	must(t, errors.Join(os.Rename(dir, dir+".unmounted"), os.Mkdir(dir, 0o700)))
	c, err = newDirectory(t, dir, marker).Claim(t.Context(), adopt)
	if err != nil || !strings.Contains(c.Mismatch(), "which this node held last, is not in "+dir) {
		t.Fatalf("unmounted: got %v, %v, want a mismatch", c, err)
	}
	mustRelease(t, c, false)
	must(t, errors.Join(os.RemoveAll(dir), os.Rename(dir+".unmounted", dir)))
	l := newDirectory(t, dir, marker)
	if c, err = l.Claim(t.Context(), adopt); err != nil || c.Mismatch() != "" || c.(MissingReporter).Missing() != "" {
		t.Errorf("mounted again: got %v, %v, want the volume", c, err)
	}
	l.markers = []string{filepath.Join(dir, "data", MarkerName)}
	if got := l.Problems(); len(got) != 1 || !strings.Contains(got[0], "lies in volume.local.directory") {
		t.Errorf("with its marker on the volume: got %q", got)
	}
}
