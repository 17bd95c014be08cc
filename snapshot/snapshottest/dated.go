package snapshottest

import (
	"context"
	"path"
	"time"

	"holdfast/snapshot"
)

// Epoch is a time of a store whose clock is decades behind.
var Epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Dated is a store with a different clock: it has its own times for its objects.
type Dated struct {
	snapshot.Store
	Times map[string]time.Time // by the last part of the name; other objects have the Epoch
}

// List returns the store's objects with those times.
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
