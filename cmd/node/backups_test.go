package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// Of what no second try can restore the coordinator is told so; a store that does not answer is no such thing.
func TestBackupThatIsOfNoUse(t *testing.T) {
	dir := t.TempDir()
	const name = "2026-07-01T00:15:03Z-000042"
	a := Archive{Store: snapshot.NewDir(dir), Cluster: "main", Options: snapshot.Options{Scratch: t.TempDir()}}
	if _, err := a.Check(t.Context(), name, "l", nil); !errors.Is(err, coordinator.ErrUseless) || !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("unknown: got %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	for file, text := range map[string]string{"etcd.backup.gz": "torn", "_etcd_backup.meta": `{"etcdVersion": "3.6.11", "timestamp": "1782864903"}`} {
		must(t, os.WriteFile(filepath.Join(dir, name, file), []byte(text), 0o600))
	}
	if _, err := a.Check(t.Context(), name, "l", nil); !errors.Is(err, coordinator.ErrUseless) {
		t.Errorf("damaged: got %v", err)
	}
	must(t, os.RemoveAll(dir))
	must(t, os.WriteFile(dir, nil, 0o600))
	if _, err := a.Check(t.Context(), name, "l", nil); err == nil || errors.Is(err, coordinator.ErrUseless) {
		t.Errorf("a store that does not answer: got %v", err)
	}
}

// outdated is a store that lists nothing that was put there.
type outdated struct{ snapshot.Store }

func (outdated) List(context.Context, string) ([]snapshot.Object, error) { return nil, nil }

// A backup whose sidecar is cut short is not taken for none: a recovery without an operator would continue from less
// than it may hold. Nor is one that an outdated listing lacks.
func TestNewestBackupThatDoesNotTell(t *testing.T) {
	dir := t.TempDir()
	a := Archive{Store: snapshot.NewDir(dir), Cluster: "main"}
	if got, err := a.Newest(t.Context(), "l"); err != nil || got != (plan.BackupStand{}) {
		t.Errorf("an empty store: got %+v, %v", got, err)
	}
	const name = "2026-07-01T00:15:03Z-000042"
	if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o700),
		os.WriteFile(filepath.Join(dir, name, "holdfast.meta.json"), []byte(`{"version": 1, "sha2`), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Newest(t.Context(), "l"); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("got %+v, %v", got, err)
	}
	hidden := a
	hidden.Store = snapshot.NewDir(t.TempDir())
	saved := snapshottest.Keep(t, hidden.Store, snapshottest.NewDB(t),
		snapshot.Meta{Cluster: "main", Lineage: "l", Generation: 2})
	hidden.Store = outdated{hidden.Store}
	if got, err := hidden.Newest(t.Context(), "l"); err != nil || got.Name != saved.Name || got.Generation != 2 {
		t.Errorf("one that is not listed: got %+v, %v", got, err)
	}
	var told []string
	a.Skipped = func(lines []string) { told = lines }
	if _, err := a.Find(t.Context(), "", "l"); !errors.Is(err, snapshot.ErrNotFound) || !strings.Contains(fmt.Sprint(told), name+" does not tell") {
		t.Errorf("the latest, for an operator: got %v, told %v", err, told)
	}
	a.keeper = new(snapshot.Keeper)
	if _, err := a.Find(t.Context(), "", "l"); err == nil || errors.Is(err, snapshot.ErrNotFound) || !strings.Contains(err.Error(), "the newest backup is not known") {
		t.Errorf("the latest, unasked: got %v", err)
	}
}

// A directory for backups that cannot be made, such as behind a link to a disk that is not mounted, keeps no member
// from starting.
func TestStartWithoutBackupDirectories(t *testing.T) {
	registry(t)
	dir := t.TempDir()
	for _, name := range []string{"snapshots", "scratch"} {
		must(t, os.Symlink("not-mounted", filepath.Join(dir, name)))
	}
	if _, err := newNode(t.Context(), "test", load(t, dir).Config, zap.NewNop()); err != nil {
		t.Error(err)
	}
}

// A node whose store went back in time remembers what it has seen there.
func TestNewestBackupOfAStoreThatWentBack(t *testing.T) {
	dir := t.TempDir()
	a := Archive{Store: snapshot.NewDir(dir), Cluster: "main"}
	a.keeper = snapshottest.NewKeeper(t, a.Store, snapshottest.NewDB(t),
		snapshot.Meta{Cluster: "main", Lineage: "l", Generation: 2})
	saved, err := a.keeper.Save(t.Context(), nil)
	if err == nil {
		err = errors.Join(os.RemoveAll(filepath.Join(dir, saved.Name)), os.RemoveAll(filepath.Join(dir, "holdfast")))
	}
	must(t, err)
	if got, err := a.Newest(t.Context(), "l"); err != nil || got.Name != saved.Name || got.Generation != 2 {
		t.Errorf("got %+v, %v, want %s", got, err, saved.Name)
	}
}
