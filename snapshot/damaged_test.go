package snapshot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/snapshot"
)

// TestDamaged checks which errors are about the backup itself: people delete backups because of them.
func TestDamaged(t *testing.T) {
	for name, test := range map[string]struct {
		harm func(t *testing.T, dir string)
		want bool
	}{
		"changed data":    {func(t *testing.T, dir string) { write(t, dir, "etcd.backup.zst", "x") }, true},
		"missing data":    {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "etcd.backup.zst"))) }, true},
		"changed sidecar": {func(t *testing.T, dir string) { write(t, dir, "holdfast.meta.json", "{}") }, true},
		"newer sidecar":   {func(t *testing.T, dir string) { write(t, dir, "holdfast.meta.json", `{"version": 2}`) }, false},
		"no sidecar":      {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "holdfast.meta.json"))) }, true},
		"no such backup":  {func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, false},
		"no store":        {func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Dir(dir))) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			root, store, meta := saved(t, smallDB(t))
			test.harm(t, filepath.Join(root, meta.Name))
			_, err := snapshot.Verify(t.Context(), store, meta.Name, snapshot.Options{Scratch: t.TempDir()})
			if err == nil || snapshot.Damaged(err) != test.want {
				t.Errorf("Verify: want an error that is damage: %t, got %v", test.want, err)
			}
		})
	}
	_, store, meta := saved(t, smallDB(t))
	_, err := snapshot.Verify(t.Context(), store, meta.Name, snapshot.Options{Scratch: filepath.Join(t.TempDir(), "gone")})
	if err == nil || snapshot.Damaged(err) {
		t.Errorf("no scratch directory: want an error that is no damage, got %v", err)
	}
	text, _ := keyPair(t, "x25519")
	recipients, err := snapshot.ParseRecipients([]string{text})
	must(t, err)
	meta, err = snapshot.Save(t.Context(), store, smallDB(t).Begin(), identity, snapshot.Options{Scratch: t.TempDir(), Recipients: recipients})
	must(t, err)
	if _, err = snapshot.Fetch(t.Context(), store, meta.Name, filepath.Join(t.TempDir(), "db"), snapshot.Options{}); err == nil || snapshot.Damaged(err) {
		t.Errorf("encrypted, no identity: want an error that is no damage, got %v", err)
	}
}

// TestSaveChecksFirst gives Save metadata that is invalid in a sidecar: nothing is written.
func TestSaveChecksFirst(t *testing.T) {
	for want, change := range map[string]func(*snapshot.Meta){
		"cluster: must be": func(m *snapshot.Meta) { m.Cluster = "a b" },
		"lineage: must be": func(m *snapshot.Meta) { m.Lineage = "a b" },
		"members: must":    func(m *snapshot.Meta) { m.Members = -1 },
	} {
		root, meta := t.TempDir(), identity
		change(&meta)
		_, err := snapshot.Save(t.Context(), snapshot.NewDir(root), smallDB(t).Begin(), meta, snapshot.Options{Scratch: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
		if left := files(t, root); len(left) > 0 {
			t.Errorf("%s: want nothing written, got %v", want, left)
		}
	}
}

func write(t *testing.T, dir, file, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
}
