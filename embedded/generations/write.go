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

// beside says that an operator had a cluster founded beside one of etcd-manager's.
type beside struct {
	Since time.Time `json:"since"`
	What  string    `json:"what"` // the object that showed etcd-manager's cluster
}

// Put stores a record. The error wraps [plan.ErrConflict] if there is another record of its generation.
func (r *Records) Put(ctx context.Context, record plan.Record) error {
	there, err := place(ctx, &r.objects, r.recordName(record.Generation), record, r.readRecord)
	if err == nil && there.value.ID != record.ID {
		err = fmt.Errorf("%w: %s", plan.ErrConflict, there.value.Token())
	}
	return err
}

// Propose stores a proposal. The error wraps [plan.ErrConflict] if there is another proposal with this number.
func (r *Records) Propose(ctx context.Context, p plan.Restore) error {
	there, err := place(ctx, &r.objects, r.restoreName(p.Generation, p.Attempt), p, r.readRestore)
	if err == nil && there.value.ID != p.ID {
		err = fmt.Errorf("%w: the %s, proposed by %s", plan.ErrConflict, there.value.Title(), there.value.By)
	}
	return err
}

// Conclude makes a record the outcome of its proposal, which is the point of no return. The error wraps
// [plan.ErrConflict] if the proposal was aborted before.
func (r *Records) Conclude(ctx context.Context, record plan.Record) error {
	p := *record.Restore
	done, err := r.end(ctx, p, outcome{Record: &record})
	if err != nil {
		return err
	}
	if done.Record == nil {
		return fmt.Errorf("%w: the %s was aborted: %s", plan.ErrConflict, p.Title(), done.Abort.Why)
	}
	err = r.Put(ctx, *done.Record)
	if err == nil && p.Command != "" {
		_ = r.Dismiss(ctx, p.Command) // every look at the store tries it again
	}
	return err
}

// Abort ends an open proposal. If it was concluded before, Abort aborts nothing and returns its record.
func (r *Records) Abort(ctx context.Context, p plan.Restore, a plan.Abort) (*plan.Record, error) {
	a.ID = p.ID
	done, err := r.end(ctx, p, outcome{Abort: &a})
	return done.Record, err
}

// end stores the outcome of a proposal and returns the outcome that holds.
func (r *Records) end(ctx context.Context, p plan.Restore, o outcome) (outcome, error) {
	name := r.outcomeName(p.Generation, p.Attempt)
	was, err := place(ctx, &r.objects, name, o, r.readOutcome)
	if err == nil && was.unproven != nil {
		return outcome{}, fmt.Errorf("%w: %s, which is there already: %w", coordinator.ErrUnread, name, was.unproven)
	}
	if a := was.value.Abort; err == nil && r.Signer != nil && a != nil && a.ID != p.ID {
		return outcome{}, fmt.Errorf("%w: %s is the abort of another proposal, %s", coordinator.ErrUnread, name, a.ID)
	}
	return was.value, err
}

// MoveAside gives the cluster up. Its records are kept under other names. The newest is moved last, so that after a
// crash in between the store still knows the cluster. A cluster of etcd-manager's is not touched, and from then on a
// new one may be founded beside it.
func (r *Records) MoveAside(ctx context.Context, record *plan.Record) error {
	l, err := r.list(ctx)
	if err != nil {
		return err
	}
	managed, err := snapshot.Managed(ctx, r.Store)
	if err != nil {
		return err
	}
	if managed != "" && !l.beside {
		err := r.put(ctx, r.besideName(), beside{time.Now().UTC(), managed})
		if err != nil && !errors.Is(err, snapshot.ErrExists) {
			return err
		}
	}
	if record == nil {
		return nil
	}
	return r.aside(ctx, l, record)
}

// aside keeps a cluster's records under other names.
func (r *Records) aside(ctx context.Context, l listing, record *plan.Record) error {
	for _, o := range l.records {
		if o.generation > record.Generation {
			return fmt.Errorf("%w: the store knows generation %d by now", plan.ErrConflict, o.generation)
		}
	}
	for _, o := range l.records {
		old, err := r.readRecord(ctx, o.Object)
		if err != nil {
			return err
		}
		if old.value.Lineage() != record.Lineage() {
			return fmt.Errorf("%w: %s", plan.ErrConflict, old.value.Token())
		}
		aside := fmt.Sprintf("%saside-%06d-%s.json", r.prefix(), old.value.Generation, old.value.ID)
		if err := r.put(ctx, aside, old.value); err != nil && !errors.Is(err, snapshot.ErrExists) {
			return err
		}
		if err := r.Store.Delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

const returnedPrefix = "returned-"

// returned says that the cluster goes back, with its last member, to the program it came from.
type returned struct {
	ID    string    `json:"id"` // of its record
	By    string    `json:"by"`
	Since time.Time `json:"since"`
}

// Return records that the cluster goes back as a whole. Then whatever cluster the other program makes of it may
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
	if record == nil {
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
