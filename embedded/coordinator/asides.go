package coordinator

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

const (
	asideAge   = time.Minute // how often the data that was set aside is listed
	reclaimAge = time.Hour   // the shortest time between two deletions
)

// asides manages the data that was set aside.
type asides struct {
	env

	mu     sync.Mutex
	aside  []plan.Aside
	served time.Time // since when this member has served without a break, zero if it does not serve
}

// serves notes whether the member serves. It returns the data that was set aside, and how long the member has served.
func (a *asides) serves(state string) (aside []plan.Aside, served time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lasts(&a.served, state == "leader" || state == "follower", time.Now())
	if !a.served.IsZero() {
		served = time.Since(a.served)
	}
	return a.aside, served
}

// collect lists what was set aside on the volume, until ctx ends. It deletes data after the member has served for
// ReclaimAfter. The plan does not decide this, because only free space depends on it.
func (a *asides) collect(ctx context.Context, h *holding) {
	pause := asideAge
	if after := a.cfg.ReclaimAfter; after > 0 {
		pause = min(pause, max(after/2, tick))
	}
	var last time.Time
	for next := tick; every(ctx, next); { // soon after the start, and after a volume was claimed
		a.mu.Lock()
		served := a.served
		a.mu.Unlock()
		held := h.now()
		if !held.usable() {
			next = tick
			continue
		}
		next = pause
		after, now := a.cfg.ReclaimAfter, time.Now()
		if after > 0 && !served.IsZero() && now.Sub(served) >= after && now.Sub(last) >= min(after, reclaimAge) {
			last = now
			a.reclaim(held.id.Path, now.Add(-after))
		}
		aside, err := a.world.Etcd.Aside(held.id.Path)
		if err != nil {
			a.lg.Warn("could not list the data that was set aside", zap.Error(err))
			continue
		}
		a.mu.Lock()
		a.aside = aside
		a.mu.Unlock()
	}
}

func (a *asides) reclaim(path string, before time.Time) {
	gone, err := a.world.Etcd.Reclaim(path, before, reclaimable)
	for _, g := range gone {
		a.lg.Warn("deleted data that was set aside", zap.String("path", g.Path),
			zap.String("since", g.Since.UTC().Format(time.RFC3339)), zap.Int64("bytes", g.Bytes))
	}
	if err != nil {
		a.lg.Error("could not delete data that was set aside", zap.Error(err))
	}
}

// SetAside returns what was set aside on this node's volume, and when it will be deleted. after is
// restore.reclaim-after.
func (s Situation) SetAside(after time.Duration) []plan.Aside {
	all, now := slices.Clone(s.Aside), time.Now()
	for i, a := range all {
		if after > 0 && slices.Contains(reclaimable, a.Reason) && s.Served > 0 {
			// As in collect: a clock that is set changes the data's age, and not how long the member has served.
			all[i].Reclaimed = new(now.Add(max(0, after-s.Served, after-now.Sub(a.Since))))
		}
	}
	return all
}
