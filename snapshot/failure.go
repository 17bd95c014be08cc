package snapshot

import (
	"context"
	"errors"
)

// Reasons of a failed save: the label of holdfast_snapshot_failures_total, and what a change of is logged.
const (
	reasonSource      = "source"      // the member gave no transaction
	reasonDatabase    = "database"    // the database could not be read, or is damaged
	reasonStore       = "store"       // the store is not there, or refused
	reasonMismatch    = "mismatch"    // what was read back is not what was sent
	reasonScratch     = "scratch"     // there was no room to verify
	reasonInterrupted = "interrupted" // the caller gave up: no failure of the backup
)

var failureReasons = []string{reasonSource, reasonDatabase, reasonStore, reasonMismatch, reasonScratch}

// failure is an error with the reason for it.
type failure struct {
	reason string
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(reason string, err error) error { return &failure{reason, err} }

// reasonOf returns the reason for err, as seen by a caller with this ctx: when that has ended, nothing else is known.
func reasonOf(ctx context.Context, err error) string {
	if f := (*failure)(nil); ctx.Err() == nil && errors.As(err, &f) {
		return f.reason
	}
	return reasonInterrupted
}
