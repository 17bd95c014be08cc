package coordinator

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// house is what is known of the data that was set aside. The coordinator's mu guards it.
type house struct {
	aside  []Aside
	served time.Time // since when this member has served without a break, zero if it does not
}

// serves notes whether the member serves. The caller holds the lock.
func (h *house) serves(state string) {
	switch {
	case state != "leader" && state != "follower":
		h.served = time.Time{}
	case h.served.IsZero():
		h.served = time.Now()
	}
}

// keepHouse looks what was set aside on the volume, and deletes what was there for as long as a member must have
// served since, until ctx ends. It is no decision of the plan's: nothing but room on the disk depends on it.
func (c *Coordinator) keepHouse(ctx context.Context) {
	every := asideAge
	if after := c.cfg.ReclaimAfter; after > 0 {
		every = min(every, max(after/2, tick))
	}
	t := time.NewTicker(every)
	defer t.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		c.mu.Lock()
		path, usable, served := c.path, c.volume != nil && !c.dead && c.volume.Mismatch() == "", c.house.served
		c.mu.Unlock()
		if !usable {
			continue
		}
		after, now := c.cfg.ReclaimAfter, time.Now()
		if after > 0 && !served.IsZero() && now.Sub(served) >= after && now.Sub(last) >= min(after, reclaimAge) {
			last = now
			c.reclaim(path, now.Add(-after))
		}
		aside, err := c.world.Etcd.Aside(path)
		if err != nil {
			c.lg.Warn("it could not be seen what was set aside", zap.Error(err))
			continue
		}
		c.mu.Lock()
		c.house.aside = aside
		c.mu.Unlock()
	}
}

func (c *Coordinator) reclaim(path string, before time.Time) {
	gone, err := c.world.Etcd.Reclaim(path, before)
	for _, a := range gone {
		c.lg.Warn("deleted data that was set aside", zap.String("path", a.Path), zap.String("since", a.Since.UTC().Format(time.RFC3339)), zap.Int64("bytes", a.Bytes))
	}
	if err != nil {
		c.lg.Error("data that was set aside could not be deleted", zap.Error(err))
	}
}
