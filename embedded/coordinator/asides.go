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
	asideAge   = time.Minute // how often it is looked what was set aside
	reclaimAge = time.Hour   // at most so often is something reclaimed
)

// asides looks after the data that was set aside.
type asides struct {
	env

	mu     sync.Mutex
	aside  []plan.Aside
	served time.Time // since when this member has served without a break, zero if it does not
}

// serves notes whether the member serves. It returns what was set aside, and since when the member has served.
func (a *asides) serves(state string) (aside []plan.Aside, served time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case state != "leader" && state != "follower":
		a.served = time.Time{}
	case a.served.IsZero():
		a.served = time.Now()
	}
	return a.aside, a.served
}

// collect looks what was set aside on the volume, and deletes what was there for as long as a member must have
// served since, until ctx ends. It is no decision of the plan's: nothing but room on the disk depends on it.
func (a *asides) collect(ctx context.Context, h *holding) {
	pause := asideAge
	if after := a.cfg.ReclaimAfter; after > 0 {
		pause = min(pause, max(after/2, tick))
	}
	var last time.Time
	for every(ctx, pause) {
		a.mu.Lock()
		served := a.served
		a.mu.Unlock()
		held := h.now()
		if !held.usable() {
			continue
		}
		after, now := a.cfg.ReclaimAfter, time.Now()
		if after > 0 && !served.IsZero() && now.Sub(served) >= after && now.Sub(last) >= min(after, reclaimAge) {
			last = now
			a.reclaim(held.id.Path, now.Add(-after))
		}
		aside, err := a.world.Etcd.Aside(held.id.Path)
		if err != nil {
			a.lg.Warn("cannot list what was set aside", zap.Error(err))
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
		a.lg.Error("data that was set aside could not be deleted", zap.Error(err))
	}
}

// SetAside tells what was set aside on this node's volume, and when it is deleted. after is restore.reclaim-after.
func (s Situation) SetAside(after time.Duration) []plan.Aside {
	all := slices.Clone(s.Aside)
	for i, a := range all {
		if after > 0 && slices.Contains(reclaimable, a.Reason) && !s.Served.IsZero() {
			at := a.Since
			if s.Served.After(at) {
				at = s.Served
			}
			at = at.Add(after)
			all[i].Reclaimed = &at
		}
	}
	return all
}
