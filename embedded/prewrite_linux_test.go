package embedded

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// prewriterIn returns one that makes small files in an empty directory.
func prewriterIn(t *testing.T) prewriter {
	t.Helper()
	return prewriter{dir: t.TempDir(), size: 1<<20 + 1000}
}

// has makes an empty file, as if etcd had.
func (p prewriter) has(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// looks has p look, and compares the sizes of the files that are there then.
func (p prewriter) looks(t *testing.T, ctx context.Context, fails error, want map[string]int64) {
	t.Helper()
	if err := p.look(ctx); !errors.Is(err, fails) {
		t.Errorf("look: %v, want %v", err, fails)
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if size, ok := want[e.Name()]; !ok || size != info.Size() {
			t.Errorf("%s has %d bytes, want %d", e.Name(), info.Size(), size)
		}
	}
	if len(entries) != len(want) {
		t.Errorf("files %v, want %v", entries, want)
	}
}

func TestPrewrite(t *testing.T) {
	p, ctx := prewriterIn(t), t.Context()
	p.looks(t, ctx, nil, nil) // etcd has not started yet
	p.has(t, "0.tmp")
	p.looks(t, ctx, nil, map[string]int64{"0.tmp": 0, "1.tmp": p.size})

	f, err := os.Open(filepath.Join(p.dir, "1.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// A page in the cache would count as data.
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if hole, err := f.Seek(0, unix.SEEK_HOLE); err != nil || hole != p.size {
		t.Errorf("a block that is only allocated at %d: %v", hole, err)
	}
	got, err := os.ReadFile(f.Name())
	if err != nil || slices.ContainsFunc(got, func(b byte) bool { return b != 0 }) {
		t.Errorf("not only zeros: %v", err)
	}

	p.looks(t, ctx, nil, map[string]int64{"0.tmp": 0, "1.tmp": p.size}) // both are there
	if err := os.Rename(filepath.Join(p.dir, "0.tmp"), filepath.Join(p.dir, "a.wal")); err != nil {
		t.Fatal(err)
	}
	p.looks(t, ctx, nil, map[string]int64{"a.wal": 0, "1.tmp": p.size, "0.tmp": p.size})
}

func TestPrewriteLeavesNothing(t *testing.T) {
	p := prewriterIn(t)
	p.has(t, "1.tmp")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p.looks(t, ended, context.Canceled, map[string]int64{"1.tmp": 0})

	full := p
	full.room = 1 << 62
	full.looks(t, t.Context(), nil, map[string]int64{"1.tmp": 0})
	p.has(t, "prewritten.tmp") // of a process that was killed
	p.looks(t, t.Context(), nil, map[string]int64{"0.tmp": p.size, "1.tmp": 0})

	p.dir = filepath.Join(p.dir, "1.tmp")
	if err := p.look(t.Context()); err == nil {
		t.Error("no error in a directory that cannot be read")
	}
}

// TestPrewriteElsewhere: a file system in memory has no journal, so nothing is made there.
func TestPrewriteElsewhere(t *testing.T) {
	memory, err := os.MkdirTemp("/dev/shm", "")
	if err != nil {
		t.Skipf("no file system in memory: %v", err)
	}
	defer os.RemoveAll(memory)
	p := prewriter{dir: datadir.ToWALDir(memory)}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p.has(t, "0.tmp")
	p.has(t, "prewritten.tmp") // of a process that was killed, where it helped
	prewrite(soon(t), memory, zap.NewNop())
	if _, err := os.Stat(p.ours()); err == nil {
		t.Error("a file that is not finished was left")
	}
	if missing, err := p.missing(); filepath.Base(missing) != "1.tmp" || t.Context().Err() != nil {
		t.Errorf("missing: %q, %v", missing, err)
	}
}

// TestPrewriteTooLate: etcd makes its file while the prewriter makes it, too. etcd's stays.
func TestPrewriteTooLate(t *testing.T) {
	p := prewriterIn(t)
	p.has(t, "0.tmp")
	go func() {
		for t.Context().Err() == nil {
			if _, err := os.Stat(filepath.Join(p.dir, "prewritten.tmp")); err == nil {
				os.WriteFile(filepath.Join(p.dir, "1.tmp"), []byte("etcd"), 0o600)
				return
			}
		}
	}()
	p.size = 8 << 20
	p.looks(t, t.Context(), fs.ErrExist, map[string]int64{"0.tmp": 0, "1.tmp": 4})
}

// TestMemberPrewrites: etcd continues its log in the files that were written ahead, and reads it after a restart.
func TestMemberPrewrites(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	n := found(t, "a")[0]
	p := prewriter{dir: datadir.ToWALDir(n.spec.DataDir), size: wal.SegmentSizeBytes}
	await(t, "etcd's next file", func() bool { missing, err := p.missing(); return err == nil && missing != "" })
	if err := p.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours, err := os.Stat(filepath.Join(p.dir, "1.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	c, value := n.client(t), string(make([]byte, 1<<20))
	used := func() bool {
		files, err := filepath.Glob(filepath.Join(p.dir, "*.wal"))
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(files, func(f string) bool {
			info, err := os.Stat(f)
			return err == nil && os.SameFile(info, ours)
		})
	}
	last := int64(0)
	for range 200 {
		if last = put(t, c, "key", value); used() {
			break
		}
	}
	if !used() {
		t.Fatal("etcd made a file of its own")
	}
	stop(t, n, 0)
	n.run(t).awaitReady(t)
	got, err := n.client(t).Get(soon(t), "key")
	if err != nil || len(got.Kvs) != 1 || got.Kvs[0].ModRevision != last || string(got.Kvs[0].Value) != value {
		t.Errorf("after a restart: %v, want revision %d: %v", got.Header, last, err)
	}
}
