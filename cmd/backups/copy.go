package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast/cmd/node"
	"holdfast/snapshot"
)

// At returns the backups in another store, the argument STORE of a command: a directory, file:///PATH or
// s3://BUCKET/PREFIX. The settings of snapshot.s3 apply to a bucket.
func (b *Backups) At(ctx context.Context, store string) (*Backups, error) {
	store, err := snapshot.ParseAddress(store)
	if err != nil {
		return nil, fmt.Errorf("STORE: %w", err)
	}
	other := *b
	other.spool, other.Config.Snapshot.Store = nil, store
	if other.Store, err = node.OpenStoreAt(ctx, b.Config, store); err != nil {
		return nil, fmt.Errorf("open %s: %w", store, err)
	}
	return &other, nil
}

// Copy copies a backup, or latest, to another store, and checks it there.
func (b *Backups) Copy(ctx context.Context, name string, to *Backups) (meta snapshot.Meta, err error) {
	if name, err = b.resolve(ctx, name); err != nil {
		return meta, err
	}
	err = b.Progressing(func(opt snapshot.Options) error {
		meta, err = snapshot.Copy(ctx, b.Store, to.Store, name, opt)
		return err
	})
	if errors.Is(err, snapshot.ErrNotFound) {
		return meta, fmt.Errorf("in %s %w", b.Config.Snapshot.Store, noSuchBackup(name))
	}
	if err != nil {
		return meta, fmt.Errorf("from %s to %s: %w", b.Config.Snapshot.Store, to.Config.Snapshot.Store, err)
	}
	return meta, nil
}

// Missing returns which of the named backups another store lacks. It returns an error if this store lacks one of them.
func (b *Backups) Missing(ctx context.Context, names []string, to *Backups) (missing []string, err error) {
	all, id, err := b.list(ctx)
	if err != nil {
		return nil, err
	}
	there, err := snapshot.List(ctx, to.Store, id)
	if err != nil {
		return nil, fmt.Errorf("list backups in %s: %w", to.Config.Snapshot.Store, err)
	}
	has := func(list []snapshot.Backup, name string) bool {
		return slices.ContainsFunc(list, func(b snapshot.Backup) bool { return b.Name == name && !b.Unfinished })
	}
	for _, name := range names {
		if name, err = b.resolve(ctx, name); err != nil {
			return nil, err
		}
		if !has(all, name) {
			return nil, fmt.Errorf("in %s %w", b.Config.Snapshot.Store, noSuchBackup(name))
		}
		if !has(there, name) {
			missing = append(missing, name)
		}
	}
	return missing, nil
}
