package snapshot

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// Reasons of a failed save: the label of holdfast_snapshot_failures_total; a change of the reason is logged.
const (
	reasonSource      = "source"      // the member gave no transaction
	reasonDatabase    = "database"    // the database could not be read, or is damaged
	reasonSpool       = "spool"       // the spool is not there, or refused
	reasonFull        = "full"        // there is no room in the spool, or in the store
	reasonStore       = "store"       // the store is not there, or refused
	reasonMismatch    = "mismatch"    // what was read back is not what was sent
	reasonScratch     = "scratch"     // there was no room to verify
	reasonInterrupted = "interrupted" // the caller gave up: no failure of the backup
)

var failureReasons = []string{reasonSource, reasonDatabase, reasonSpool, reasonFull, reasonStore, reasonMismatch,
	reasonScratch}

// failure is an error with the reason for it.
type failure struct {
	reason string
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(reason string, err error) error { return &failure{reason, err} }

// Damaged reports whether an error of Verify, Fetch or Copy is about the backup itself: what is stored is not what was
// saved, is incomplete, or was never finished. Other errors say that it could not be read, that there was no room, or
// that no identity decrypts it: they say nothing about the backup.
func Damaged(err error) bool {
	if _, ok := errors.AsType[*problem](err); ok {
		return true
	}
	f, ok := errors.AsType[*failure](err)
	return ok && f.reason == reasonMismatch && !errors.Is(err, errNoIdentity)
}

// reasonOf returns the reason for err, as seen by a caller with this ctx: when that has ended, nothing else is known.
func reasonOf(ctx context.Context, err error) string {
	if f, ok := errors.AsType[*failure](err); ok && ctx.Err() == nil {
		return f.reason
	}
	return reasonInterrupted
}

// blame gives an error of a store without a reason of its own, or with the general one, the reason of this store:
// reasonSpool or reasonStore. A disk without room is a reason by itself.
func blame(reason string, err error) error {
	switch f, own := errors.AsType[*failure](err); {
	case err == nil, own && f.reason != reasonStore:
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fail(reasonFull, fmt.Errorf("no room in the %s: free some, or give it more: %w", reason, err))
	case own && f.reason == reason:
		return err
	}
	return fail(reason, fmt.Errorf("%s: %w", reason, err))
}
