package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Backup is one entry of a listing.
type Backup struct {
	// Meta is the sidecar. If the sidecar is missing or unreadable, only Name, Created, Stored.Size and the known parts of
	// Cluster, Lineage and Node are set. For a legacy backup EtcdVersion and Members are known too; Content is zero and
	// Verified is never set.
	Meta
	// Problem says why the backup cannot be relied on, or is "". Its absence is no proof: only Verify proves a backup.
	Problem string `json:"problem,omitempty"`
	// Unfinished says that the backup was only begun, as Problem explains: it is being saved, or a save or a copy failed.
	// So does one that was deleted while it was listed.
	Unfinished bool `json:"unfinished,omitempty"`
	// Foreign says that the backup is another cluster's. It is never pruned, and only restored by force.
	Foreign bool `json:"foreign,omitempty"`
	// Legacy says that etcd-manager alone wrote it: there is no sidecar, and its owner is not recorded.
	Legacy bool `json:"legacy,omitempty"`
	// Unmarked says that etcd-manager does not see it, although it has etcd-manager's format: the save or a deletion was
	// interrupted next to the last object. For holdfast it is as good as any other.
	Unmarked bool `json:"unmarked,omitempty"`
	// Pinned says that it is never pruned. PinReason is the reason, in its owner's words.
	Pinned    bool   `json:"pinned,omitempty"`
	PinReason string `json:"pinReason,omitempty"`
	// Proofs are the last verification and the last drill since it was saved, the weakest kind first.
	Proofs []Proof `json:"proofs,omitempty"`
	// Failed is the proof that stands against the backup, or nil. Such a backup must not be relied on, but may be tried. A
	// later good proof of the same or a stronger kind ends this.
	Failed *Proof `json:"failed,omitempty"`
}

// own reports whether the backup is good and this cluster's. Such backups count, and are pruned.
func (b Backup) own() bool { return b.Good() && !b.Foreign && !b.Legacy }

// Good reports whether the backup was read back when it was saved, and nothing is known against it.
func (b Backup) Good() bool { return b.Problem == "" && b.Failed == nil && !b.Verified.IsZero() }

// Identity is the cluster whose backups are wanted. With the zero Identity no backup is foreign.
type Identity struct {
	// Cluster is the cluster's name.
	Cluster string
	// Lineage is the ID of its founding, "" while it is not known: then the name alone decides.
	Lineage string
	// Generation is its present generation, 0 if that is not known. Only a Keeper needs it.
	Generation uint64
}

// foreign reports whether a backup is known to be another cluster's.
func (id Identity) foreign(m Meta) bool {
	if id.Cluster == "" || m.Cluster == "" {
		return false
	}
	return m.Cluster != id.Cluster || m.Lineage != "" && id.Lineage != "" && m.Lineage != id.Lineage
}

// List returns everything in the store that is or began as a backup, of any cluster, oldest first. Unfinished and
// damaged backups have a Problem, and so has the newest backup of the cluster if the store does not list it. List reads
// no data. An error means that the store could not be read, never that it has no backups.
func List(ctx context.Context, store Store, id Identity) ([]Backup, error) {
	c, err := scan(ctx, store, "")
	if err != nil {
		return nil, err
	}
	backups, err := readAll(ctx, store, id, c.entries, c.clock(time.Now()))
	if err == nil {
		backups, err = withNewest(ctx, store, id, backups)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(backups, func(a, b Backup) int { return byTime(a.Meta, b.Meta) })
	return backups, nil
}

// Latest returns the newest good backup of a cluster, see [Newest], and the backups that it passed over, see [Skipped].
// If there is none, the error is ErrNotFound and says what the store holds instead.
func Latest(ctx context.Context, store Store, id Identity) (newest Backup, skipped []Backup, err error) {
	backups, err := List(ctx, store, id)
	if err != nil {
		return Backup{}, nil, err
	}
	return LatestOf(backups, id.Cluster, time.Now())
}

// LatestOf is Latest for the backups that [List] returned.
func LatestOf(backups []Backup, cluster string, now time.Time) (newest Backup, skipped []Backup, err error) {
	skipped = Skipped(backups, now)
	newest, ok := Newest(backups, now)
	if ok {
		return newest, skipped, nil
	}
	foreign := 0
	for _, b := range backups {
		if b.Foreign {
			foreign++
		}
	}
	return Backup{}, skipped, fmt.Errorf("no backup of cluster %s among the %d in the store: %d are another cluster's, "+
		"%d failed a verify or a drill, %d are incomplete or damaged (see `holdfast snapshot list`): %w",
		cluster, len(backups), foreign, len(skipped), len(backups)-foreign-len(skipped), ErrNotFound)
}

// readMeta returns the sidecar of a backup, or what etcd-manager says of a legacy backup. The error is ErrNotFound if
// there is no such backup.
func readMeta(ctx context.Context, store Store, name string) (Meta, error) {
	if err := checkBackupName(name); err != nil {
		return Meta{}, err
	}
	text, err := readSmall(ctx, store, object(name, metaObject))
	switch {
	case err == nil:
		return sidecarOf(name, text)
	case !errors.Is(err, ErrNotFound):
		return Meta{}, fmt.Errorf("read sidecar of backup %s: %w", name, err)
	}
	b, err := find(ctx, store, Identity{}, name)
	if err != nil {
		return Meta{}, err
	}
	if b.Problem != "" {
		return Meta{}, problemf("read backup %s: %s", name, b.Problem)
	}
	return b.Meta, nil
}
