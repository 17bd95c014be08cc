package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"holdfast/embedded/coordinator"
	"holdfast/snapshot"
)

// Of what no second try can restore the coordinator is told so; a store that does not answer is no such thing.
func TestBackupThatIsOfNoUse(t *testing.T) {
	dir := t.TempDir()
	const name = "2026-07-01T00:15:03Z-000042"
	a := Archive{Store: snapshot.NewDir(dir), Cluster: "main", Options: snapshot.Options{Scratch: t.TempDir()}}
	if _, err := a.Check(t.Context(), name, "l", nil); !errors.Is(err, coordinator.ErrUseless) || !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("unknown: got %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"etcd.backup.gz": "torn", "_etcd_backup.meta": `{"etcdVersion": "3.6.11", "timestamp": "1782864903"}`} {
		if err := os.WriteFile(filepath.Join(dir, name, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Check(t.Context(), name, "l", nil); !errors.Is(err, coordinator.ErrUseless) {
		t.Errorf("damaged: got %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Check(t.Context(), name, "l", nil); err == nil || errors.Is(err, coordinator.ErrUseless) {
		t.Errorf("a store that does not answer: got %v", err)
	}
}
