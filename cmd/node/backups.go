package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holdfast/cmd/child"
	"holdfast/cmd/config"
	"holdfast/cmd/show"
	"holdfast/embedded"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/snapshot/s3"
)

// Archive are the backups of a cluster, as a restore needs them. It implements [coordinator.Backups].
type Archive struct {
	Store   snapshot.Store
	Cluster string
	Options snapshot.Options
	keeper  *snapshot.Keeper     // of the node; nil in a command
	Force   bool                 // another cluster's backup is allowed
	Skipped func(lines []string) // is called with the reasons why newer backups were skipped; may be nil
}

// Check verifies that a backup is complete and belongs to the cluster.
func (b Archive) Check(ctx context.Context, name, lineage string,
	progress func(coordinator.Progress)) (coordinator.Backup, error) {
	found, err := b.Find(ctx, name, lineage)
	if err != nil {
		return coordinator.Backup{}, err
	}
	v, err := snapshot.Verify(ctx, b.Store, found.Name, b.telling(progress))
	if p, ok := snapshot.VerifyProof(v, err, b.Options); ok {
		// If it cannot be recorded, the result counts all the same, and the next check finds it again.
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

// RoomToRestore returns how many bytes must be free on a volume to prepare a backup whose database has this many bytes.
func RoomToRestore(bytes int64) int64 { return embedded.RoomToBuild(bytes) }

// Find returns the named backup or, without a name, the newest good one. It returns an error if it cannot be restored.
func (b Archive) Find(ctx context.Context, name, lineage string) (snapshot.Backup, error) {
	all, err := snapshot.List(ctx, b.Store, snapshot.Identity{Cluster: b.Cluster, Lineage: lineage})
	if err != nil {
		return snapshot.Backup{}, err
	}
	if name == "" {
		now := time.Now()
		doubt := snapshot.Doubt(all, now)
		if doubt != nil && b.keeper != nil { // nobody has seen it
			return snapshot.Backup{}, fmt.Errorf("the newest backup is not known: %w; to restore another one, name it: "+
				"`holdfast restore NAME`", doubt)
		}
		newest, skipped, err := snapshot.LatestOf(all, b.Cluster, now)
		lines := show.SkippedTexts(skipped, newest, now)
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
		case found.Unfinished: // not useless: it may still be finished
			return found, fmt.Errorf("backup %s cannot be restored: %s", name, found.Problem)
		case found.Problem != "":
			return found, useless{fmt.Errorf("backup %s cannot be restored: %s", name, found.Problem)}
		case found.Foreign && !b.Force:
			return found, useless{fmt.Errorf("backup %s is not this cluster's, but that of %s (lineage %s): restoring it "+
				"would replace this cluster's data by another's; if that is what you want, say `holdfast "+
				"restore %s --force-foreign`",
				name, found.Cluster, found.Lineage, name)}
		}
		if found.Failed != nil && b.Skipped != nil { // only a warning: the operator may have no better backup
			b.Skipped([]string{fmt.Sprintf("backup %s %s", name, show.FailedText(*found.Failed, time.Now()))})
		}
		return found, nil
	}
	return snapshot.Backup{}, useless{fmt.Errorf("backup %s: %w; see `holdfast snapshot list`", name,
		snapshot.ErrNotFound)}
}

// instead returns a text that names the newest good backup other than a bad one, or "".
func (b Archive) instead(ctx context.Context, bad, lineage string) string {
	all, err := snapshot.List(ctx, b.Store, snapshot.Identity{Cluster: b.Cluster, Lineage: lineage})
	if err != nil {
		return ""
	}
	return show.InsteadText(all, bad)
}

// useless marks the error of a backup that can never be restored as a [coordinator.ErrUseless], with the same text.
type useless struct{ error }

func (u useless) Unwrap() []error { return []error{u.error, coordinator.ErrUseless} }

// Fetch writes the database of a backup to a new file.
func (b Archive) Fetch(ctx context.Context, name, path string,
	progress func(coordinator.Progress)) (coordinator.Backup, error) {
	meta, err := snapshot.Fetch(ctx, b.Store, name, path, b.telling(progress))
	return restorable(meta), err
}

// Fresh saves a backup, unless one is not older than within.
func (b Archive) Fresh(ctx context.Context, within time.Duration) error {
	_, err := b.keeper.Fresh(ctx, within)
	return err
}

// Made returns when the newest backup that the node knows of was made, the zero time if it knows none.
func (b Archive) Made() time.Time {
	if b.keeper == nil {
		return time.Time{}
	}
	return b.keeper.Status().Newest.Created
}

// Revision returns the highest revision in any of the cluster's backups, or 0 if there is none.
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

// Newest returns the generation and the revision of the newest verified backup, or the zero value if there is none, or
// it cannot be ordered. A backup that is damaged by now, or failed a later proof, counts as well: it shows what the
// cluster once held, and nothing may continue automatically from less. If a backup's sidecar is unreadable, Newest
// returns an error.
func (b Archive) Newest(ctx context.Context, lineage string) (plan.BackupStand, error) {
	all, err := snapshot.List(ctx, b.Store, snapshot.Identity{Cluster: b.Cluster, Lineage: lineage})
	if err == nil {
		err = snapshot.Untold(all)
	}
	if err != nil {
		return plan.BackupStand{}, err
	}
	found, _ := snapshot.Most(all, time.Now())
	stand := show.StandOf(found.Meta)
	if b.keeper != nil { // the store may have less than this node has seen there
		if seen := show.StandOf(b.keeper.Status().Most); seen.Beyond(stand.Generation, stand.Revision) {
			return seen, nil
		}
	}
	return stand, nil
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

// makeBackupDirectories makes the default directories for backups. It makes no other, because a missing directory may
// be a missing mount.
func makeBackupDirectories(cfg config.Config) error {
	for _, dir := range cfg.OwnBackupDirectories() {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make %s for backups: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

// OpenStore returns the backup store of the configuration. It sends no request yet.
func OpenStore(ctx context.Context, cfg config.Config) (snapshot.Store, error) {
	store, err := OpenStoreAt(ctx, cfg, cfg.Snapshot.Store)
	if err != nil {
		err = fmt.Errorf("snapshot.store: %w", err)
	}
	return store, err
}

// OpenStoreAt returns the store at a path or a URL. The settings of snapshot.s3 apply to a bucket.
func OpenStoreAt(ctx context.Context, cfg config.Config, at string) (snapshot.Store, error) {
	if !config.IsBucket(at) {
		return snapshot.NewDir(config.Abs(at)), nil
	}
	store, err := s3.New(ctx, at, cfg.Snapshot.S3)
	if err != nil { // a nil *s3.Store in the interface would not be nil
		return nil, err
	}
	return store, nil
}

// OpenSpool returns the spool, or nil if it does not exist.
func OpenSpool(cfg config.Config) snapshot.Store {
	if cfg.Snapshot.Spool == "" {
		return nil
	}
	return snapshot.NewDir(cfg.Snapshot.Spool)
}

// BackupOptions returns how backups are written and read. It returns the options also with an error.
func BackupOptions(cfg config.Config) (snapshot.Options, error) {
	s := cfg.Snapshot
	opt := snapshot.Options{Scratch: s.Scratch, Rate: int64(s.Rate) << 20, Format: s.Format, Level: s.Compression,
		Examine: child.Examine}
	var err error
	if opt.Recipients, err = snapshot.ParseRecipients(s.Recipients); err != nil {
		return opt, fmt.Errorf("snapshot.recipients: %w", err)
	}
	if s.IdentityFile != "" {
		opt.Identities, err = snapshot.ReadIdentities(s.IdentityFile)
	}
	return opt, err
}
