package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// reclaimed returns the paths that Reclaim has deleted.
func reclaimed(volume string, before time.Time, reasons []string) (paths []string, err error) {
	removed, err := Disk{}.Reclaim(volume, before, reasons)
	for _, a := range removed {
		paths = append(paths, a.Path)
	}
	return paths, err
}

// Reclaim deletes only what SetAside has made, long ago and for a listed reason, and never anything behind a link.
func TestReclaim(t *testing.T) {
	volume, elsewhere := t.TempDir(), t.TempDir()
	if removed, err := reclaimed(volume, time.Now(), []string{"restore"}); len(removed) != 0 || err != nil {
		t.Errorf("nothing was set aside: got %q, %v", removed, err)
	}
	check(t, os.WriteFile(filepath.Join(elsewhere, "precious"), nil, 0o600))
	now := time.Unix(1_800_000_000, 0)
	old, recent := now.Add(-time.Hour).Unix(), now.Unix()
	aside := filepath.Join(volume, asideDir)
	name := func(since int64, rest string) string { return fmt.Sprintf("%d-%s", since, rest) }
	gone := []string{name(old, "restore"), name(old, "restore-2"), name(old, "removed-by-quorum")}
	stay := []string{
		name(recent, "restore"), name(old, "restored"), name(old, "restore-me"), name(old, "another-lineage"), name(old, "Restore"), name(old, "restore-"),
		"restore", "." + name(old, "restore"), "99999999999999999999-restore", "-5-restore", "lost+found",
	}
	for _, n := range append(slices.Clone(gone), stay...) {
		check(t, os.MkdirAll(filepath.Join(aside, n, "member", "wal"), 0o700))
		check(t, os.Symlink(elsewhere, filepath.Join(aside, n, "member", "snap")))
	}
	file, link := name(old-1, "restore"), name(old-2, "restore")
	check(t, os.WriteFile(filepath.Join(aside, file), nil, 0o600))
	check(t, os.Symlink(elsewhere, filepath.Join(aside, link)))
	stay = append(stay, file, link)

	removed, err := reclaimed(volume, now, []string{"restore", "removed-by-quorum"})
	check(t, err)
	var want []string
	for _, n := range gone {
		want = append(want, filepath.Join(aside, n))
	}
	slices.Sort(want)
	slices.Sort(removed)
	if !slices.Equal(removed, want) {
		t.Errorf("removed: got %q, want %q", removed, want)
	}
	for _, n := range stay {
		if _, err := os.Lstat(filepath.Join(aside, n)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "precious")); err != nil {
		t.Error(err)
	}
	if removed, err := reclaimed(volume, now, []string{"restore", "removed-by-quorum"}); len(removed) != 0 || err != nil {
		t.Errorf("again: got %q, %v", removed, err)
	}
}

// Reclaim understands the names that SetAside gives. If a volume's aside is a link to elsewhere, it is not touched.
func TestReclaimSetAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	var want []string
	for range 2 {
		check(t, os.MkdirAll(dir, 0o700))
		path, err := (Disk{}).SetAside(dir, "restore-gen2")
		check(t, err)
		want = append(want, path)
	}
	removed, err := reclaimed(filepath.Dir(dir), time.Now().Add(2*time.Second), []string{"restore-gen2"})
	check(t, err)
	slices.Sort(removed)
	slices.Sort(want)
	if !slices.Equal(removed, want) {
		t.Errorf("got %q, want %q", removed, want)
	}

	elsewhere := t.TempDir()
	inside := filepath.Join(elsewhere, "1-restore")
	check(t, os.Mkdir(inside, 0o700))
	linked := filepath.Join(t.TempDir(), "etcd")
	check(t, os.Symlink(elsewhere, filepath.Join(filepath.Dir(linked), asideDir)))
	if removed, err := reclaimed(filepath.Dir(linked), time.Now(), []string{"restore"}); len(removed) != 0 || err != nil {
		t.Errorf("behind a link: got %q, %v", removed, err)
	}
	if _, err := os.Stat(inside); err != nil {
		t.Error(err)
	}
}
