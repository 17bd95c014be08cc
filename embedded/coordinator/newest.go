package coordinator

import (
	"context"
	"time"

	"holdfast/embedded/plan"
)

// newestAge is how long what is known of the newest backup is good for: without a leader hardly another is made.
// newestTime is how long the listing may take, which reads a small object for each backup.
const (
	newestAge  = time.Minute
	newestTime = 30 * time.Second
)

// watchNewest asks the store for the newest backup while a member here has been without a leader for a while, until ctx
// ends. A recovery must not end before that; nothing else asks, so that a cluster with a leader costs no requests. A store
// that hangs is not asked again before it has answered, and nobody waits for it.
func (c *Coordinator) watchNewest(ctx context.Context) {
	type answer struct {
		newest plan.BackupStand
		led    time.Time // when there was a leader last, as it was asked
	}
	answers := make(chan answer, 1)
	asking := false
	var next time.Time
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		lineage, led, wanted := c.wantsNewest()
		switch {
		case !wanted:
			next = time.Time{}
			c.learnNewest(nil)
		case !asking && !time.Now().Before(next):
			asking = true
			go func() { answers <- answer{c.askNewest(ctx, lineage), led} }()
		}
		select {
		case <-ctx.Done():
			return
		case a := <-answers:
			asking = false
			if _, led, wanted := c.wantsNewest(); !wanted || !led.Equal(a.led) {
				continue // a leader has come and gone meanwhile, and may have made another
			}
			next = time.Now().Add(newestAge)
			if a.newest.Unknown != "" {
				next = time.Now().Add(storeAge)
			}
			c.learnNewest(&a.newest)
		case <-ticker.C:
		}
	}
}

// wantsNewest says whose newest backup is to be known, since when there has been no leader, and whether it is at all.
func (c *Coordinator) wantsNewest() (lineage string, led time.Time, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.ledger.Record
	if c.log == nil || r == nil {
		return "", c.led, false
	}
	return r.Lineage(), c.led, true
}

func (c *Coordinator) askNewest(ctx context.Context, lineage string) plan.BackupStand {
	ctx, cancel := context.WithTimeout(ctx, newestTime)
	defer cancel()
	newest, err := c.world.Backups.Newest(ctx, lineage)
	if err != nil {
		return plan.BackupStand{Unknown: err.Error()}
	}
	return newest
}

// learnNewest notes what is known of the newest backup, nil for nothing.
func (c *Coordinator) learnNewest(s *plan.BackupStand) {
	c.mu.Lock()
	before := c.restoring.newest
	c.restoring.newest = s
	c.mu.Unlock()
	if s != nil && (before == nil || *before != *s) {
		c.Look()
	}
}
