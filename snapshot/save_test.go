package snapshot_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/bbolt"
	etcd "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var identity = snapshot.Meta{
	Cluster: "prod", Generation: 3, Record: "r-17", Lineage: "l-1", EtcdClusterID: "cdf818194e3a8c32", Slot: "a", Node: "n1",
	HoldfastVersion: "0.1.0", EtcdVersion: "3.7.3",
}

// ours is the identity whose backups those of the tests are.
var ours = snapshot.Identity{Cluster: "prod", Lineage: "l-1"}

// smallDB holds three keys in five entries; its newest one is a tombstone.
func smallDB(t testing.TB) *snapshottest.DB {
	db := snapshottest.NewDB(t)
	db.Put("a", "1")
	db.Put("b", strings.Repeat("long ", 2000))
	db.Put("a", "2")
	db.Put("c", "3")
	db.Delete("b")
	return db
}

// saved saves db into a new store and returns both and the sidecar.
func saved(t testing.TB, db *snapshottest.DB) (root string, store snapshot.Store, meta snapshot.Meta) {
	t.Helper()
	root = t.TempDir()
	store = snapshot.NewDir(root)
	meta, err := snapshot.Save(t.Context(), store, db.Begin(), identity, snapshot.Options{Scratch: t.TempDir()})
	must(t, err)
	return root, store, meta
}

func TestSave(t *testing.T) {
	db := smallDB(t)
	root, store, meta := saved(t, db)
	if got, want := meta.Content, (snapshot.Content{
		Revision: 6, Keys: 5, CRC: meta.Content.CRC, CompactRevision: -1, HashKV: meta.Content.CRC, ConsistentIndex: 7, Term: 3, Size: meta.Content.Size,
	}); got != want {
		t.Errorf("content: want %+v, got %+v", want, got)
	}
	dir := filepath.Join(root, meta.Name)
	if got, want := files(t, dir), []string{"etcd.backup.zst", "holdfast.begin.json", "holdfast.meta.json"}; !slices.Equal(got, want) {
		t.Errorf("objects: want %v, got %v", want, got)
	}
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ-\d{6}$`).MatchString(meta.Name) {
		t.Errorf("name: got %s", meta.Name)
	}
	got, err := snapshot.Verify(t.Context(), store, meta.Name, snapshot.Options{Scratch: t.TempDir()})
	if err != nil || got.Meta != meta || !got.Full {
		t.Errorf("Verify: want %+v, got %+v, %v", meta, got, err)
	}
	list, err := snapshot.List(t.Context(), store, ours)
	if err != nil || len(list) != 1 || !reflect.DeepEqual(list[0], snapshot.Backup{Meta: meta}) {
		t.Errorf("List: want %+v, got %+v, %v", meta, list, err)
	}
}

// TestEtcdutlAccepts hands the decompressed file to etcd's own tools, which check pages and trailer in their own way.
func TestEtcdutlAccepts(t *testing.T) {
	root, _, meta := saved(t, smallDB(t))
	file := filepath.Join(t.TempDir(), "snapshot.db")
	raw := decompressed(t, filepath.Join(root, meta.Name, "etcd.backup.zst"))
	must(t, os.WriteFile(file, raw, 0o600))

	manager := etcd.NewV3(zap.NewNop())
	status, err := manager.Status(file)
	must(t, err)
	if status.Revision != meta.Content.Revision || status.TotalKey != 2 || status.TotalSize != meta.Content.Size {
		t.Errorf("Status: want revision %d, 2 live keys, size %d, got %+v", meta.Content.Revision, meta.Content.Size, status)
	}
	restore := etcd.RestoreConfig{
		SnapshotPath: file, Name: "a", OutputDataDir: filepath.Join(t.TempDir(), "etcd"),
		PeerURLs: []string{"http://127.0.0.1:2380"}, InitialCluster: "a=http://127.0.0.1:2380", InitialClusterToken: "t",
	}
	must(t, manager.Restore(restore))

	// The control: without the right trailer it is refused.
	raw[len(raw)-1] ^= 1
	must(t, os.WriteFile(file, raw, 0o600))
	restore.OutputDataDir = filepath.Join(t.TempDir(), "etcd")
	if err := manager.Restore(restore); err == nil {
		t.Error("Restore with a wrong trailer: want an error")
	}
}

func decompressed(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	dec, err := zstd.NewReader(nil)
	must(t, err)
	defer dec.Close()
	raw, err := dec.DecodeAll(b, nil)
	must(t, err)
	return raw
}

func TestContent(t *testing.T) {
	content := func(db *snapshottest.DB) snapshot.Content {
		tx := db.Begin()
		defer tx.Close()
		c, err := snapshot.ContentOf(t.Context(), tx)
		must(t, err)
		return c
	}
	db := snapshottest.NewDB(t)
	if c := content(db); c.Revision != 1 || c.Keys != 0 {
		t.Errorf("empty: want revision 1 and no keys, got %+v", c)
	}
	db.Put("a", "1")
	first := content(db)
	db.Delete("a")
	if c := content(db); c.Revision != 3 || c.Keys != 2 || c.CRC == first.CRC {
		t.Errorf("after a delete: want revision 3, 2 keys, another CRC than %d, got %+v", first.CRC, c)
	}
	db.Compact()
	if c := content(db); c.Revision != 3 || c.Keys != 1 || c.CRC != first.CRC {
		t.Errorf("after a compaction that took the tombstone: want revision 3, 1 key, CRC %d, got %+v", first.CRC, c)
	}
}

func TestContentOfOtherThings(t *testing.T) {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	must(t, err)
	defer db.Close()
	contentOf := func() error {
		return db.View(func(tx *bbolt.Tx) error {
			_, err := snapshot.ContentOf(t.Context(), tx)
			return err
		})
	}
	if err := contentOf(); err == nil || !strings.Contains(err.Error(), "not an etcd database") {
		t.Errorf("no buckets: want that it is no etcd database, got %v", err)
	}
	must(t, db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("meta"))
		must(t, err)
		b, err := tx.CreateBucket([]byte("key"))
		must(t, err)
		return b.Put([]byte("some other key"), nil)
	}))
	if err := contentOf(); err == nil || !strings.Contains(err.Error(), "not a revision") {
		t.Errorf("other keys: want that they are no revisions, got %v", err)
	}
}

func TestContentStopsWithContext(t *testing.T) {
	db := snapshottest.NewDB(t)
	db.Put("a", "1")
	tx := db.Begin()
	defer tx.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := snapshot.ContentOf(ctx, tx); !errors.Is(err, context.Canceled) {
		t.Errorf("want Canceled, got %v", err)
	}
}

// TestNamesAreUnique starts many savers in one and the same microsecond, which only a standing clock can give.
func TestNamesAreUnique(t *testing.T) {
	db := smallDB(t)
	scratch, store := t.TempDir(), snapshot.NewDir(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		var names [5]string
		for i := range names {
			wg.Go(func() {
				m, err := snapshot.Save(t.Context(), store, db.Begin(), identity, snapshot.Options{Scratch: scratch})
				if err != nil {
					t.Error(err)
				}
				names[i] = m.Name
			})
		}
		wg.Wait()
		slices.Sort(names[:])
		if want := "2000-01-01T00:00:00Z-00000"; names[0] != want+"0" || names[4] != want+"4" {
			t.Errorf("names: want %s0 to 4, got %q", want, names)
		}
		for _, name := range names {
			if _, err := snapshot.Verify(t.Context(), store, name, snapshot.Options{Scratch: scratch}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestProgress(t *testing.T) {
	db := snapshottest.NewDB(t)
	db.Fill(1000, 1000)
	var calls int
	var last snapshot.Progress
	ends := map[string]int64{}
	meta, err := snapshot.Save(t.Context(), snapshot.NewDir(t.TempDir()), db.Begin(), identity, snapshot.Options{
		Scratch: t.TempDir(),
		Progress: func(p snapshot.Progress) {
			if p.Phase == last.Phase && p.Done < last.Done {
				t.Errorf("progress went from %+v to %+v", last, p)
			}
			calls++
			last = p
			ends[p.Phase] = p.Done
		},
	})
	must(t, err)
	if size := meta.Content.Size; ends["copying"] != size || ends["verifying"] != size || len(ends) != 2 {
		t.Errorf("ends of the phases: want %d, got %v", size, ends)
	}
	if calls > 210 {
		t.Errorf("calls: want about 200, got %d", calls)
	}
}

// TestMemoryIsConstant saves a database of 32 MiB, more than is under way at a time, and one of 96 MiB, and compares
// what lives at the peak.
func TestMemoryIsConstant(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a database of 96 MiB")
	}
	peak := func(n int) uint64 {
		db := snapshottest.NewDB(t)
		db.Fill(n, 4000)
		var most uint64
		_, err := snapshot.Save(t.Context(), snapshot.NewDir(t.TempDir()), db.Begin(), identity, snapshot.Options{
			Scratch: t.TempDir(),
			Progress: func(p snapshot.Progress) {
				if p.Done*10/p.Total%3 != 0 {
					return
				}
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			},
		})
		must(t, err)
		return most
	}
	small, large := peak(8000), peak(24000)
	t.Logf("live heap at the peak: %d kB for 32 MiB, %d kB for 96 MiB", small>>10, large>>10)
	if large > small+4<<20 || large > 64<<20 {
		t.Errorf("live heap grew from %d to %d bytes", small, large)
	}
}
