package snapshot

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
)

// pruneEvery is the least time between two prunings: each reads all sidecars.
const pruneEvery = 10 * time.Minute

// prune removes from the main store what need not be kept, unless it did so a moment ago. Its failure is no failure of
// the backup that was just made.
func (k *Keeper) prune(ctx context.Context) {
	now := time.Now()
	k.mu.Lock()
	last, keep := k.pruning.Last, k.cfg.Keep
	k.mu.Unlock()
	if !last.IsZero() && now.Sub(last) < pruneEvery { // by the steady clock
		return
	}
	pruned, err := Prune(ctx, k.stores.Main, k.source.Identity(), keep, now, false)
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
	k.pruned(st, removed)
}

// pruned records and shows the outcome of a pruning, and logs what is new.
func (k *Keeper) pruned(st PruneStatus, removed int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.pruning
	st.Removed = before.Removed + removed
	k.pruning = st
	k.series.pruned.Add(float64(removed))
	if st.Error != "" || len(st.Kept) > 0 {
		k.series.pruneFailures.Inc()
	}
	switch {
	case st.Error != "" && before.Error == "":
		k.lg.Error("backups were not pruned", zap.String("error", st.Error))
	case len(st.Kept) != len(before.Kept):
		k.lg.Warn("the store keeps backups that are to be pruned", zap.Any("kept", st.Kept))
	case removed > 0:
		k.lg.Info("pruned backups", zap.Int("removed", removed))
	}
}
