package generations

import (
	"context"
	"errors"
	"testing"

	"holdfast/embedded/coordinator"
	"holdfast/snapshot"
)

// A store that ignores conditions is detected, and does not count as unreachable. Nothing is read from it, and a
// finding shows it.
func TestStoreThatIgnoresConditions(t *testing.T) {
	r := New(careless{snapshot.NewDir(t.TempDir())}, "main", nil)
	if _, err := r.ID(t.Context()); !errors.Is(err, coordinator.ErrUnread) || !errors.Is(err, snapshot.ErrUnconditional) {
		t.Errorf("got %v", err)
	}
	if objects, err := r.Store.List(t.Context(), ""); err != nil || len(objects) > 0 {
		t.Errorf("it left %v, %v", objects, err)
	}
}

// careless overwrites existing objects.
type careless struct{ snapshot.Store }

func (s careless) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if err := s.Delete(ctx, name); err != nil {
		return err
	}
	return s.Store.PutIfAbsent(ctx, name, data)
}

// A store that allows no deletions can arbitrate all the same. Only one probe stays there, however often it is asked.
func TestStoreThatDeletesNothing(t *testing.T) {
	r := New(keepsAll{snapshot.NewDir(t.TempDir())}, "main", nil)
	for range 3 {
		if _, err := r.ID(t.Context()); err != nil {
			t.Errorf("got %v", err)
		}
	}
	if objects, err := r.Store.List(t.Context(), "holdfast-probe-"); err != nil || len(objects) != 1 {
		t.Errorf("probes: got %v, %v", objects, err)
	}
}

// keepsAll refuses deletions, as a bucket does whose policy denies s3:DeleteObject.
type keepsAll struct{ snapshot.Store }

func (keepsAll) Delete(context.Context, string) error { return errors.New("AccessDenied") }
