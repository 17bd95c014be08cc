package snapshot

import (
	"context"
	"time"
)

// Due returns when a keeper that knows of a backup made at created makes the next attempt.
func Due(cfg Config, created, now time.Time) time.Time {
	s := state{known: true, told: Status{Holdings: Holdings{made: Meta{Name: formatName(created), Created: created}}}}
	return s.due(cfg.schedule(), Identity{}, now)
}

// RetryAt returns when a keeper tries again after a number of consecutive failures, the last one begun at t.
func RetryAt(cfg Config, t time.Time, failures int) time.Time {
	return cfg.schedule().retryAt(t, failures)
}

// CheckRoom is the check that a keeper makes of its spool.
var CheckRoom = checkRoom

// Watch returns a listing that remembers, as a keeper does.
func Watch(store Store, id Identity) func(ctx context.Context) ([]Backup, error) {
	m := memory{}
	return func(ctx context.Context) ([]Backup, error) { return m.list(ctx, store, id) }
}
