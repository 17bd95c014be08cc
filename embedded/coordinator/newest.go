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

// newest is what is known about the newest backup, while a member here has been without a leader for a while.
type newest struct {
	env
	holding *holding
	data    *dataDir

	mu    sync.Mutex
	known *plan.BackupStand // nil: unknown
	led   time.Time         // when there last was a leader, at the time of the question
}

// tell completes an observation. If there was a leader since the question, it may have made another backup.
func (n *newest) tell(o *plan.Observation) {
	led, long := n.data.leaderless()
	n.mu.Lock()
	defer n.mu.Unlock()
	if long && led.Equal(n.led) {
		o.Store.Newest = n.known
	}
}

// watch asks the store for the newest backup while a member here has been without a leader for a while, until ctx ends.
// A recovery must not continue from less than that backup. Nothing else needs it, so a cluster with a leader costs no
// requests.
func (n *newest) watch(ctx context.Context) {
	var asked, next time.Time
	for every(ctx, tick) {
		r := n.holding.now().ledger.Record
		led, long := n.data.leaderless()
		if r == nil || !long || led.Equal(asked) && time.Now().Before(next) {
			continue
		}
		bound, cancel := context.WithTimeout(ctx, newestTime)
		newest, err := n.world.Backups.Newest(bound, r.Lineage())
		cancel()
		asked, next = led, time.Now().Add(newestAge)
		if err != nil {
			newest, next = plan.BackupStand{Unknown: err.Error()}, time.Now().Add(storeAge)
		}
		n.mu.Lock()
		n.known, n.led = &newest, led
		n.mu.Unlock()
		n.look()
	}
}
