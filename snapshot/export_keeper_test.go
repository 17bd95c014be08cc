package snapshot

import (
	"context"
	"time"
)

// Due tells when a keeper that knows a backup made at created makes the next attempt.
func Due(cfg Config, created, now time.Time) time.Time {
	s := state{known: true, holds: holdings{made: Meta{Name: formatName(created), Created: created}}}
	return s.due(cfg.schedule(), now)
}

// RetryAt tells when a keeper attempts again after a number of failures in a row, the last one begun at t.
func RetryAt(cfg Config, t time.Time, failures int) time.Time {
	return cfg.schedule().retryAt(t, failures)
}

// CheckRoom is what a keeper asks of its spool.
var CheckRoom = checkRoom

// Watch returns a listing that remembers, as a keeper does.
func Watch(store Store, id Identity) func(ctx context.Context) ([]Backup, error) {
	m := memory{}
	return func(ctx context.Context) ([]Backup, error) { return m.list(ctx, store, id) }
}
