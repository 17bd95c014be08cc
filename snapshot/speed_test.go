package snapshot_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// The benchmarks in comparison with etcdctl, with 256 MiB and 1 GiB and writing clients, are in package integration.

// speedOf prepares a store with a backup of 64 MiB of Kubernetes-like data.
func speedOf(b *testing.B) (*snapshottest.DB, snapshot.Store, snapshot.Meta, snapshot.Options) {
	db := snapshottest.NewDB(b)
	db.FillKubernetes(64 << 20)
	store, opt := snapshot.NewDir(b.TempDir()), snapshot.Options{Scratch: b.TempDir()}
	meta, err := snapshot.Save(b.Context(), store, db.Begin(), identity, opt)
	must(b, err)
	b.SetBytes(meta.Content.Size)
	b.ReportAllocs()
	return db, store, meta, opt
}

func BenchmarkSave(b *testing.B) {
	db, store, _, opt := speedOf(b)
	for b.Loop() {
		m, err := snapshot.Save(b.Context(), store, db.Begin(), identity, opt)
		must(b, err)
		must(b, snapshot.Delete(b.Context(), store, m.Name))
	}
}

func BenchmarkVerify(b *testing.B) {
	_, store, meta, opt := speedOf(b)
	for b.Loop() {
		_, err := snapshot.Verify(b.Context(), store, meta.Name, opt)
		must(b, err)
	}
}

func BenchmarkFetch(b *testing.B) {
	_, store, meta, opt := speedOf(b)
	path := filepath.Join(b.TempDir(), "db")
	for b.Loop() {
		_, err := snapshot.Fetch(b.Context(), store, meta.Name, path, opt)
		must(b, err)
		must(b, os.Remove(path))
	}
}

func BenchmarkContent(b *testing.B) {
	db, _, _, _ := speedOf(b)
	tx := db.Begin()
	defer tx.Close()
	for b.Loop() {
		_, err := snapshot.ContentOf(b.Context(), tx)
		must(b, err)
	}
}

// BenchmarkList lists a store with 100,000 objects, those of 25,000 backups.
func BenchmarkList(b *testing.B) {
	_, _, meta, _ := speedOf(b)
	b.SetBytes(0)
	root := b.TempDir()
	proof, err := json.Marshal(map[string]any{"version": 1, "proof": snapshot.Proof{Kind: snapshot.ProofVerify}})
	must(b, err)
	for range 25_000 {
		meta.Created = meta.Created.Add(15 * time.Minute)
		meta.Name, meta.Stored.Size = snapshot.FormatName(meta.Created), 1
		text, err := snapshot.EncodeMeta(meta)
		must(b, err)
		dir := filepath.Join(root, meta.Name)
		must(b, os.Mkdir(dir, 0o700))
		for file, text := range map[string][]byte{"holdfast.begin.json": {}, "etcd.backup.zst": []byte("x"),
			"holdfast.verify.json": proof, "holdfast.meta.json": text} {
			must(b, os.WriteFile(filepath.Join(dir, file), text, 0o600))
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		list, err := snapshot.List(b.Context(), snapshot.NewDir(root), ours)
		must(b, err)
		if len(list) != 25_000 || list[0].Problem != "" {
			b.Fatalf("listed %d, the first is %+v", len(list), list[0])
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB-held")
		runtime.KeepAlive(list)
	}
	b.ReportMetric(float64(after.HeapSys)/(1<<20), "MiB-heap")
}
