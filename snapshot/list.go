package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// Unfinished says that it was begun only, as Problem tells: it may be being saved, or was left behind by a save or a
	// copy that failed.
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
}

// own says that the backup is a good one and ours, to be counted on and to be pruned.
func (b Backup) own() bool { return b.Problem == "" && !b.Foreign && !b.Legacy && !b.Verified.IsZero() }

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
	slices.SortStableFunc(backups, byTime)
	return backups, nil
}

// byTime orders backups from the oldest to the newest, those of one time by name.
func byTime(a, b Backup) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// disagreement is how far the clocks of nodes may be apart. A backup further in the future was made by a wrong one.
const disagreement = time.Hour

// Latest returns the newest good backup of a cluster, by the time at which it was made. One that etcd-manager made
// counts, too. One from the future, made while a clock was wrong, counts only if there is no other. When there is none,
// the error is ErrNotFound and says what there is instead.
func Latest(ctx context.Context, store Store, id Identity) (Backup, error) {
	backups, err := List(ctx, store, id)
	if err != nil {
		return Backup{}, err
	}
	horizon := time.Now().Add(disagreement)
	var latest, future *Backup
	foreign, bad := 0, 0
	for i := range backups {
		switch b := &backups[i]; {
		case b.Foreign:
			foreign++
		case b.Problem != "":
			bad++
		case b.Created.After(horizon):
			future = b
		case latest == nil || latest.Legacy || !b.Legacy || b.Created.After(latest.Created):
			latest = b
		}
	}
	if latest == nil {
		latest = future
	}
	if latest == nil {
		return Backup{}, fmt.Errorf("no backup of cluster %s among the %d in the store: %d are another cluster's, %d incomplete or damaged (see `holdfast snapshot list`): %w",
			id.Cluster, len(backups), foreign, bad, ErrNotFound)
	}
	return *latest, nil
}

// newest returns the sidecar of the newest good backup of our own made until now, with an empty Name if there is none.
// One from the future, made by a node whose clock is ahead, must not hold up the schedule of those whose clock is right;
// a legacy one was not made by the schedule.
func newest(ctx context.Context, store Store, id Identity, now time.Time) (Meta, error) {
	c, err := scan(ctx, store, "")
	if err != nil {
		return Meta{}, err
	}
	entries := slices.DeleteFunc(c.entries, func(e entry) bool {
		created, err := parseName(e.name)
		return err != nil || created.After(now) || !e.has(metaObject)
	})
	slices.Reverse(entries)
	// The first few tell nearly always, so the others are not asked.
	for some := range slices.Chunk(entries, readers) {
		backups, err := readAll(ctx, store, id, some, c.clock(now))
		if err != nil {
			return Meta{}, err
		}
		if i := slices.IndexFunc(backups, Backup.own); i >= 0 {
			return backups[i].Meta, nil
		}
	}
	return Meta{}, nil
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
