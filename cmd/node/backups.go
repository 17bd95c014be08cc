package node

import (
	"context"
	"fmt"
	"time"

	"holdfast/cmd/show"
	"holdfast/embedded"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// Archive is the backups of a cluster, as a restore needs them.
type Archive struct {
	Store   snapshot.Store
	Cluster string
	Options snapshot.Options
	keeper  *snapshot.Keeper // of the node; nil in a command
	Force   bool             // another cluster's will do, too
	// skipped is told what the newest one is not, and why; nil: nobody is.
	Skipped func(lines []string)
}

// Check proves that a backup is whole and ours.
func (b Archive) Check(ctx context.Context, name, lineage string,
	progress func(coordinator.Progress)) (coordinator.Backup, error) {
	found, err := b.Find(ctx, name, lineage)
	if err != nil {
		return coordinator.Backup{}, err
	}
	v, err := snapshot.Verify(ctx, b.Store, found.Name, b.telling(progress))
	if p, ok := snapshot.VerifyProof(v, err, b.Options); ok {
		// That it cannot be recorded changes nothing about what was found: then the next one finds the same.
		_ = snapshot.Record(ctx, b.Store, found.Name, p)
	}
	if snapshot.Damaged(err) {
		err = useless{fmt.Errorf("%w%s", err, b.instead(ctx, found.Name, lineage))}
	}
	if err == nil && !v.Full {
		err = fmt.Errorf("backup %s is encrypted, and without the key it can be neither verified nor restored: "+
			"set snapshot.identity-file", found.Name)
	}
	return restorable(v.Meta), err
}

// RoomToRestore is how much a volume must have free so that a member can prepare a backup with a database of this many
// bytes.
func RoomToRestore(bytes int64) int64 { return embedded.RoomToBuild(bytes) }

// Find returns the entry of a backup that can be restored: the named one, or the newest that can be relied on.
func (b Archive) Find(ctx context.Context, name, lineage string) (snapshot.Backup, error) {
	id := snapshot.Identity{Cluster: b.Cluster, Lineage: lineage}
	all, err := snapshot.List(ctx, b.Store, id)
	if err != nil {
		return snapshot.Backup{}, err
	}
	if name == "" {
		doubt := snapshot.Doubt(all, time.Now())
		if doubt != nil && b.keeper != nil { // nobody has seen it
			return snapshot.Backup{}, fmt.Errorf("the newest backup is not known: %w; to restore another one, name it: "+
				"`holdfast restore NAME`", doubt)
		}
		newest, skipped, err := snapshot.Latest(ctx, b.Store, id)
		lines := show.SkippedTexts(skipped, newest, time.Now())
		if doubt != nil {
			lines = append(lines, doubt.Error())
		}
		if b.Skipped != nil && len(lines) > 0 {
			b.Skipped(lines)
		}
		return newest, err
	}
	for _, found := range all {
		if found.Name != name {
			continue
		}
		switch {
		case found.Unfinished: // it may be finished yet
			return found, fmt.Errorf("backup %s cannot be restored: %s", name, found.Problem)
		case found.Problem != "":
			return found, useless{fmt.Errorf("backup %s cannot be restored: %s", name, found.Problem)}
		case found.Foreign && !b.Force:
			return found, useless{fmt.Errorf("backup %s is not this cluster's, but that of %s (lineage %s): restoring it "+
				"would replace this cluster's data by another's; if that is what you want, say `holdfast "+
				"restore %s --force-foreign`",
				name, found.Cluster, found.Lineage, name)}
		}
		if found.Failed != nil && b.Skipped != nil { // anyone who names it may have nothing else
			b.Skipped([]string{fmt.Sprintf("backup %s %s", name, show.FailedText(*found.Failed, time.Now()))})
		}
		return found, nil
	}
	return snapshot.Backup{}, useless{fmt.Errorf("backup %s: %w; see `holdfast snapshot list`", name,
		snapshot.ErrNotFound)}
}

// instead names the newest good backup other than a bad one.
func (b Archive) instead(ctx context.Context, bad, lineage string) string {
	all, err := snapshot.List(ctx, b.Store, snapshot.Identity{Cluster: b.Cluster, Lineage: lineage})
	if err != nil {
		return ""
	}
	return show.InsteadText(all, bad)
}

// useless is the error of a backup that can never be restored: a [coordinator.ErrUseless] that does not say so again.
type useless struct{ error }

func (u useless) Unwrap() []error { return []error{u.error, coordinator.ErrUseless} }

// Fetch writes the database of a backup to a new file.
func (b Archive) Fetch(ctx context.Context, name, path string,
	progress func(coordinator.Progress)) (coordinator.Backup, error) {
	meta, err := snapshot.Fetch(ctx, b.Store, name, path, b.telling(progress))
	return restorable(meta), err
}

// Fresh makes sure of a backup that is made at most within ago.
func (b Archive) Fresh(ctx context.Context, within time.Duration) error {
	_, err := b.keeper.Fresh(ctx, within)
	return err
}

// Revision is the highest that any backup has, 0 without any.
func (b Archive) Revision(ctx context.Context, lineage string) (int64, error) {
	all, err := snapshot.List(ctx, b.Store, snapshot.Identity{Cluster: b.Cluster, Lineage: lineage})
	last := int64(0)
	for _, found := range all {
		if !found.Foreign {
			last = max(last, found.Content.Revision)
		}
	}
	return last, err
}

// Newest is what the newest verified backup holds that can be ordered; the zero value: there is none. One that is
// damaged since, or that a later proof speaks against, counts as well: nobody may continue unasked from less than what
// it tells was there. If one does not tell, nothing is known.
func (b Archive) Newest(ctx context.Context, lineage string) (plan.BackupStand, error) {
	all, err := snapshot.List(ctx, b.Store, snapshot.Identity{Cluster: b.Cluster, Lineage: lineage})
	if err == nil {
		err = snapshot.Untold(all)
	}
	if err != nil {
		return plan.BackupStand{}, err
	}
	all = snapshot.AsSaved(all)
	for i := range all {
		all[i].Failed = nil
	}
	found, ok := snapshot.Newest(all, time.Now())
	if !ok || !found.Ordered() {
		return plan.BackupStand{}, nil
	}
	return StandOf(found), nil
}

// StandOf says how far a backup reaches.
func StandOf(b snapshot.Backup) plan.BackupStand {
	return plan.BackupStand{Name: b.Name, Generation: b.Generation, Revision: b.Content.Revision}
}

func (b Archive) telling(progress func(coordinator.Progress)) snapshot.Options {
	opt := b.Options
	if progress != nil {
		opt.Progress = func(p snapshot.Progress) {
			progress(coordinator.Progress{Phase: p.Phase, Done: p.Done, Total: p.Total})
		}
	}
	return opt
}

func restorable(m snapshot.Meta) coordinator.Backup {
	return coordinator.Backup{Name: m.Name, Digest: m.Trailer, Revision: m.Content.Revision, Bytes: m.Content.Size}
}
