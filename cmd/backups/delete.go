package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/cmd/show"
	"holdfast/snapshot"
)

// Deletable returns an error if one of the named backups must not be deleted.
func (b *Backups) Deletable(ctx context.Context, names []string, force bool) error {
	all, err := b.Everywhere(ctx)
	if err != nil {
		return err
	}
	if err := deletable(all, names, force); err != nil {
		return fmt.Errorf("nothing was deleted: %w", err)
	}
	return nil
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
// deleted, it returns an error and the result.
func (b *Backups) Prune(ctx context.Context, now time.Time, dry bool) (snapshot.Pruned, error) {
	id, err := b.identity(ctx)
	if err != nil {
		return snapshot.Pruned{}, err
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
