package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, want := range []string{"first", "the second", ""} {
		must(t, WriteFile(path, []byte(want)))
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if got := mode(t, path); got != 0o600 {
			t.Errorf("mode %#o, want 0600", got)
		}
	}
	alone(t, path)
}

// A crash at any step leaves the whole old file or the whole new one.
func TestSteps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	want := map[string]string{"created f.tmp": "old", "wrote f.tmp": "old", "renamed f": "new"}
	var steps []string
	must(t, File{Temp: path + ".tmp", Step: func(done string) {
		steps = append(steps, done)
		if got, err := os.ReadFile(path); err != nil || string(got) != want[done] {
			t.Errorf("%s: got %q, %v, want %q", done, got, err, want[done])
		}
	}}.Write(path, []byte("new")))
	if !slices.Equal(steps, []string{"created f.tmp", "wrote f.tmp", "renamed f"}) {
		t.Errorf("steps: %q", steps)
	}
}

// Something that was put at the fixed name cannot redirect the write to another file.
func TestTempIsNew(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "f"), filepath.Join(dir, "other")
	w := File{Temp: path + ".tmp"}
	must(t, os.WriteFile(other, []byte("another's"), 0o644))
	for name, put := range map[string]func() error{
		"nothing":   func() error { return nil },
		"a rest":    func() error { return os.WriteFile(w.Temp, []byte("a long rest of a crash"), 0o644) },
		"a symlink": func() error { return os.Symlink(other, w.Temp) },
		"a link":    func() error { return os.Link(other, w.Temp) },
		"a pipe":    func() error { return syscall.Mkfifo(w.Temp, 0o600) },
	} {
		must(t, put())
		must(t, w.Write(path, []byte(name)))
		if got, err := os.ReadFile(path); err != nil || string(got) != name || mode(t, path) != 0o600 {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if got, err := os.ReadFile(other); err != nil || string(got) != "another's" {
		t.Errorf("the other file: got %q, %v", got, err)
	}
	must(t, os.Mkdir(w.Temp, 0o700))
	if err := w.Write(path, nil); !errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.EPERM) {
		t.Errorf("a directory: got %v", err)
	}
}

func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	w := File{Keep: 0o644}
	must(t, w.Write(path, []byte("new")))
	if got := mode(t, path); got != 0o644 {
		t.Errorf("a new file: mode %#o, want 0644", got)
	}
	must(t, os.Chmod(path, 0o640))
	if os.Geteuid() == 0 {
		must(t, os.Chown(path, 65534, 65533))
	}
	before := stat(t, path)
	must(t, w.Write(path, []byte("newer")))
	if after := stat(t, path); after.Mode != before.Mode || after.Uid != before.Uid || after.Gid != before.Gid || after.Ino == before.Ino {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// A failure leaves what was there, and nothing else.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "not", "there"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got %v", err)
	}
	path := filepath.Join(dir, "d")
	must(t, os.Mkdir(path, 0o700))
	if err := WriteFile(path, []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	alone(t, path)
	if err := SyncDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sync: got %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func alone(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("beside it: %v, %v", entries, err)
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Mode().Perm()
}

func stat(t *testing.T, path string) syscall.Stat_t {
	t.Helper()
	var s syscall.Stat_t
	must(t, syscall.Stat(path, &s))
	return s
}
