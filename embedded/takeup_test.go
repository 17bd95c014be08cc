package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/datadir"

	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
)

// layouts are volumes of other programs. theirs is the data directory as those know it.
var layouts = map[plan.Program]struct {
	on     func(t *testing.T, dir string) (volume string)
	theirs string
}{
	plan.EtcdManager: {onManagers, "data/tok"},
	plan.PlainEtcd:   {onPlain, "."},
}

// killed ends f at a step.
func killed(t *testing.T, at string, f func(step func(string)) error) {
	t.Helper()
	defer func() {
		if got := recover(); got != at {
			t.Fatalf("ended with %v, not at %q", got, at)
		}
	}()
	err := f(func(done string) {
		if done == at {
			panic(at)
		}
	})
	t.Fatalf("not ended at %q: %v", at, err)
}

// Wherever TakeUp is interrupted, the other program finds its data where it was, and Origin says the same as before.
// What is not taken up does not count as ours, and another TakeUp finishes the work.
func TestTakeUpKilled(t *testing.T) {
	smallLogs(t)
	for program, layout := range layouts {
		for _, at := range []string{"noted", "prepared", "exchanged"} {
			name := fmt.Sprintf("%s, %s", program, at)
			volume := layout.on(t, threeOf36().data(t))
			// The prepared link leads out of the volume, to data of somebody else.
			beside := filepath.Join(filepath.Dir(volume), etcdDir)
			check(t, os.RemoveAll(beside))
			check(t, os.Rename(threeOf36().data(t), beside))
			before, err := ofThree.Origin(volume)
			check(t, err)
			look := func(when string, taken bool) {
				t.Helper()
				theirs, err := ReadMemberships(filepath.Join(volume, layout.theirs))
				if err != nil || theirs.Member != 7 {
					t.Errorf("%s, %s: the other program finds %+v, %v", name, when, theirs, err)
				}
				if o, err := ofThree.Origin(volume); err != nil || !reflect.DeepEqual(o, before) {
					t.Errorf("%s, %s: got  %+v, %v\nwant %+v", name, when, o, err, before)
				}
				if d, err := ofThree.Inspect(filepath.Join(volume, etcdDir)); err != nil || d.WAL != taken {
					t.Errorf("%s, %s: we find %+v, %v", name, when, d, err)
				}
			}
			killed(t, at, func(step func(string)) error { return ofThree.takeUp(volume, *before, step) })
			look("killed", at == "exchanged")
			for range 2 {
				check(t, ofThree.TakeUp(volume, *before))
				look("done", true)
			}
			if info, err := os.Lstat(filepath.Join(volume, etcdDir, memberDir)); err != nil || !info.IsDir() {
				t.Errorf("%s: our directory is %v, %v", name, info, err)
			}
			check(t, os.Remove(filepath.Join(volume, originFile))) // the links also show it
			look("without the note", true)
		}
	}
}

// A volume that was moved, or copied with its links followed, is read like any other. A volume whose data was set aside
// has no origin.
func TestTakenUpElsewhere(t *testing.T) {
	smallLogs(t)
	for program, layout := range layouts {
		volume := layout.on(t, threeOf36().data(t))
		o, err := ofThree.Origin(volume)
		check(t, err)
		check(t, ofThree.TakeUp(volume, *o))
		moved := filepath.Join(t.TempDir(), "elsewhere")
		check(t, os.Rename(volume, moved))
		if got, err := ofThree.Origin(moved); err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("%s: moved: got %+v, %v", program, got, err)
		}
		if _, err := ofThree.SetAside(filepath.Join(moved, etcdDir), "test"); err != nil {
			t.Fatal(err)
		}
		if got, err := ofThree.Origin(moved); got != nil || err != nil {
			t.Errorf("%s: set aside: got %+v, %v", program, got, err)
		}
		if err := ofThree.TakeUp(moved, *o); err == nil {
			t.Errorf("%s: set aside: was taken up", program)
		}
	}
}

func TestTakeUpRefuses(t *testing.T) {
	smallLogs(t)
	for name, tc := range map[string]struct {
		spoil func(volume string, o *plan.Origin) error
		want  string
	}{
		"another member":     {func(_ string, o *plan.Origin) error { o.Member = 9; return nil }, "has the log of member 7 of cluster 8, not of 9 of 8"},
		"another cluster":    {func(_ string, o *plan.Origin) error { o.Cluster = 9; return nil }, "not of 7 of 9"},
		"an obstacle":        {func(_ string, o *plan.Origin) error { o.Obstacle = "in the way"; return nil }, "in the way"},
		"a way out":          {func(_ string, o *plan.Origin) error { o.Path = "data/.."; return nil }, "no data of program"},
		"a deep path":        {func(_ string, o *plan.Origin) error { o.Path = "data/tok/member"; return nil }, "no data of program"},
		"our data":           {func(v string, _ *plan.Origin) error { return os.MkdirAll(filepath.Join(v, etcdDir, "x"), 0o700) }, "holds data"},
		"a link of somebody": {func(v string, _ *plan.Origin) error { return os.Symlink("/nowhere", filepath.Join(v, etcdDir)) }, "holds data"},
		"other data was taken up": {func(v string, o *plan.Origin) error {
			return originMark{Version: 1, Program: o.Program, Path: "data/old", Token: "old"}.write(v)
		}, "names data/old of etcd-manager, not data/tok"},
	} {
		volume := onManagers(t, threeOf36().data(t))
		o, err := ofThree.Origin(volume)
		check(t, err)
		check(t, tc.spoil(volume, o))
		if err := ofThree.TakeUp(volume, *o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if m, err := ReadMemberships(filepath.Join(volume, managerData, "tok")); err != nil || m.Member != 7 {
			t.Errorf("%s: the other program finds %+v, %v", name, m, err)
		}
	}
}

// Each lock that an etcd takes is detected by itself, wherever the data is, and nothing else is. The check disturbs
// nobody.
func TestInUse(t *testing.T) {
	smallLogs(t)
	database := func(dir string) func() error {
		db, err := bolt.Open(DatabasePath(dir), 0o600, nil)
		check(t, err)
		return db.Close
	}
	log := func(dir string) func() error {
		check(t, os.RemoveAll(datadir.ToWALDir(dir)))
		check(t, makeWAL(t, dir).Close()) // an open WAL creates its next file at any time
		files, err := filepath.Glob(filepath.Join(datadir.ToWALDir(dir), "*.wal"))
		check(t, err)
		f, err := fileutil.TryLockFile(files[0], os.O_RDWR, 0o600)
		check(t, err)
		return f.Close
	}
	ours := func(dir string) func() error {
		f, err := lockDir(dir)
		check(t, err)
		return f.Close
	}
	reader := func(dir string) func() error {
		db, err := bolt.Open(DatabasePath(dir), 0, &bolt.Options{ReadOnly: true})
		check(t, err)
		return db.Close
	}
	for _, tc := range []struct {
		where string
		lock  func(dir string) func() error
		want  string
	}{
		{".", database, "member/snap/db"}, {".", log, "member/wal/0000000000000000-0000000000000000.wal"}, {".", reader, ""},
		{"etcd", database, "etcd/member/snap/db"}, {"etcd", log, "etcd/member/wal/0000000000000000-0000000000000000.wal"}, {"etcd", ours, "etcd"},
		{"data/tok", database, "data/tok/member/snap/db"}, {"data/other", log, "data/other/member/wal/0000000000000000-0000000000000000.wal"},
		{"data/tok", reader, ""},
	} {
		volume := t.TempDir()
		dir := filepath.Join(volume, tc.where)
		check(t, os.CopyFS(dir, os.DirFS(threeOf36().data(t))))
		if tc.where != "data/other" {
			check(t, os.MkdirAll(filepath.Join(volume, "data", "other", memberDir), 0o700))
		}
		unlock := tc.lock(dir)
		before, want := fingerprint(t, volume), tc.want
		if want != "" {
			want = filepath.Join(volume, want)
		}
		if by, err := ofThree.InUse(volume); err != nil || by != want {
			t.Errorf("%s: got %q, %v, want %q", tc.where, by, err, want)
		}
		if fingerprint(t, volume) != before {
			t.Errorf("%s: the volume was changed", tc.where)
		}
		check(t, unlock())
		if by, err := ofThree.InUse(volume); err != nil || by != "" {
			t.Errorf("%s: after it: got %q, %v", tc.where, by, err)
		}
	}
	if by, err := ofThree.InUse(t.TempDir()); by != "" || err != nil {
		t.Errorf("a blank volume: got %q, %v", by, err)
	}
}

// An etcd that another program ran runs as ours with everything that was written, and then as that program's again.
// While it runs, nothing is taken up.
func TestTakeUpRuns(t *testing.T) {
	t.Parallel()
	for program, layout := range layouts {
		n := newNode(t, "a")
		n.run(t).awaitReady(t)
		await(t, "a storage version", func() bool { return n.Status().StorageVersion != "" })
		stop(t, n, 0)
		volume := layout.on(t, n.spec.DataDir)
		i := strings.LastIndexByte(n.addr, '.')
		d := Disk{Names{PeerURL: "http://" + n.addr[:i+1] + settings.SlotMark + ":2380"}}
		var wrote []string
		run := func(dir string) {
			t.Helper()
			n.spec.DataDir, n.Member = filepath.Join(volume, dir), nil
			n.run(t).awaitReady(t)
			c := n.client(t)
			for _, key := range wrote {
				if got, err := c.Get(t.Context(), key); err != nil || got.Count != 1 {
					t.Errorf("%s, in %s: %s: got %v, %v", program, dir, key, got, err)
				}
			}
			wrote = append(wrote, fmt.Sprint("in ", dir, len(wrote)))
			put(t, c, wrote[len(wrote)-1], "")
			if by, err := d.InUse(volume); err != nil || by == "" {
				t.Errorf("%s, in %s: in use: got %q, %v", program, dir, by, err)
			}
			if o, err := d.Origin(volume); !errors.Is(err, errLocked) {
				t.Errorf("%s, in %s: got %+v, %v, want errLocked", program, dir, o, err)
			}
		}
		o, err := d.Origin(volume)
		if err != nil || o == nil || o.Obstacle != "" || len(o.Members) != 1 || o.Members[0].Slot != n.addr[i+1:] {
			t.Fatalf("%s: got %+v, %v", program, o, err)
		}
		run(layout.theirs)
		if err := d.TakeUp(volume, *o); !errors.Is(err, errLocked) {
			t.Errorf("%s: taken up while etcd runs: %v", program, err)
		}
		stop(t, n, 0)
		check(t, d.TakeUp(volume, *o))
		run(etcdDir)
		stop(t, n, 0)
		run(layout.theirs)
		stop(t, n, 0)
		again, err := d.Origin(volume)
		if err != nil || !slices.Equal(again.Members, o.Members) || again.Cluster != o.Cluster {
			t.Errorf("%s: got %+v, %v, want %+v", program, again, err, o)
		}
	}
}

// Plain etcd that runs as a user of its own can still reach its data.
func TestTakeUpOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gives a directory to another user, which only root may")
	}
	smallLogs(t)
	volume := onPlain(t, threeOf36().data(t))
	check(t, os.Chown(volume, 65534, 65533))
	o, err := ofThree.Origin(volume)
	check(t, err)
	check(t, ofThree.TakeUp(volume, *o))
	info, err := os.Stat(filepath.Join(volume, etcdDir))
	check(t, err)
	if is := info.Sys().(*syscall.Stat_t); is.Uid != 65534 || is.Gid != 65533 {
		t.Errorf("%s is of %d:%d", etcdDir, is.Uid, is.Gid)
	}
}
