package snapshottest

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/snapshot"
)

// Backup returns a verified backup of cluster main, as a store lists it.
func Backup(name string, created time.Time) snapshot.Backup {
	var b snapshot.Backup
	b.Name, b.Cluster, b.Created, b.Verified = name, "main", created, created
	b.Content.Size, b.Content.Revision, b.Content.Keys = 5<<20, 4711, 99
	b.Stored = snapshot.Stored{Codec: "zstd", Size: 1 << 20}
	return b
}

// Keep saves a database as a node does: as a backup of the cluster, lineage and generation of m.
func Keep(t testing.TB, store snapshot.Store, db *DB, m snapshot.Meta) snapshot.Meta {
	t.Helper()
	saved, err := NewKeeper(t, store, db, m).Save(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

// NewKeeper returns the keeper of a node that leads and serves db; m is what its backups are of.
func NewKeeper(t testing.TB, store snapshot.Store, db *DB, m snapshot.Meta) *snapshot.Keeper {
	cfg := snapshot.Default()
	cfg.Scratch = t.TempDir()
	return snapshot.NewKeeper(cfg, m.Cluster, snapshot.Stores{Main: store}, source{db, m}, snapshot.Options{}, nil,
		zap.NewNop(), prometheus.NewRegistry())
}

// source is a member that serves db.
type source struct {
	db *DB
	m  snapshot.Meta
}

func (s source) Begin(context.Context) (snapshot.Tx, snapshot.Meta, error) {
	return s.db.Begin(), s.m, nil
}
func (s source) Identity() snapshot.Identity {
	return snapshot.Identity{Cluster: s.m.Cluster, Lineage: s.m.Lineage}
}
func (source) Leader() bool { return true }
func (source) Hold() string { return "" }
