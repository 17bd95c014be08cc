package embedded

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// gateWidth is how many snapshots, ours and clients' together, may be open at once.
const gateWidth = 64

// gate admits either many snapshots, or one defragmentation, or one shutdown. A caller that waits for the whole gate
// goes before later callers, so a stream of snapshots cannot starve a stop.
type gate struct{ sem *semaphore.Weighted }

func newGate() gate { return gate{semaphore.NewWeighted(gateWidth)} }

func (g gate) acquire(ctx context.Context) error    { return g.sem.Acquire(ctx, 1) }
func (g gate) release()                             { g.sem.Release(1) }
func (g gate) acquireAll(ctx context.Context) error { return g.sem.Acquire(ctx, gateWidth) }
func (g gate) tryAll() bool                         { return g.sem.TryAcquire(gateWidth) }
func (g gate) releaseAll()                          { g.sem.Release(gateWidth) }
