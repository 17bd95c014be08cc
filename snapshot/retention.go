package snapshot

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// pruneEvery is the least time between two prunings, since each reads all sidecars.
const pruneEvery = 10 * time.Minute

// pruner prunes the main store. Its lock may be taken while the Keeper's is held, never the other way round.
type pruner struct {
	store  Store
	series pruneSeries
	lg     *zap.Logger

	mu     sync.Mutex
	status PruneStatus
}

// account returns the status of the pruner.
func (p *pruner) account() PruneStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// prune prunes the main store, unless it did so less than pruneEvery ago. A failure does not affect the backup that was
// just made.
func (p *pruner) prune(ctx context.Context, id Identity, keep Keep) {
	now := time.Now()
	if last := p.account().Last; !last.IsZero() && now.Sub(last) < pruneEvery { // by the monotonic clock
		return
	}
	pruned, err := Prune(ctx, p.store, id, keep, now, false)
	if ctx.Err() != nil {
		return
	}
	st := PruneStatus{Last: now, Kept: pruned.Kept}
	if err != nil {
		st.Error = err.Error()
	}
	removed := 0
	for _, b := range slices.Concat(pruned.Expired, pruned.Orphans) {
		if _, kept := pruned.Kept[b.Name]; !kept {
			removed++
		}
	}
	p.pruned(st, removed)
}

// pruned records and shows the result of a pruning, and logs changes.
func (p *pruner) pruned(st PruneStatus, removed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.status
	p.status = st
	p.series.total.Add(float64(removed))
	if st.Error != "" || len(st.Kept) > 0 {
		p.series.failures.Inc()
	}
	switch {
	case st.Error != "" && before.Error == "":
		p.lg.Error("backups were not pruned", zap.String("error", st.Error))
	case len(st.Kept) != len(before.Kept):
		p.lg.Warn("the store keeps backups that are to be pruned", zap.Any("kept", st.Kept))
	case removed > 0:
		p.lg.Info("pruned backups", zap.Int("removed", removed))
	}
}
