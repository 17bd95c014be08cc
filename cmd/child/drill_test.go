package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"holdfast/embedded"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
	"holdfast/volume/device/devicetest"
)

// TestMain lets the test be the child of the drills it makes.
func TestMain(m *testing.M) {
	if i := slices.IndexFunc(Works, func(w Work) bool { return len(os.Args) > 1 && w.Name == os.Args[1] }); i >= 0 {
		endAsTold()
		if err := Works[i].Run(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// drillData makes a data directory with a database in it, as Fetch does, and returns what the database holds.
func drillData(t *testing.T) (dir string, content snapshot.Content) {
	t.Helper()
	db := snapshottest.NewDB(t)
	for _, key := range []string{"/registry/pods/a", "/registry/pods/b", "/registry/pods/a"} {
		db.Put(key, "x")
	}
	db.Delete("/registry/pods/b")
	tx := db.Begin()
	defer tx.Close()
	content, err := snapshot.ContentOf(t.Context(), tx)
	must(t, err)
	content.HashKV = content.CRC // which it is where nothing was compacted
	dir = filepath.Join(t.TempDir(), "etcd")
	path := embedded.DatabasePath(dir)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	f, err := os.Create(path)
	must(t, err)
	if _, err := tx.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	must(t, f.Close())
	return dir, content
}

// A drill finds out whatever is not as it was saved, and says what it wanted and what it got.
func TestRehearse(t *testing.T) {
	t.Setenv("HOLDFAST_CLUSTER_NAME", "Not A Name") // is nothing to the child
	for name, c := range map[string]struct {
		change func(*snapshot.Content)
		want   string // "": nothing is wrong
	}{
		"good":         {func(*snapshot.Content) {}, ""},
		"unknown hash": {func(c *snapshot.Content) { c.HashKV, c.CompactRevision = 0, 3 }, ""},
		"another hash": {func(c *snapshot.Content) { c.HashKV++ }, "HashKV: want "},
		"records":      {func(c *snapshot.Content) { c.HashKV, c.Keys = 0, 7 }, "records: want 7, got 4"},
		"compacted":    {func(c *snapshot.Content) { c.CompactRevision = 3 }, "compacted revision: want 3, got 0"},
		"older":        {func(c *snapshot.Content) { c.Revision-- }, "revision: want 4, got 5"},
		"newer":        {func(c *snapshot.Content) { c.Revision++ }, "required revision is a future revision"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, content := drillData(t)
			c.change(&content)
			var d snapshot.Drill
			err := rehearse(t.Context(), dir, content, &d)
			if c.want == "" {
				must(t, err)
				if d.Revision != 5 || d.Compared != (content.HashKV != 0) {
					t.Errorf("got %+v", d)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// A database that makes etcd, or bbolt, panic ends the child and nobody else.
func TestRehearsePanics(t *testing.T) {
	dir, content := drillData(t)
	path := embedded.DatabasePath(dir)
	data, err := os.ReadFile(path)
	must(t, err)
	page := os.Getpagesize()
	for i := 2 * page; i < len(data); i++ {
		data[i] = 0xff
	}
	must(t, os.WriteFile(path, data, 0o600))
	var d snapshot.Drill
	err = rehearse(t.Context(), dir, content, &d)
	seen := func(what string) bool { return err != nil && strings.Contains(err.Error(), what) }
	if !seen("exit status 2: panic: ") && !seen("the data is damaged") || seen("goroutine") { // of etcd 3.7, and 3.6
		t.Errorf("got %v, want the child's panic on one line", err)
	}
}

// The child ends when the drill is given up, whatever it is at: here it waits for a lock.
func TestDrillChildKilled(t *testing.T) {
	dir, content := drillData(t)
	db, err := bbolt.Open(embedded.DatabasePath(dir), 0o600, &bbolt.Options{NoFreelistSync: true})
	must(t, err)
	defer db.Close()
	order := drillOrder{Dir: dir, Revision: content.Revision}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := runChild(ctx, drillCommand, dir, order, &embedded.Trial{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
}

// A child on a disk that hangs cannot be killed. The drill ends without it, and says nothing against the backup.
func TestDrillDiskHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	from, content := drillData(t)
	dir := filepath.Join(devicetest.New(t, devicetest.Small).Mount(t), "etcd")
	must(t, os.CopyFS(dir, os.DirFS(from)))
	thaw := devicetest.Freeze(t, filepath.Dir(dir))
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		var d snapshot.Drill
		ended <- rehearse(ctx, dir, content, &d)
	}()
	for !waitsForDisk(dir) {
		select {
		case err := <-ended:
			t.Fatalf("it does not wait for the disk: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	late := errors.New("late")
	cancel(late)
	select {
	case err := <-ended:
		if !errors.Is(err, snapshot.ErrNotExamined) || !errors.Is(err, late) || !strings.Contains(err.Error(), dir) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * childEnd):
		t.Error("it waits for a child that does not end")
	}
	thaw()
}

// waitsForDisk reports whether a process that works in a directory is in uninterruptible sleep.
func waitsForDisk(dir string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*/stat")
	return slices.ContainsFunc(all, func(stat string) bool {
		at, _ := os.Readlink(filepath.Join(filepath.Dir(stat), "cwd"))
		text, _ := os.ReadFile(stat)
		return at == dir && strings.Contains(string(text), ") D ")
	})
}

// What killed drills have left is removed; a drill under way, and what is not a drill's, is not.
func TestDrillDir(t *testing.T) {
	scratch := t.TempDir()
	running, err := newDrillDir(scratch)
	must(t, err)
	killed, err := newDrillDir(scratch)
	must(t, err)
	killed.lock.Close()
	fresh := filepath.Join(scratch, drillPrefix+"fresh") // not locked yet
	other := filepath.Join(scratch, "other")
	elsewhere := t.TempDir()
	link := filepath.Join(scratch, drillPrefix+"link")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(killed.data(), "member"), 0o700), os.Mkdir(other, 0o700), os.Symlink(elsewhere, link),
	} {
		must(t, err)
	}
	old := time.Now().Add(-2 * drillLeft)
	for _, path := range []string{running.path, killed.path, other, elsewhere} {
		must(t, os.Chtimes(path, old, old))
	}
	must(t, os.Mkdir(fresh, 0o700))
	next, err := newDrillDir(scratch)
	must(t, err)
	for path, want := range map[string]bool{running.path: true, killed.path: false, fresh: true, other: true, elsewhere: true, link: true, next.path: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: got %v, want it to be there: %t", path, err, want)
		}
	}
	for _, d := range []drillDir{running, next} {
		if err := d.remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(d.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after its removal: %v", err)
		}
	}
}

// A disk without room for a drill says nothing against the backup: it was not tried.
func TestDrillWithoutRoom(t *testing.T) {
	scratch := t.TempDir()
	if err := unix.Mount("none", scratch, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("needs root: %v", err)
	}
	defer unix.Unmount(scratch, unix.MNT_DETACH)
	store := snapshot.NewDir(t.TempDir())
	db := snapshottest.NewDB(t)
	db.Put("a", "1")
	meta, err := snapshot.Save(t.Context(), store, db.Begin(), snapshot.Meta{Cluster: "main"}, snapshot.Options{Scratch: t.TempDir()})
	must(t, err)
	d, err := Drill(t.Context(), store, meta.Name, snapshot.Options{Scratch: scratch})
	if err == nil || !strings.Contains(err.Error(), "set snapshot.scratch to a disk with room") || d.Error != "" {
		t.Errorf("want that it could not be tried, got %+v, %v", d, err)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	must(t, unix.Mount("none", scratch, "tmpfs", unix.MS_REMOUNT, "size=8m"))
	if d, err := Drill(t.Context(), store, meta.Name, snapshot.Options{Scratch: scratch}); err != nil || d.Error != "" {
		t.Errorf("with 8 MiB: got %+v, %v", d, err)
	}
}

// Only what the child says itself, or a crash, speaks against a backup. A child that is killed, as by a kernel without
// memory, that does not start, as while the program is replaced, or whose disk fails, does not.
func TestDrillThatIsNotTheBackups(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	db := snapshottest.NewDB(t)
	db.Put("a", "1")
	opt := snapshot.Options{Scratch: t.TempDir()}
	meta, err := snapshot.Save(t.Context(), store, db.Begin(), snapshot.Meta{Cluster: "main"}, opt)
	must(t, err)
	causes := map[string]bool{"says": true, "panic": true, "fault": true, "killed": false, "disk": false}
	for how, against := range causes {
		t.Run(how, func(t *testing.T) {
			t.Setenv(toldEnd, how)
			d, err := Drill(t.Context(), store, meta.Name, opt)
			if (d.Error != "") != against || errors.Is(err, snapshot.ErrNotExamined) == against {
				t.Errorf("want that it speaks against the backup: %t, got %q, %v", against, d.Error, err)
			}
		})
	}
	var d snapshot.Drill
	none := filepath.Join(t.TempDir(), "none")
	if err := rehearse(t.Context(), none, meta.Content, &d); !errors.Is(err, snapshot.ErrNotExamined) {
		t.Errorf("a child that does not start: got %v", err)
	}
}

// A program with an older etcd, such as that of a timer on another machine during an upgrade, cannot try a backup. That
// says nothing about the backup.
func TestDrillOfANewerEtcd(t *testing.T) {
	dir, _ := drillData(t)
	db, err := bbolt.Open(embedded.DatabasePath(dir), 0o600, nil)
	must(t, err)
	defer db.Close()
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("storageVersion"), []byte("3.99.0"))
	})
	must(t, err)
	tx, err := db.Begin(false)
	must(t, err)
	store, opt := snapshot.NewDir(t.TempDir()), snapshot.Options{Scratch: t.TempDir()}
	meta, err := snapshot.Save(t.Context(), store, reading{tx}, snapshot.Meta{Cluster: "main"}, opt)
	must(t, err)
	d, err := Drill(t.Context(), store, meta.Name, opt)
	if d.Error != "" || !errors.Is(err, snapshot.ErrNotExamined) || !strings.Contains(err.Error(), "etcd 3.99.0") {
		t.Errorf("got %q, %v", d.Error, err)
	}
}

// A store that hangs in mid-drill says nothing about the backup either.
func TestDrillStoreHangs(t *testing.T) {
	store, opt := snapshot.NewDir(t.TempDir()), snapshot.Options{Scratch: t.TempDir()}
	db := snapshottest.NewDB(t)
	db.Put("a", "1")
	meta, err := snapshot.Save(t.Context(), store, db.Begin(), snapshot.Meta{Cluster: "main"}, opt)
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		d, err := Drill(t.Context(), hanging{store}, meta.Name, opt)
		if err == nil || snapshot.Damaged(err) || d.Error != "" {
			t.Errorf("got %q, %v", d.Error, err)
		}
	})
}

// hanging is a store that does not answer when it is asked for data.
type hanging struct{ snapshot.Store }

func (h hanging) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if strings.Contains(name, "etcd.backup") {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return h.Store.Get(ctx, name)
}

// reading is a transaction of bbolt as one to save.
type reading struct{ *bbolt.Tx }

func (r reading) Close() error { return r.Rollback() }

// What was compared is told, up to what differs.
func TestCompareTrial(t *testing.T) {
	want := snapshot.Content{Revision: 7, Keys: 3, CompactRevision: -1, HashKV: 42}
	checked, err := compareTrial(want, embedded.Trial{Revision: 7, Keys: 3, HashKV: 42})
	if err != nil || !slices.Equal(checked, []string{"revision 7", "records 3", "compacted revision 0", "HashKV 42"}) {
		t.Errorf("got %q, %v", checked, err)
	}
	want.HashKV = 0
	checked, err = compareTrial(want, embedded.Trial{Revision: 7, Keys: 4, HashKV: 42})
	if len(checked) != 2 || err == nil || err.Error() != "records: want 3, got 4" {
		t.Errorf("got %q, %v", checked, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
