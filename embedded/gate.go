package embedded

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// gateWidth is how many snapshots may be open at once, ours and clients' together.
const gateWidth = 64

// gate lets many snapshots in, or one defragmentation, or one shutdown. Who waits for all
// of it holds back those who come later, so a stream of snapshots cannot starve a stop.
type gate struct{ sem *semaphore.Weighted }

func newGate() gate { return gate{semaphore.NewWeighted(gateWidth)} }

func (g gate) acquire(ctx context.Context) error    { return g.sem.Acquire(ctx, 1) }
func (g gate) release()                             { g.sem.Release(1) }
func (g gate) acquireAll(ctx context.Context) error { return g.sem.Acquire(ctx, gateWidth) }
func (g gate) tryAll() bool                         { return g.sem.TryAcquire(gateWidth) }
func (g gate) releaseAll()                          { g.sem.Release(gateWidth) }
