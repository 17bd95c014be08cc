package generations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

const returnedPrefix = "returned-"

// returned says that an adopted cluster goes back, with its last member, to the program it came from.
type returned struct {
	ID    string    `json:"id"` // of its record
	By    string    `json:"by"`
	Since time.Time `json:"since"`
}

// Return records that an adopted cluster goes back as a whole. Then whatever cluster the other program makes of it may
// be adopted here in its place. Until then, its record vetoes every founding.
func (r *Records) Return(ctx context.Context, record plan.Record, by string) error {
	err := r.put(ctx, r.returnedName(record.ID), returned{record.ID, by, time.Now().UTC().Truncate(time.Second)})
	if err != nil && !errors.Is(err, snapshot.ErrExists) {
		return fmt.Errorf("note in the store that %s was given back: %w", record.Token(), err)
	}
	return nil
}

// Keep undoes Return. It may be called without one.
func (r *Records) Keep(ctx context.Context, record plan.Record) error {
	if err := r.Store.Delete(ctx, r.returnedName(record.ID)); err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		return fmt.Errorf("note in the store that %s is not given back: %w", record.Token(), err)
	}
	return nil
}

// GivenBack reports whether the newest record, if there is one, is of a cluster that was given back.
func (r *Records) GivenBack(ctx context.Context, newest *plan.Record) (bool, error) {
	l, err := r.list(ctx)
	if err != nil {
		return false, err
	}
	return r.gaveBack(ctx, l, newest)
}

// gaveBack reports whether the newest record is of a cluster that was given back. A mark that is unsigned or damaged
// does not count.
func (r *Records) gaveBack(ctx context.Context, l listing, record *plan.Record) (bool, error) {
	if record == nil || record.Cause != plan.Adopted {
		return false, nil
	}
	name := r.returnedName(record.ID)
	i := slices.IndexFunc(l.returned, func(o snapshot.Object) bool { return o.Name == name })
	if i < 0 {
		return false, nil
	}
	got, err := readOrder(ctx, &r.objects, l.returned[i], func(mark *returned) error {
		return named(l.returned[i], r.returnedName(mark.ID))
	})
	if errors.Is(err, coordinator.ErrUnread) {
		return false, nil
	}
	return err == nil && got.unproven == nil, err
}

// Replace puts another cluster in the place of one that was given back, whose records are kept under other names.
func (r *Records) Replace(ctx context.Context, old, with plan.Record) error {
	l, err := r.list(ctx)
	if err != nil {
		return err
	}
	if s, _, err := r.state(ctx, l, false); err != nil || s.Record != nil && s.Record.ID == with.ID {
		return err // another node of that cluster was faster
	}
	if err := r.aside(ctx, l, &old); err != nil {
		return err
	}
	return r.Put(ctx, with)
}
