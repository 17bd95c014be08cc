package backups

import (
	"context"
	"errors"
	"fmt"

	"holdfast/cmd/child"
	"holdfast/embedded/generations"
	"holdfast/snapshot"
)

// Drill restores a backup, or latest, in a process of its own, starts it there and records the result, which may be
// that it cannot be restored: the error is why it was not tried.
func (b *Backups) Drill(ctx context.Context, name string) (d snapshot.Drill, err error) {
	if name, err = b.resolve(ctx, name); err != nil {
		return d, err
	}
	err = b.Progressing(func(opt snapshot.Options) error {
		d, err = child.Drill(ctx, b.Store, name, opt)
		return err
	})
	if errors.Is(err, snapshot.ErrNotFound) {
		return d, noSuchBackup(name)
	}
	if err != nil {
		return d, fmt.Errorf("backup %s was not tried: %w", name, err)
	}
	b.recordDrill(ctx, d)
	return d, nil
}

// recordDrill stores the result of a drill: beside the backup and, if that is the newest, as the last drill that the
// schedule counts from and that nodes show.
func (b *Backups) recordDrill(ctx context.Context, d snapshot.Drill) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	id, err := generations.Identity(ctx, b.Store, b.Config.Cluster.Name)
	if err == nil {
		err = snapshot.RecordDrill(ctx, b.Store, id, d, b.opt)
	}
	b.unrecorded(err)
}
