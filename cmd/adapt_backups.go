package cmd

import (
	"context"
	"fmt"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/snapshot"
)

// archive is the backups of a cluster, as a restore needs them.
type archive struct {
	store   snapshot.Store
	cluster string
	options snapshot.Options
	keeper  *snapshot.Keeper // of the node; nil in a command
	force   bool             // another cluster's will do, too
	// skipped is told what the newest one is not, and why; nil: nobody is.
	skipped func(lines []string)
}

// Check proves that a backup is whole and ours.
func (b archive) Check(ctx context.Context, name, lineage string, progress func(coordinator.Progress)) (coordinator.Backup, error) {
	found, err := b.find(ctx, name, lineage)
	if err != nil {
		return coordinator.Backup{}, err
	}
	v, err := snapshot.Verify(ctx, b.store, found.Name, b.telling(progress))
	if p, ok := snapshot.VerifyProof(v, err, b.options); ok {
		// That it cannot be recorded changes nothing about what was found: then the next one finds the same.
		_ = snapshot.Record(ctx, b.store, found.Name, p)
	}
	if snapshot.Damaged(err) {
		err = useless{fmt.Errorf("%w%s", err, b.instead(ctx, found.Name, lineage))}
	}
	if err == nil && !v.Full {
		err = fmt.Errorf("backup %s is encrypted, and without the key it can be neither verified nor restored: set snapshot.identity-file", found.Name)
	}
	return restorable(v.Meta), err
}

// find returns the entry of a backup that can be restored: the named one, or the newest that can be relied on.
func (b archive) find(ctx context.Context, name, lineage string) (snapshot.Backup, error) {
	id := snapshot.Identity{Cluster: b.cluster, Lineage: lineage}
	if name == "" {
		newest, skipped, err := snapshot.Latest(ctx, b.store, id)
		if lines := skippedTexts(skipped, newest, time.Now()); b.skipped != nil && len(lines) > 0 {
			b.skipped(lines)
		}
		return newest, err
	}
	all, err := snapshot.List(ctx, b.store, id)
	if err != nil {
		return snapshot.Backup{}, err
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
		case found.Foreign && !b.force:
			return found, useless{fmt.Errorf("backup %s is not this cluster's, but that of %s (lineage %s): restoring it would replace this cluster's data by another's; if that is what you want, say `holdfast restore %s --force-foreign`",
				name, found.Cluster, found.Lineage, name)}
		}
		if found.Failed != nil && b.skipped != nil { // whoever names it may have nothing else
			b.skipped([]string{fmt.Sprintf("backup %s %s", name, failedText(*found.Failed, time.Now()))})
		}
		return found, nil
	}
	return snapshot.Backup{}, useless{fmt.Errorf("backup %s: %w; see `holdfast snapshot list`", name, snapshot.ErrNotFound)}
}

// instead names the newest good backup other than a bad one.
func (b archive) instead(ctx context.Context, bad, lineage string) string {
	all, err := snapshot.List(ctx, b.store, snapshot.Identity{Cluster: b.cluster, Lineage: lineage})
	if err != nil {
		return ""
	}
	return insteadText(all, bad)
}

// useless is the error of a backup that can never be restored: a [coordinator.ErrUseless] that does not say so again.
type useless struct{ error }

// Revision is the highest that any backup has, 0 without any.
func (b archive) Revision(ctx context.Context, lineage string) (int64, error) {
	all, err := snapshot.List(ctx, b.store, snapshot.Identity{Cluster: b.cluster, Lineage: lineage})
	last := int64(0)
	for _, found := range all {
		if !found.Foreign {
			last = max(last, found.Content.Revision)
		}
	}
	return last, err
}

func (b archive) telling(progress func(coordinator.Progress)) snapshot.Options {
	opt := b.options
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
