package snapshot_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// TestHashKV compares the hash computed from a live member's database with the member's own answer, also after a
// restart.
func TestHashKV(t *testing.T) {
	many := func(c *history) {
		for i := range 300 {
			c.put(fmt.Sprint("k", i%70))
			if i%11 == 0 {
				c.remove(fmt.Sprint("k", i%35))
			}
		}
	}
	for name, write := range map[string]func(c *history){
		"empty":                        func(*history) {},
		"never compacted":              func(c *history) { many(c) },
		"compacted now":                func(c *history) { many(c); c.compact(0) },
		"compacted earlier":            func(c *history) { many(c); c.compact(50) },
		"written since":                func(c *history) { c.put("a"); c.put("b"); c.compact(0); c.put("a"); c.put("c") },
		"written since, all":           func(c *history) { c.put("a"); c.put("b"); c.compact(0); c.put("a"); c.put("b") },
		"tombstone at the compaction":  func(c *history) { c.put("a"); c.put("b"); c.remove("a"); c.compact(0) },
		"only a tombstone":             func(c *history) { c.put("a"); c.remove("a"); c.compact(0) },
		"deleted since":                func(c *history) { c.put("a"); c.put("b"); c.compact(0); c.remove("a") },
		"all deleted since":            func(c *history) { c.put("a"); c.put("b"); c.compact(0); c.remove("a"); c.remove("b") },
		"made again":                   func(c *history) { c.put("a"); c.remove("a"); c.compact(0); c.put("a"); c.put("b") },
		"made again before":            func(c *history) { c.put("a"); c.remove("a"); c.put("a"); c.compact(0); c.put("b") },
		"many deleted at once":         func(c *history) { many(c); c.removeAll("k"); c.compact(0) },
		"many deleted at once, and on": func(c *history) { many(c); c.removeAll("k1"); c.compact(0); many(c) },
		"compacted twice":              func(c *history) { many(c); c.compact(0); many(c); c.compact(20); many(c) },
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !strings.Contains(name, "deleted since") {
				t.Skip("starts etcd twice")
			}
			dir := t.TempDir()
			etcd, stop := start(t, dir)
			write(&history{t: t, client: v3client.New(etcd.Server), etcd: etcd})
			first := compareHash(t, etcd)
			stop()
			etcd, stop = start(t, dir)
			if again := compareHash(t, etcd); again != first {
				t.Errorf("after a restart: want hash %d, got %d", first, again)
			}
			stop()
		})
	}
}

// TestHashKVRaised reads the database of a member whose revision was raised by a restore, which leaves an entry without
// a value, and of one that was restored twice.
func TestHashKVRaised(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		etcd, stop := start(t, dir)
		h := &history{t: t, client: v3client.New(etcd.Server), etcd: etcd}
		h.put("a")
		h.put("b")
		compareCompacted(t, etcd, round > 0)
		stop()
		raise(t, filepath.Join(dir, "member", "snap", "db"), 1000)
		if round > 0 && testing.Short() {
			return
		}
	}
	etcd, _ := start(t, dir)
	compareCompacted(t, etcd, true)
	(&history{t: t, client: v3client.New(etcd.Server), etcd: etcd}).put("a")
	compareHash(t, etcd)
}

// raise raises the revision of a closed database as `etcdutl snapshot restore --bump-revision --mark-compacted` does.
func raise(t *testing.T, path string, bump int64) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, errors.Join(db.Update(func(tx *bbolt.Tx) error {
		last, _ := tx.Bucket([]byte("key")).Cursor().Last()
		rev := binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(last)+uint64(bump))
		rev = append(append(rev, '_'), make([]byte, 8)...)
		return errors.Join(tx.Bucket([]byte("key")).Put(rev, nil), tx.Bucket([]byte("meta")).Put([]byte("scheduledCompactRev"), rev))
	}), db.Close()))
}

// compareCompacted compares the hashes after the compaction with which etcd begins, if there is one.
func compareCompacted(t *testing.T, etcd *embed.Etcd, compacts bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); compacts; time.Sleep(5 * time.Millisecond) {
		tx := etcd.Server.Backend().Snapshot().(snapshot.Tx)
		got, err := snapshot.ContentOf(t.Context(), tx)
		must(t, errors.Join(err, tx.Close()))
		if got.HashKV != 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the compaction is not over after a minute: %+v", got)
		}
	}
	compareHash(t, etcd)
}

// compareHash compares revision, compacted revision and hash.
func compareHash(t *testing.T, etcd *embed.Etcd) uint32 {
	t.Helper()
	tx := etcd.Server.Backend().Snapshot().(snapshot.Tx)
	defer tx.Close()
	got, err := snapshot.ContentOf(t.Context(), tx)
	must(t, err)
	want, rev, err := etcd.Server.KV().HashStorage().HashByRev(0)
	must(t, err)
	if got.Revision != rev || got.CompactRevision != want.CompactRevision || got.HashKV != want.Hash {
		t.Errorf("want revision %d, compacted at %d, hash %d, got %+v", rev, want.CompactRevision, want.Hash, got)
	}
	return got.HashKV
}

// start starts a member.
func start(t *testing.T, dir string) (etcd *embed.Etcd, stop func()) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.LogOutputs = dir, "panic", []string{"/dev/null"}
	cfg.UnsafeNoFsync = true
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls, cfg.ListenClientUrls, cfg.AdvertiseClientUrls = local, local, local, local
	cfg.InitialCluster = cfg.Name + "=http://127.0.0.1:0"
	etcd, err := embed.StartEtcd(cfg)
	must(t, err)
	stop = sync.OnceFunc(etcd.Close)
	t.Cleanup(stop)
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready after a minute")
	}
	return etcd, stop
}

// history writes a history.
type history struct {
	t      *testing.T
	client *clientv3.Client
	etcd   *embed.Etcd
	rev    int64
}

func (h *history) put(key string) {
	r, err := h.client.Put(context.Background(), key, "value of "+key)
	must(h.t, err)
	h.rev = r.Header.Revision
}

func (h *history) remove(key string) {
	r, err := h.client.Delete(context.Background(), key)
	must(h.t, err)
	h.rev = r.Header.Revision
}

func (h *history) removeAll(prefix string) {
	r, err := h.client.Delete(context.Background(), prefix, clientv3.WithPrefix())
	must(h.t, err)
	h.rev = r.Header.Revision
}

// compact compacts everything before the last revisions, and returns when that is done.
func (h *history) compact(before int64) {
	_, err := h.client.Compact(context.Background(), h.rev-before, clientv3.WithCompactPhysical())
	must(h.t, err)
}

// TestHashKVUnknown wants 0 while a compaction is in progress: its result cannot be known.
func TestHashKVUnknown(t *testing.T) {
	db := snapshottest.NewDB(t)
	db.Put("a", "1")
	db.Put("a", "2")
	db.Schedule(3)
	tx := db.Begin()
	defer tx.Close()
	c, err := snapshot.ContentOf(t.Context(), tx)
	if err != nil || c.HashKV != 0 || c.CompactRevision != 3 || c.CRC == 0 {
		t.Errorf("want hash 0, compacted at 3, got %+v, %v", c, err)
	}
}
