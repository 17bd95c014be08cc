package snapshottest

import (
	"context"
	"path"
	"time"

	"holdfast/snapshot"
)

// Epoch is a time of a store whose clock is decades off.
var Epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Dated is a store whose clock is another than ours: it tells its own times of what it got.
type Dated struct {
	snapshot.Store
	Times map[string]time.Time // by the last part of the name; others are of the Epoch
}

// List returns what the store has, with those times.
func (d Dated) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	objects, err := d.Store.List(ctx, prefix)
	for i, o := range objects {
		objects[i].Modified = Epoch
		if at, ok := d.Times[path.Base(o.Name)]; ok {
			objects[i].Modified = at
		}
	}
	return objects, err
}
