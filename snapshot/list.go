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
	// Meta is the sidecar. Where that is missing or unreadable, only Name, Created, Stored.Size and what can be learned
	// of Cluster, Lineage and Node are set. Of a legacy backup EtcdVersion and Members are known, too; Content is zero
	// and Verified is never set.
	Meta
	// Problem says why this is no backup one can rely on, "" if nothing speaks against it. That nothing does is no
	// proof either: Verify is.
	Problem string `json:"problem,omitempty"`
	// Unfinished says that it was begun only, as Problem tells: it may be being saved, or was left behind by a save or
	// a copy that failed.
	Unfinished bool `json:"unfinished,omitempty"`
	// Foreign says that the backup is another cluster's. It is never pruned, and restored only by force.
	Foreign bool `json:"foreign,omitempty"`
	// Legacy says that etcd-manager alone wrote it: there is no sidecar, and whose it is is not recorded.
	Legacy bool `json:"legacy,omitempty"`
	// Unmarked says that etcd-manager does not see it, though its format is etcd-manager's: the save or a deletion was
	// cut short beside the last object. To us it is as good as any.
	Unmarked bool `json:"unmarked,omitempty"`
	// Pinned says that it is never pruned, and PinReason why, in its owner's words.
	Pinned    bool   `json:"pinned,omitempty"`
	PinReason string `json:"pinReason,omitempty"`
	// Proofs are the last verification and the last drill since it was saved, the weakest kind first.
	Proofs []Proof `json:"proofs,omitempty"`
	// Failed is the one of them that stands against the backup, nil if none does: then it is not to be relied on,
	// though it may be tried. A later good proof of the same or of a stronger kind ends that.
	Failed *Proof `json:"failed,omitempty"`
}

// own says that the backup is a good one and ours, to be counted on and to be pruned.
func (b Backup) own() bool { return b.Good() && !b.Foreign && !b.Legacy }

// Good says that the backup was read back when it was saved, and that nothing is known against it.
func (b Backup) Good() bool { return b.Problem == "" && b.Failed == nil && !b.Verified.IsZero() }

// Identity says whose backups are ours. The zero Identity is nobody's, and then no backup is foreign.
type Identity struct {
	// Cluster is the cluster's name.
	Cluster string
	// Lineage is the id of its founding, "" while that is not known: then the name alone decides.
	Lineage string
}

// foreign says that a backup is known to be another cluster's.
func (id Identity) foreign(m Meta) bool {
	if id.Cluster == "" || m.Cluster == "" {
		return false
	}
	return m.Cluster != id.Cluster || m.Lineage != "" && id.Lineage != "" && m.Lineage != id.Lineage
}

// List returns everything in the store that is or began as a backup, oldest first: whose ever it is, and unfinished and
// damaged ones with their Problem. It reads no data. An error means that the store could not be read, never that there
// are none.
func List(ctx context.Context, store Store, id Identity) ([]Backup, error) {
	c, err := scan(ctx, store, "")
	if err != nil {
		return nil, err
	}
	backups, err := readAll(ctx, store, id, c.entries, c.clock(time.Now()))
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(backups, func(a, b Backup) int { return byTime(a.Meta, b.Meta) })
	return backups, nil
}

// Latest returns the newest good backup of a cluster, as [Newest] says, and what it passed over, as [Skipped] does.
// When there is none, the error is ErrNotFound and says what there is instead.
func Latest(ctx context.Context, store Store, id Identity) (newest Backup, skipped []Backup, err error) {
	backups, err := List(ctx, store, id)
	if err != nil {
		return Backup{}, nil, err
	}
	now := time.Now()
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
		id.Cluster, len(backups), foreign, len(skipped), len(backups)-foreign-len(skipped), ErrNotFound)
}

// readMeta returns the sidecar of a backup, of a legacy one what etcd-manager tells. It is ErrNotFound if there is no
// such backup.
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
