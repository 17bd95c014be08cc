package snapshot_test

import (
	"os"
	"path/filepath"
	"testing"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// The benchmarks beside etcdctl, with 256 MiB and 1 GiB and clients that write, are in integration.

// speedOf prepares a store with a backup of 64 MiB of Kubernetes' shape.
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
