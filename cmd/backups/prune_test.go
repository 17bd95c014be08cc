package backups

import (
	"strings"
	"testing"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// The members still fetch the backup that an open restore names. A timer on another machine must not prune it, and an
// operator who deletes it must mean it.
func TestPruneDuringRestore(t *testing.T) {
	db := snapshottest.NewDB(t)
	dir := snapshot.NewDir(t.TempDir())
	records := generations.New(dir, "main", nil)
	founding := plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1, PeerURL: "http://{slot}.x:2380",
		Seats: []plan.Seat{{Slot: "a", Disk: "d"}}})
	must(t, records.Put(t.Context(), founding))
	mine := snapshot.Meta{Cluster: "main", Generation: 1, Lineage: founding.Lineage()}
	old := snapshottest.Keep(t, dir, db, mine)
	db.Put("a", "1")
	snapshottest.Keep(t, dir, db, mine)
	named := coordinator.Backup{Name: old.Name, Digest: strings.Repeat("d", 64), Revision: 5}
	p := coordinator.NewRestore(founding, 0, named, 5, 10)
	must(t, records.Propose(t.Context(), p))
	b := &Backups{Config: config.Default(), Store: dir}
	b.Config.Cluster.Name, b.Config.Snapshot.Keep = "main", snapshot.Keep{Newest: 1}
	got, err := b.Prune(t.Context(), time.Now(), false)
	if err == nil || !strings.Contains(err.Error(), "nothing was pruned: the "+p.Title()) || len(got.Expired) != 0 {
		t.Errorf("during a restore: got %+v, %v", got, err)
	}
	err = b.Deletable(t.Context(), []string{old.Name}, false)
	if err == nil || !strings.Contains(err.Error(), "nodes still fetch "+old.Name) {
		t.Errorf("delete during a restore: got %v", err)
	}
	if err := b.Deletable(t.Context(), []string{old.Name}, true); err != nil {
		t.Errorf("delete by force: %v", err)
	}
	if _, err := records.Abort(t.Context(), p, plan.Abort{ID: p.ID, Why: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Deletable(t.Context(), []string{old.Name}, false); err != nil {
		t.Errorf("delete after it: %v", err)
	}
	got, err = b.Prune(t.Context(), time.Now(), false)
	if err != nil || len(got.Expired) != 1 || got.Expired[0].Name != old.Name {
		t.Errorf("after it: want %s pruned, got %+v, %v", old.Name, got, err)
	}
}
