//go:build !etcd36

package backups

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.uber.org/zap"

	"holdfast/embedded"
	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
	"holdfast/snapshot"
)

// etcd-manager is told the version that ran, or, once the cluster is downgraded, that of the minor it went down to:
// with that it can restore the database, and with the other it may not be able to.
func TestManagerVersionOfDowngraded(t *testing.T) {
	root := t.TempDir()
	m := member(t)
	save := func(at string) (meta snapshot.Meta, told string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); m.Status().StorageVersion != at; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("storage version: got %q, want %s", m.Status().StorageVersion, at)
			}
		}
		tx, err := m.Snapshot(t.Context())
		must(t, err)
		meta, err = snapshot.Save(t.Context(), snapshot.NewDir(root), tx,
			snapshot.Meta{Cluster: "main", Lineage: "4711", Members: 1, EtcdVersion: etcdversion.Version},
			snapshot.Options{Format: snapshot.FormatManager})
		must(t, err)
		text, err := os.ReadFile(filepath.Join(root, meta.Name, "_etcd_backup.meta"))
		must(t, err)
		var mark struct{ EtcdVersion string }
		must(t, json.Unmarshal(text, &mark))
		return meta, mark.EtcdVersion
	}
	if meta, told := save("3.7.0"); told != etcdversion.Version || meta.StorageVersion != "3.7.0" {
		t.Errorf("before: etcd-manager is told %s, the storage version is %q", told, meta.StorageVersion)
	}
	must(t, m.Downgrade(t.Context(), "3.6"))
	meta, told := save("3.6.0")
	if told != "3.6.0" || meta.StorageVersion != "3.6.0" || meta.EtcdVersion != etcdversion.Version {
		t.Errorf("downgraded: etcd-manager is told %s, the storage version is %q, etcd's %s", told, meta.StorageVersion, meta.EtcdVersion)
	}
	if _, err := snapshot.Verify(t.Context(), snapshot.NewDir(root), meta.Name, snapshot.Options{}); err != nil {
		t.Errorf("verify: %v", err)
	}
}

// member runs the only member of a cluster until the test ends.
func member(t *testing.T) *embedded.Member {
	t.Helper()
	peer := fmt.Sprintf("http://127.%d.%d.%d:2380", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	cfg := embedded.Config{Config: settings.Default().Resolve("127.0.0.1")}
	cfg.ListenPeerURLs, cfg.ListenClientURLs = []string{peer}, []string{"http://127.0.0.1:0"}
	m := embedded.New(cfg, zap.NewNop(), nil)
	t.Cleanup(m.Kill)
	if err := m.Start(t.Context(), plan.Spec{Slot: "a", DataDir: filepath.Join(t.TempDir(), "etcd"), Token: "main@1",
		PeerURL: peer, Peers: map[string]string{"a": peer}}); err != nil {
		t.Fatal(err)
	}
	return m
}
