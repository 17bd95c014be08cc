package volume

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// managersFiles are the files of an etcd-manager volume that are checked here.
var managersFiles = map[string]string{
	"state":                             "\b\x01",
	"data/x1/member/wal/0-0.wal":        "w",
	"data/x1/member/snap/db":            "db",
	"data-trashcan/x0/member/wal/0.wal": "old",
	"pki/x1/me.crt":                     "c",
}

func writeFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		writeFile(t, filepath.Join(dir, name), content)
	}
}

func filesIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, _ := filepath.Rel(dir, path)
			files[name] = readFile(t, path)
		}
		return err
	})
	must(t, err)
	return files
}

func TestForeignEtcd(t *testing.T) {
	const wal = "data/x1/member/wal/0.wal"
	for name, c := range map[string]struct {
		files []string
		link  [2]string // a link and its target
		want  []string
	}{
		"nothing":                     {},
		"etcd-manager's":              {files: []string{"state", wal, "pki/x1/me.crt"}, want: []string{"data/x1"}},
		"two tokens":                  {files: []string{"state", wal, "data/x2/member/wal/0.wal"}, want: []string{"data/x1", "data/x2"}},
		"plain etcd":                  {files: []string{"member/wal/0.wal", "member/snap/db"}, want: []string{"."}},
		"both":                        {files: []string{"member/wal/0.wal", "state", wal}, want: []string{".", "data/x1"}},
		"without state":               {files: []string{wal}},
		"state is a directory":        {files: []string{"state/x", wal}},
		"without a log":               {files: []string{"state", "data/x1/member/snap/db", "data/x1/member/wal/x.tmp"}},
		"somebody's":                  {files: []string{"state", "data/photos/cat.jpg"}},
		"files where directories are": {files: []string{"state", "data/x1", "member"}},
		"holdfast's":                  {files: []string{"etcd/member/wal/0.wal", "founding.json"}},
		"taken up before":             {files: []string{"etcd/member/wal/0.wal", "state", wal}},
		"being taken up":              {files: []string{"origin.json", "state", wal}},
		"with a ledger":               {files: []string{"founding.json", "member/wal/0.wal"}},
		"behind a link":               {files: []string{"state", "elsewhere/member/wal/0.wal"}, link: [2]string{"data/x1", "../elsewhere"}},
		"member is a link":            {files: []string{"elsewhere/wal/0.wal"}, link: [2]string{"member", "elsewhere"}},
	} {
		dir := t.TempDir()
		for _, f := range c.files {
			writeFile(t, filepath.Join(dir, f), "x")
		}
		if c.link[0] != "" {
			path := filepath.Join(dir, c.link[0])
			must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(c.link[1], path)))
		}
		if got, err := foreignEtcd(dir); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
		if got, err := Inspect(dir); err != nil || !slices.Equal(got.Foreign, c.want) {
			t.Errorf("%s: Inspect: got %q, %v, want %q", name, got.Foreign, err, c.want)
		}
	}
}

func TestAdoptedVolume(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a")
	writeFiles(t, dir, managersFiles)
	adopt := wantABC
	adopt.Adopt = true

	c := mustClaim(t, newLocal(t, root, "n1"))
	if got := c.Mismatch(); !strings.Contains(got, "holds data but no") || !strings.Contains(got, "cluster.adopt") {
		t.Fatalf("without adopt: got mismatch %q, want one that names cluster.adopt", got)
	}
	mustRelease(t, c, true)

	var disk string
	for i, drop := range []bool{false, true, true} {
		l := newLocal(t, root, "n1")
		claimed, err := l.Claim(t.Context(), adopt)
		if err != nil || claimed.Mismatch() != "" {
			t.Fatalf("claim %d: got mismatch %v, error %v, want none", i, claimed, err)
		}
		id := claimed.Volume()
		if id.Disk == "" || disk != "" && id.Disk != disk {
			t.Errorf("claim %d: got disk %q after %q", i, id.Disk, disk)
		}
		disk = id.Disk
		files := filesIn(t, dir)
		if got, err := parseIdentity([]byte(files[IdentityName])); err != nil || got != id {
			t.Errorf("claim %d: got identity %+v, %v, want %+v", i, got, err, id)
		}
		delete(files, IdentityName)
		if !maps.Equal(files, managersFiles) {
			t.Errorf("claim %d: got %q, want etcd-manager's files as they were", i, files)
		}
		if err := claimed.(Yielder).Yield(t.Context()); err == nil {
			t.Fatalf("claim %d: yielded a volume with data", i)
		}
		mustRelease(t, claimed, drop)
	}
	c = mustClaim(t, newLocal(t, root, "n2"))
	if got := c.Volume().Disk; got != disk || c.Mismatch() != "" {
		t.Errorf("adopted, and claimed without adopt: got disk %s (%s), want %s", got, c.Mismatch(), disk)
	}
	must(t, c.SetAside(t.Context()))
	mustRelease(t, c, false)
	claimed, err := newLocal(t, root, "n2").Claim(t.Context(), adopt)
	if err != nil || claimed.Mismatch() != "" || claimed.Volume().Disk != c.Volume().Disk {
		t.Errorf("set aside: got %v, %v, want the blank disk", claimed, err)
	}
	if got := readFile(t, filepath.Join(dir, "aside", "1-by-operator", "state")); got != managersFiles["state"] {
		t.Errorf("set aside: got %q", got)
	}
}

// TestNotAdopted has the cases that stay a mismatch although another program's etcd data may be adopted.
func TestNotAdopted(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, root, marker string)
		want    string
	}{
		"somebody's files": {func(t *testing.T, root, _ string) {
			writeFile(t, filepath.Join(root, "a", "photos", "cat.jpg"), "meow")
		}, "holds data but no"},
		"holdfast's, whose identity is gone": {func(t *testing.T, root, _ string) {
			writeFiles(t, filepath.Join(root, "a"), managersFiles)
			writeFile(t, filepath.Join(root, "a", "etcd", "member", "wal", "0.wal"), "w")
		}, "holds data but no"},
		"a damaged identity": {func(t *testing.T, root, _ string) {
			writeFiles(t, filepath.Join(root, "a"), managersFiles)
			writeFile(t, filepath.Join(root, "a", IdentityName), "{")
		}, "damaged"},
		"in the place of the disk that the claim names": {func(t *testing.T, root, _ string) {
			c := mustClaim(t, newLocal(t, root, "n1"))
			mustRelease(t, c, true)
			remove(t, c.Path())
			writeFiles(t, c.Path(), managersFiles)
		}, "is another one mounted?"},
		"in the place of the disk that this node held last": {func(t *testing.T, root, path string) {
			m := marker{Root: root, Slot: "a", Disk: "d", Record: "r"}
			writeFile(t, path, m.String())
			writeFiles(t, filepath.Join(root, "a"), managersFiles)
		}, "which this node held last"},
	} {
		t.Run(name, func(t *testing.T) {
			root, marker := t.TempDir(), filepath.Join(t.TempDir(), MarkerName)
			c.prepare(t, root, marker)
			before := filesIn(t, filepath.Join(root, "a"))
			l := newLocal(t, root, "n1")
			l.markers = []string{marker}
			got, err := l.Claim(t.Context(), Want{Cluster: "c", Slots: []string{"a"}, Adopt: true})
			if err != nil || !strings.Contains(got.Mismatch(), c.want) {
				t.Fatalf("got %v, %v, want a mismatch with %q", got, err, c.want)
			}
			if after := filesIn(t, filepath.Join(root, "a")); !maps.Equal(after, before) {
				t.Errorf("content: got %q, want %q", after, before)
			}
		})
	}
}

// lockers lock a file as etcd does.
var lockers = map[string]func(t *testing.T, path string) (unlock func()){
	"flock": func(t *testing.T, path string) func() {
		l, err := lockPath(path, os.O_RDWR)
		must(t, err)
		return l.release
	},
	"OFD": func(t *testing.T, path string) func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
		}
		must(t, err)
		return func() { f.Close() }
	},
}

// TestRunningEtcdKeepsItsVolume: while etcd-manager's etcd runs, a claim waits for its end and changes nothing.
func TestRunningEtcdKeepsItsVolume(t *testing.T) {
	for _, c := range []struct {
		how, file string
		adopted   bool // the volume already has an identity
	}{
		{how: "flock", file: "data/x1/member/snap/db"},
		{how: "OFD", file: "data/x1/member/wal/0-0.wal"},
		{how: "flock", file: "member/snap/db"},
		{how: "OFD", file: "member/wal/0.wal"},
		{how: "flock", file: "data/x1/member/snap/db", adopted: true},
		{how: "OFD", file: "etcd/member/wal/0.wal", adopted: true},
	} {
		t.Run(c.how+" "+c.file, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "a")
			want := Want{Cluster: "c", Slots: []string{"a"}, Adopt: true}
			if c.adopted {
				mustRelease(t, mustClaim(t, newLocal(t, root, "n1")), false)
			}
			if strings.HasPrefix(c.file, "data") {
				writeFiles(t, dir, managersFiles)
			}
			writeFile(t, filepath.Join(dir, filepath.Dir(filepath.Dir(c.file)), "wal", "0.wal"), "w")
			writeFile(t, filepath.Join(dir, c.file), "x")
			before := filesIn(t, root)
			unlock := lockers[c.how](t, filepath.Join(dir, c.file))
			_, err := newLocal(t, root, "n1").Claim(t.Context(), want)
			if !errors.Is(err, ErrNoneFree) || !strings.Contains(err.Error(), "etcd still runs on "+filepath.Join(dir, c.file)) {
				t.Fatalf("while it runs: got %v, want none free, and the file", err)
			}
			after := filesIn(t, root)
			delete(before, "a.lock")
			delete(after, "a.lock")
			if !maps.Equal(after, before) {
				t.Errorf("while it runs: got %q, want %q", after, before)
			}
			unlock()
			if _, err := newLocal(t, root, "n1").Claim(t.Context(), want); err != nil {
				t.Errorf("after its end: got %v, want the volume", err)
			}
		})
	}
}
