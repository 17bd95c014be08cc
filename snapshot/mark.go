package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// newestObject is the name of the object with the sidecar of the newest backup that a Keeper has saved. A listing may
// be outdated, and then lack the newest backups as if they had never been made. This object is asked for by its name.
func newestObject(cluster string) string { return holdfastDir + "/" + cluster + "/newest.json" }

// readNewest returns the sidecar of the newest backup that a Keeper has saved, or a zero Meta if none is known or it is
// another cluster's. The error is a problem if the object cannot be decoded, and otherwise the store's.
func readNewest(ctx context.Context, store Store, id Identity) (Meta, error) {
	name := newestObject(id.Cluster)
	text, err := readSmall(ctx, store, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return Meta{}, nil
	case errors.As(err, new(tooLarge)):
		return Meta{}, &problem{err}
	case err != nil:
		return Meta{}, fmt.Errorf("read %s: %w", name, err)
	}
	m, err := decodeMeta(text)
	if err != nil {
		return Meta{}, problemf("read %s: %w", name, err)
	}
	if id.foreign(m) {
		return Meta{}, nil
	}
	return m, nil
}

// markNewest records a backup that was just saved as the newest, unless a newer one is recorded. A backup without a
// generation cannot be ordered.
func markNewest(ctx context.Context, store Store, id Identity, m Meta) error {
	if m.Generation == 0 {
		return nil
	}
	known, err := readNewest(ctx, store, id)
	if ofStore(err) != nil || known.Name != "" && m.compare(known) <= 0 {
		return err
	}
	text, err := encodeMeta(m)
	if err != nil {
		return err
	}
	return store.Put(ctx, newestObject(id.Cluster), bytes.NewReader(text))
}

// withNewest completes a listing by the newest backup, if the store does not list it: as a backup that cannot be
// relied on, and tells what it holds.
func withNewest(ctx context.Context, store Store, id Identity, backups []Backup) ([]Backup, error) {
	if id.Cluster == "" {
		return backups, nil
	}
	m, err := readNewest(ctx, store, id)
	if err != nil && ofStore(err) == nil {
		b := Backup{Meta: Meta{Name: newestObject(id.Cluster), Cluster: id.Cluster}}
		b.Problem = fmt.Sprintf("which backup is the newest is not known until another one is saved: %v", err)
		return append(backups, b), nil
	}
	if err != nil || m.Name == "" || slices.ContainsFunc(backups, func(b Backup) bool {
		return !b.Foreign && (b.Name == m.Name && !b.Unfinished || b.ordered() && b.compare(m) > 0)
	}) {
		return backups, err
	}
	backups = slices.DeleteFunc(backups, func(b Backup) bool { return b.Name == m.Name }) // without its sidecar
	return append(backups, Backup{Meta: m, Problem: fmt.Sprintf("it is the newest, and the store does not list it: look "+
		"for a cache in front of the store, or a damaged index; if it was deleted, delete %s as well, or save another one",
		newestObject(id.Cluster))}), nil
}

// unmarkNewest forgets that a backup is the newest, because it was deleted on purpose.
func unmarkNewest(ctx context.Context, store Store, b Backup) error {
	if b.Cluster == "" {
		return nil
	}
	m, err := readNewest(ctx, store, Identity{Cluster: b.Cluster})
	if ofStore(err) == nil && m.Name == b.Name {
		err = store.Delete(ctx, newestObject(b.Cluster))
	}
	return ofStore(err)
}
