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
	// Meta is the sidecar. Where that is missing or unreadable, only Name, Created, Cluster and Stored.Size are set,
	// as far as the store tells them.
	Meta
	// Problem says why this is no backup one can rely on, "" if nothing speaks against it. That nothing does is no
	// proof either: Verify is.
	Problem string `json:"problem,omitempty"`
}

// List returns all backups of a cluster that the store holds, oldest first, unfinished and damaged ones with their
// Problem. An error means that the store could not be read, never that there are none.
func List(ctx context.Context, store Store, cluster string) ([]Backup, error) {
	found, err := scan(ctx, store, cluster)
	if err != nil {
		return nil, err
	}
	backups := make([]Backup, 0, len(found))
	for _, e := range found {
		b, err := e.read(ctx, store)
		if err != nil {
			return nil, err
		}
		backups = append(backups, b)
	}
	return backups, nil
}

// Delete removes a backup, its sidecar first: a deletion that is cut short leaves an unfinished backup, never one that
// seems good. It is ErrNotFound if there is no such backup.
func Delete(ctx context.Context, store Store, cluster, name string) error {
	if err := checkBackup(cluster, name); err != nil {
		return err
	}
	found, err := scan(ctx, store, cluster)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(found, func(e entry) bool { return e.name == name }) {
		return fmt.Errorf("delete backup %s of cluster %s: %w", name, cluster, ErrNotFound)
	}
	return remove(ctx, store, cluster, name)
}

// remove deletes the objects of a backup in the order that keeps it from looking finished.
func remove(ctx context.Context, store Store, cluster, name string) error {
	for _, file := range []string{metaObject, dataObject, beginObject} {
		if err := store.Delete(ctx, object(cluster, name, file)); err != nil {
			return fmt.Errorf("delete backup %s: %w", name, err)
		}
	}
	return nil
}

// newest returns the newest good backup made until now, with an empty Name if there is none. One from the future, made
// by a node whose clock is ahead, must not hold up the schedule of those whose clock is right.
func newest(ctx context.Context, store Store, cluster string, now time.Time) (Meta, error) {
	found, err := scan(ctx, store, cluster)
	if err != nil {
		return Meta{}, err
	}
	for _, e := range slices.Backward(found) {
		if created, err := parseName(e.name); err != nil || created.After(now) {
			continue
		}
		b, err := e.read(ctx, store)
		if err != nil {
			return Meta{}, err
		}
		if b.Problem == "" {
			return b.Meta, nil
		}
	}
	return Meta{}, nil
}

// readMeta returns the sidecar of a backup, ErrNotFound if there is none.
func readMeta(ctx context.Context, store Store, cluster, name string) (Meta, error) {
	if err := checkBackup(cluster, name); err != nil {
		return Meta{}, err
	}
	b, err := readSmall(ctx, store, object(cluster, name, metaObject))
	if err != nil {
		return Meta{}, fmt.Errorf("read sidecar of backup %s: %w", name, err)
	}
	m, err := decodeMeta(b)
	if err != nil {
		return Meta{}, &badMeta{fmt.Errorf("read sidecar of backup %s: %w", name, err)}
	}
	if m.Name != name || m.Cluster != cluster {
		return Meta{}, &badMeta{fmt.Errorf("read sidecar of backup %s: it is that of %s/%s", name, m.Cluster, m.Name)}
	}
	return m, nil
}

// badMeta is the error of a sidecar that was read and is no good, which says nothing against the store.
type badMeta struct{ error }

// checkBackup returns an error unless cluster and name can be those of a backup.
func checkBackup(cluster, name string) error {
	if err := checkCluster(cluster); err != nil {
		return err
	}
	_, err := parseName(name)
	return err
}

// entry is what the store holds of one backup.
type entry struct {
	cluster, name string
	files         map[string]Object // by the last part of their name
}

// scan finds everything in the store that is or began as a backup of the cluster, ordered by name.
func scan(ctx context.Context, store Store, cluster string) ([]entry, error) {
	if err := checkCluster(cluster); err != nil {
		return nil, err
	}
	objects, err := store.List(ctx, cluster+"/")
	if err != nil {
		return nil, fmt.Errorf("list backups of cluster %s: %w", cluster, err)
	}
	var found []entry
	for _, o := range objects {
		name, file, _ := strings.Cut(strings.TrimPrefix(o.Name, cluster+"/"), "/")
		if file != beginObject && file != dataObject && file != metaObject {
			continue
		}
		if len(found) == 0 || found[len(found)-1].name != name {
			found = append(found, entry{cluster: cluster, name: name, files: map[string]Object{}})
		}
		found[len(found)-1].files[file] = o
	}
	return found, nil
}

// read tells what there is to tell of a backup. Its error is the store's; what is wrong with the backup is a Problem.
func (e entry) read(ctx context.Context, store Store) (Backup, error) {
	b := Backup{Meta: Meta{Name: e.name, Cluster: e.cluster}}
	b.Created, _ = parseName(e.name)
	data, hasData := e.files[dataObject]
	b.Stored.Size = data.Size
	if _, ok := e.files[metaObject]; !ok {
		b.Problem = e.unfinished()
		return b, nil
	}
	if _, err := parseName(e.name); err != nil {
		b.Problem = err.Error()
		return b, nil
	}
	m, err := readMeta(ctx, store, e.cluster, e.name)
	if bad := (*badMeta)(nil); errors.As(err, &bad) {
		b.Problem = err.Error()
		return b, nil
	}
	if errors.Is(err, ErrNotFound) { // deleted while we look
		b.Problem = e.unfinished()
		return b, nil
	}
	if err != nil {
		return Backup{}, err
	}
	b.Meta = m
	switch {
	case !hasData:
		b.Problem = "the data is missing"
	case data.Size != m.Stored.Size:
		b.Problem = fmt.Sprintf("the data has %d bytes, want %d", data.Size, m.Stored.Size)
	}
	return b, nil
}

// unfinished describes a backup without a sidecar. A save may be under way, so the age is part of it.
func (e entry) unfinished() string {
	var last time.Time
	for _, o := range e.files {
		if o.Modified.After(last) {
			last = o.Modified
		}
	}
	return fmt.Sprintf("incomplete: no sidecar, last written %s ago", time.Since(last).Round(time.Second))
}
