package cmd

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// shelved is a store with the record of a founding in it.
func shelved(t *testing.T) (dir string, r *generations.Records, founding plan.Record) {
	t.Helper()
	dir = t.TempDir()
	r = &generations.Records{Store: snapshot.NewDir(dir), Cluster: "main"}
	founding = plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1, PeerURL: "http://{slot}.x:2380", Seats: []plan.Seat{{Slot: "a", Disk: "d"}}})
	if err := r.Put(t.Context(), founding); err != nil {
		t.Fatal(err)
	}
	return dir, r, founding
}

func knownTo(t *testing.T, r *generations.Records) plan.Store {
	t.Helper()
	s, err := r.Known(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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

// timedStore is a store whose clock is another than ours: it tells its own times of what it got.
type timedStore struct {
	snapshot.Store
	times map[string]time.Time // by the last part of the name; others are of the storeEpoch
}

func (d timedStore) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	objects, err := d.Store.List(ctx, prefix)
	for i, o := range objects {
		objects[i].Modified = storeEpoch
		if at, ok := d.times[path.Base(o.Name)]; ok {
			objects[i].Modified = at
		}
	}
	return objects, err
}

// storeEpoch is a time of a store whose clock is decades off.
var storeEpoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
