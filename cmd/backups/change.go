package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
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
	opened, err := node.OpenStoreAt(ctx, b.Config, store)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", store, err)
	}
	other.Store = timely(opened, store, b.said)
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
	missing = []string{} // so that JSON has [] and not null
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

// Deletable returns an error if one of the named backups must not be deleted.
func (b *Backups) Deletable(ctx context.Context, names []string, force bool) error {
	all, err := b.Everywhere(ctx)
	if err != nil {
		return err
	}
	err = deletable(all, names, force)
	if !force {
		open, unread := b.underWay(ctx)
		if err = errors.Join(err, unread); open != nil && slices.Contains(names, open.Backup) {
			err = errors.Join(err, fmt.Errorf("the %s is under way, and nodes still fetch %s: delete it when that has ended, "+
				"end it with `holdfast restore --abort`, or use --force", open.Title(), open.Backup))
		}
	}
	if err != nil {
		return fmt.Errorf("nothing was deleted: %w", err)
	}
	return nil
}

// underWay returns the restore or recovery that is proposed and has not ended, nil for none.
func (b *Backups) underWay(ctx context.Context) (*plan.Restore, error) {
	_, open, err := generations.New(b.Store, b.Config.Cluster.Name, nil).Current(ctx)
	if err != nil {
		err = fmt.Errorf("read %s: %w", b.Config.Snapshot.Store, err)
	}
	return open, err
}

// deletable returns an error for each name that must not be deleted.
func deletable(all []show.Listed, names []string, force bool) error {
	var verified, rest []snapshot.Backup
	for _, b := range all {
		if b.Good() {
			verified = append(verified, b.Backup)
		} else if !b.Foreign && !b.Unfinished {
			b.Failed = nil // a failed proof does not matter: if no backup is good, the newest is the best that there is
			rest = append(rest, b.Backup)
		}
	}
	newest, ok := snapshot.Newest(verified, time.Now())
	what := "newest verified backup"
	if !ok { // parts of a bad backup may be all that can be recovered
		newest, _ = snapshot.Newest(rest, time.Now())
		what = "newest backup, and none is good"
	}
	var errs []error
	for _, name := range names {
		i := slices.IndexFunc(all, func(b show.Listed) bool { return b.Name == name })
		switch {
		case i < 0:
			errs = append(errs, noSuchBackup(name))
		case force:
		case all[i].Pinned:
			errs = append(errs, fmt.Errorf("%s is pinned (%s): unpin it first, or use --force", name,
				show.PinText(all[i].Backup)))
		case all[i].Foreign:
			errs = append(errs, fmt.Errorf("%s is another cluster's (%s): use --force if it is to go", name,
				show.OwnerText(all[i].Backup)))
		case all[i].Unfinished:
			errs = append(errs, fmt.Errorf("%s is unfinished and may be being saved: `prune` removes it a day after the last "+
				"write, or use --force", name))
		case name == newest.Name:
			errs = append(errs, fmt.Errorf("%s is the %s: save another first, or use --force", name, what))
		}
	}
	return errors.Join(errs...)
}

// Delete removes a backup from the spool and from the store.
func (b *Backups) Delete(ctx context.Context, name string) error {
	for _, from := range []struct {
		store snapshot.Store
		at    string
	}{{b.spool, b.Config.Snapshot.Spool}, {b.Store, b.Config.Snapshot.Store}} {
		if from.store == nil {
			continue
		}
		if err := snapshot.Delete(ctx, from.store, name); err != nil && !errors.Is(err, snapshot.ErrNotFound) {
			return fmt.Errorf("in %s: %w", from.at, err)
		}
	}
	return nil
}

// Prune removes the backups that snapshot.keep does not keep. With dry it only returns which. If some could not be
// deleted, it returns an error and the result. While a restore is under way it removes nothing, as the nodes do: they
// still fetch the backup that the restore names.
func (b *Backups) Prune(ctx context.Context, now time.Time, dry bool) (snapshot.Pruned, error) {
	id, err := b.identity(ctx)
	if err != nil {
		return snapshot.Pruned{}, err
	}
	open, err := b.underWay(ctx)
	if err != nil {
		return snapshot.Pruned{}, err
	}
	if open != nil {
		return snapshot.Pruned{}, fmt.Errorf("nothing was pruned: the %s is under way: prune when it has ended, or end it "+
			"with `holdfast restore --abort`", open.Title())
	}
	pruned, err := snapshot.Prune(ctx, b.Store, id, b.Config.Snapshot.Keep, now, dry)
	switch {
	case err != nil:
		err = fmt.Errorf("prune %s: %w", b.Config.Snapshot.Store, err)
	case len(pruned.Refused) > 0:
		err = fmt.Errorf("prune %s: %d could not be deleted, such as %s: %s",
			b.Config.Snapshot.Store, len(pruned.Refused), pruned.Refused[0], pruned.Kept[pruned.Refused[0]])
	}
	return pruned, err
}

// Place is a backup, and the places that have it.
type Place struct {
	Name  string
	Where []string
}

// Pin keeps a backup, or latest, from being pruned. It pins only one copy: that in the store or, if the store has none,
// that in the spool, whose pin is uploaded with it. A pinned copy in the spool would never be removed from there.
func (b *Backups) Pin(ctx context.Context, name, why string, dry bool) (Place, error) {
	return b.inPlaces(ctx, name, "pinned", 1, dry, func(s snapshot.Store, name string) error {
		return snapshot.Pin(ctx, s, name, why)
	})
}

// Unpin lets a backup, or latest, be pruned again.
func (b *Backups) Unpin(ctx context.Context, name string, dry bool) (Place, error) {
	return b.inPlaces(ctx, name, "unpinned", 2, dry, func(s snapshot.Store, name string) error {
		return snapshot.Unpin(ctx, s, name)
	})
}

// inPlaces calls do for a backup in at most few of the places that have it. The store comes first.
func (b *Backups) inPlaces(ctx context.Context, name, done string, few int, dry bool,
	do func(s snapshot.Store, name string) error) (Place, error) {
	name, err := b.resolve(ctx, name)
	if err != nil {
		return Place{}, err
	}
	all, err := b.Everywhere(ctx)
	if err != nil {
		return Place{}, err
	}
	i := slices.IndexFunc(all, func(a show.Listed) bool { return a.Name == name })
	if i < 0 || all[i].Unfinished {
		return Place{}, noSuchBackup(name)
	}
	at := Place{name, all[i].Where[:min(few, len(all[i].Where))]}
	if dry {
		return at, nil
	}
	stores := map[string]snapshot.Store{show.InSpool: b.spool, show.InDirectory: b.Store, show.InBucket: b.Store}
	for _, where := range at.Where {
		if err := do(stores[where], name); err != nil {
			return at, fmt.Errorf("backup %s in %s was not %s: %w", name, where, done, err)
		}
	}
	return at, nil
}
