package snapshot

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// The reasons of a failed save, the label of holdfast_snapshot_failures_total. A change of the reason is logged.
const (
	reasonSource      = "source"      // the member provided no transaction
	reasonDatabase    = "database"    // the database could not be read, or is damaged
	reasonSpool       = "spool"       // the spool is missing, or refused
	reasonFull        = "full"        // no room in the spool or the store
	reasonStore       = "store"       // the store is missing, or refused
	reasonMismatch    = "mismatch"    // what was read back is not what was written
	reasonScratch     = "scratch"     // no room to verify
	reasonInterrupted = "interrupted" // the caller gave up: no failure of the backup
)

var failureReasons = []string{reasonSource, reasonDatabase, reasonSpool, reasonFull, reasonStore, reasonMismatch,
	reasonScratch}

// failure is an error with its reason.
type failure struct {
	reason string
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(reason string, err error) error { return &failure{reason, err} }

// errNewer says that this program is too old to read a backup.
var errNewer = errors.New("a newer holdfast wrote it")

// Damaged reports whether an error of Verify, Fetch or Copy is about the backup itself: what is stored is not what was
// saved, is incomplete, or was never finished. Other errors say nothing about the backup: it could not be read, there
// was no room, a newer program wrote it, or no identity decrypts it.
func Damaged(err error) bool {
	if p, ok := errors.AsType[*problem](err); ok {
		return !errors.Is(p.error, errNewer)
	}
	f, ok := errors.AsType[*failure](err)
	return ok && f.reason == reasonMismatch && !errors.Is(err, errNoIdentity)
}

// reasonOf returns the reason of err for a caller with this ctx. If ctx has ended, the reason is reasonInterrupted.
func reasonOf(ctx context.Context, err error) string {
	if f, ok := errors.AsType[*failure](err); ok && ctx.Err() == nil {
		return f.reason
	}
	return reasonInterrupted
}

// blame gives an error of a store the reason reasonSpool or reasonStore, unless the error has a more specific one. A
// full disk is a reason of its own.
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
