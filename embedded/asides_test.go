package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAsides(t *testing.T) {
	volume := t.TempDir()
	if all, err := (Disk{}).Aside(volume); len(all) != 0 || err != nil {
		t.Errorf("where nothing was set aside: got %v, %v", all, err)
	}
	for _, name := range []string{"3000-removed", "1000-restored", "2000-restored-2", "1-by-operator", "restored", "x-restored"} {
		dir := filepath.Join(volume, "aside", name, "member")
		check(t, os.MkdirAll(dir, 0o700))
		check(t, os.WriteFile(filepath.Join(dir, "db"), []byte(strings.Repeat("x", 10_000)), 0o600))
	}
	all, err := (Disk{}).Aside(volume)
	check(t, err)
	var got []string
	for _, a := range all {
		got = append(got, fmt.Sprint(a.Since.Unix(), " ", a.Reason))
		if a.Bytes < 10_000 {
			t.Errorf("%s takes %d bytes", a.Path, a.Bytes)
		}
	}
	if want := []string{"1 by-operator", "1000 restored", "2000 restored", "3000 removed"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRoom(t *testing.T) {
	if err := (Disk{}).Room(t.TempDir(), 1<<60); err == nil || !strings.Contains(err.Error(), "MiB free") {
		t.Errorf("for an exbibyte: got %v", err)
	}
	dir := t.TempDir()
	aside := filepath.Join(dir, asideDir)
	if err := (Disk{}).Room(dir, 1<<60); err == nil || strings.Contains(err.Error(), aside) {
		t.Errorf("nothing is set aside: got %v, and that names it", err)
	}
	if err := os.MkdirAll(filepath.Join(aside, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (Disk{}).Room(dir, 1<<60); err == nil || !strings.Contains(err.Error(), "delete from "+aside) {
		t.Errorf("something is set aside: got %v", err)
	}
	if err := (Disk{}).Room("/nowhere", 0); err == nil {
		t.Error("on no volume: got nil")
	}
}
