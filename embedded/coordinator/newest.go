package coordinator

import (
	"context"
	"sync"
	"time"

	"holdfast/embedded/plan"
)

// newestAge is how long an answer about the newest backup is valid: without a leader, another backup is unlikely.
// newestTime bounds the listing, which reads a small object for each backup.
const (
	newestAge  = time.Minute
	newestTime = 30 * time.Second
)

// newest is what is known about the newest backup.
type newest struct {
	env
	holding *holding
	data    *dataDir

	mu    sync.Mutex
	known *plan.BackupStand // while there is no leader; nil: unknown
}

// tell completes an observation.
func (n *newest) tell(o *plan.Observation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o.Store.Newest = n.known
}

// watch asks the store for the newest backup while a member here has been without a leader for a while, until ctx ends.
// A recovery must not continue from less than that backup. Nothing else needs it, so a cluster with a leader costs no
// requests. A store that hangs is not asked again before it has answered, and nobody waits for it.
func (n *newest) watch(ctx context.Context) {
	type answer struct {
		newest plan.BackupStand
		led    time.Time // when there last was a leader, at the time of the question
	}
	answers := make(chan answer, 1)
	asking := false
	var next time.Time
	for {
		lineage, led, wanted := n.wants()
		switch {
		case !wanted:
			next = time.Time{}
			n.learn(nil)
		case !asking && !time.Now().Before(next):
			asking = true
			go func() { answers <- answer{n.ask(ctx, lineage), led} }()
		}
		select {
		case <-ctx.Done():
			return
		case a := <-answers:
			asking = false
			if _, led, wanted := n.wants(); !wanted || !led.Equal(a.led) {
				continue // there was a leader meanwhile, which may have made another backup
			}
			next = time.Now().Add(newestAge)
			if a.newest.Unknown != "" {
				next = time.Now().Add(storeAge)
			}
			n.learn(&a.newest)
		case <-time.After(together(tick)):
		}
	}
}

// wants returns whose newest backup is needed, since when there has been no leader, and whether it is needed at all.
func (n *newest) wants() (lineage string, led time.Time, wanted bool) {
	r := n.holding.now().ledger.Record
	led, long := n.data.leaderless()
	if !long || r == nil {
		return "", led, false
	}
	return r.Lineage(), led, true
}

func (n *newest) ask(ctx context.Context, lineage string) plan.BackupStand {
	ctx, cancel := context.WithTimeout(ctx, newestTime)
	defer cancel()
	newest, err := n.world.Backups.Newest(ctx, lineage)
	if err != nil {
		return plan.BackupStand{Unknown: err.Error()}
	}
	return newest
}

// learn notes what is known about the newest backup; nil for nothing.
func (n *newest) learn(s *plan.BackupStand) {
	n.mu.Lock()
	before := n.known
	n.known = s
	n.mu.Unlock()
	if s != nil && (before == nil || *before != *s) {
		n.look()
	}
}
