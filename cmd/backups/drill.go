package backups

import (
	"context"
	"errors"
	"fmt"

	"holdfast/cmd/child"
	"holdfast/embedded/generations"
	"holdfast/snapshot"
)

// Drill restores a backup, or latest, in a process of its own, starts it there, and records the result. A backup that
// cannot be restored is a result, not an error: the error means that the drill was not tried.
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

// recordDrill stores the result of a drill beside the backup. For the newest backup, it also stores it as the last
// drill, from which the schedule counts and which the nodes show.
func (b *Backups) recordDrill(ctx context.Context, d snapshot.Drill) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	id, err := generations.Identity(ctx, b.Store, b.Config.Cluster.Name)
	if err == nil {
		err = snapshot.RecordDrill(ctx, b.Store, id, d, b.opt)
	}
	b.unrecorded(err)
}
