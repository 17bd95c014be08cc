package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// write makes files below a directory.
func write(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDirectories(t *testing.T) {
	const wal = "data/x1/member/wal/0.wal"
	for name, c := range map[string]struct {
		files []string
		link  [2]string // a link and its target
		want  string    // with a + after each whole one
	}{
		"nothing":                     {},
		"etcd-manager's":              {files: []string{wal, "pki/x1/me.crt"}, want: "data/x1+"},
		"two tokens":                  {files: []string{wal, "data/x2/member/snap/db"}, want: "data/x1+ data/x2"},
		"plain etcd":                  {files: []string{"member/wal/0.wal"}, want: ".+"},
		"both":                        {files: []string{"member/wal/0.wal", wal}, want: ".+ data/x1+"},
		"without a log":               {files: []string{"data/x1/member/snap/db", "data/x1/member/wal/x.tmp"}, want: "data/x1"},
		"somebody's":                  {files: []string{"data/photos/cat.jpg"}},
		"files where directories are": {files: []string{"data/x1", "member"}, want: "."},
		"a file of data":              {files: []string{"data"}},
		"behind a link":               {files: []string{"elsewhere/member/wal/0.wal"}, link: [2]string{"data/x1", "../elsewhere"}, want: "data/x1"},
		"member is a link":            {files: []string{"elsewhere/wal/0.wal"}, link: [2]string{"member", "elsewhere"}, want: "."},
		"a link to nowhere":           {link: [2]string{"member", "etcd/member"}, want: "."},
		"a token to nowhere":          {link: [2]string{"data/x1", "../etcd"}},
	} {
		dir := t.TempDir()
		write(t, dir, c.files...)
		if c.link[0] != "" {
			path := filepath.Join(dir, c.link[0])
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(c.link[1], path)); err != nil {
				t.Fatal(err)
			}
		}
		found, err := Directories(dir)
		var got []string
		for _, d := range found {
			got = append(got, d.Path+map[bool]string{true: "+"}[d.Whole])
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// Each lock of an etcd shows by itself, wherever the data is, and nothing else does. Checking does not disturb anyone.
func TestRunning(t *testing.T) {
	database := func(dir string) func() error {
		db, err := bolt.Open(filepath.Join(dir, "member/snap/db"), 0o600, &bolt.Options{Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return db.Close
	}
	log := func(dir string) func() error {
		f, err := fileutil.TryLockFile(filepath.Join(dir, "member/wal/0.wal"), os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f.Close
	}
	reader := func(dir string) func() error {
		db, err := bolt.Open(filepath.Join(dir, "member/snap/db"), 0, &bolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return db.Close
	}
	for _, c := range []struct {
		where string
		lock  func(dir string) func() error
		want  string
	}{
		{".", database, "member/snap/db"}, {".", log, "member/wal/0.wal"}, {".", reader, ""},
		{"etcd", database, "etcd/member/snap/db"}, {"etcd", log, "etcd/member/wal/0.wal"},
		{"data/tok", database, "data/tok/member/snap/db"}, {"data/other", log, "data/other/member/wal/0.wal"},
		{"data/tok", reader, ""}, {"aside/old", log, ""},
	} {
		volume := t.TempDir()
		dir := filepath.Join(volume, c.where)
		write(t, dir, "member/wal/0.wal")
		if err := os.Mkdir(filepath.Join(dir, "member/snap"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := database(dir)(); err != nil {
			t.Fatal(err)
		}
		unlock, want := c.lock(dir), c.want
		if want != "" {
			want = filepath.Join(volume, want)
		}
		if file, err := Running(volume); err != nil || file != want {
			t.Errorf("%s: got %q, %v, want %q", c.where, file, err, want)
		}
		if err := unlock(); err != nil {
			t.Error(err)
		}
		if file, err := Running(volume); err != nil || file != "" {
			t.Errorf("%s: after it: got %q, %v", c.where, file, err)
		}
	}
	blank := t.TempDir()
	write(t, blank, "data")
	if file, err := Running(blank); file != "" || err != nil {
		t.Errorf("no data: got %q, %v", file, err)
	}
	if err := os.MkdirAll(filepath.Join(blank, fmt.Sprintf("%s/%s/wal/0.wal", Own, Member)), 0o700); err != nil {
		t.Fatal(err)
	}
	if file, err := Running(blank); file != "" || err != nil {
		t.Errorf("a directory of that name: got %q, %v", file, err)
	}
}
