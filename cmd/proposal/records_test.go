package proposal

import (
	"strings"
	"testing"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// shelved is a store with the record of a founding in it.
func shelved(t *testing.T) (dir string, r *generations.Records, founding plan.Record) {
	t.Helper()
	dir = t.TempDir()
	r = generations.New(snapshot.NewDir(dir), "main", nil)
	founding = plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1, PeerURL: "http://{slot}.x:2380", Seats: []plan.Seat{{Slot: "a", Disk: "d"}}})
	must(t, r.Put(t.Context(), founding))
	return dir, r, founding
}

func knownTo(t *testing.T, r *generations.Records) plan.Store {
	t.Helper()
	s, err := r.Known(t.Context())
	must(t, err)
	return s
}

func proposed(parent plan.Record, attempts int) plan.Restore {
	return coordinator.NewRestore(parent, attempts, coordinator.Backup{Name: "2026-07-01T00:15:03Z-000042", Digest: strings.Repeat("d", 64), Revision: 5}, 5, 10)
}

func concludedOf(p plan.Restore, parent plan.Record) plan.Record {
	c := parent.Charter
	c.Generation = p.Generation
	return plan.Record{Cluster: p.Cluster, Generation: p.Generation, ID: p.ID, Line: p.Line, Cause: plan.Restored, Restore: &p, Charter: c}
}
