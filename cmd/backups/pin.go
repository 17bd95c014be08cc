package backups

import (
	"context"
	"fmt"
	"slices"

	"holdfast/cmd/show"
	"holdfast/snapshot"
)

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
