package coordinator

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"holdfast/embedded/plan"
)

// inspected is what was found in etcd's data directory.
type inspected struct {
	plan.DataDir
	err error
	log *plan.LogEnd // nil: unknown, or not to be announced
}

// leaderless is how long a member must be without a leader before it reports where its log ends: shorter, it may be an
// election. logAge is how long that report is valid; a log without a leader does not grow.
const (
	leaderless = 5 * time.Second
	logAge     = 5 * time.Second
)

// dataDir reads etcd's data directory.
type dataDir struct {
	env
	holding *holding
	status  *status

	mu     sync.Mutex
	led    time.Time    // when etcd last had a leader, or did not run
	log    *plan.LogEnd // of a member without a leader, as read at logged
	logged time.Time
}

// leaderless returns when etcd last had a leader, or did not run, and whether that is long enough ago that the end of
// its log was read.
func (d *dataDir) leaderless() (led time.Time, long bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.led, d.log != nil
}

// inspect reads the data directory, unless etcd runs and has a leader: then the log certainly exists, and its end does
// not matter.
func (d *dataDir) inspect(m plan.Member) inspected {
	d.mu.Lock()
	now := time.Now()
	if !m.Running || m.Led() {
		d.led, d.log, d.logged = now, nil, time.Time{}
	}
	look, known := now.Sub(d.led) >= leaderless && now.Sub(d.logged) >= logAge, d.log
	d.mu.Unlock()
	held := d.holding.now()
	before := d.status.get().Observation.Disk
	if !held.readable() {
		return inspected{}
	}
	if m.Running && before.Member != 0 && !look {
		return inspected{DataDir: plan.DataDir{WAL: true, Member: before.Member, ClusterID: before.ClusterID}, log: known}
	}
	data, err := d.world.Etcd.Inspect(filepath.Join(held.id.Path, EtcdDir))
	if m.Running && (!look || err != nil) {
		return inspected{data, err, known}
	}
	if m.Running {
		d.mu.Lock()
		d.log, d.logged = &data.Log, now
		d.mu.Unlock()
	}
	return inspected{data, err, &data.Log}
}

// refitEvery is how often data on which etcd was not started is checked again: an operator may have repaired it.
const refitEvery = 5 * time.Second

// unfit is data on which etcd was not started, because that would end the process again and again.
type unfit struct {
	why    string // "" for none
	dir    string
	looked time.Time
}

// noteUnfit remembers why etcd was not started, and reports whether the data is the reason: then the node waits from
// now on.
func (h *holding) noteUnfit(dir string, err error) bool {
	data, ok := errors.AsType[plan.Unfit](err)
	if !ok {
		return false
	}
	h.set(func(now *held) { now.unfit = unfit{data.Err.Error(), dir, time.Now()} })
	return true
}

// recheckUnfit checks such data again. It must not be called during an action, because it locks the directory.
func (h *holding) recheckUnfit() {
	now := h.now()
	u := now.unfit
	if u.why == "" || now.gate.dead || now.gate.closed || time.Since(u.looked) < refitEvery {
		return
	}
	if !h.noteUnfit(u.dir, h.world.Etcd.Fit(u.dir)) {
		h.set(func(now *held) { now.unfit = unfit{} })
	}
}

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
			newest, next = plan.BackupStand{Unknown: text(err)}, time.Now().Add(storeAge)
		}
		n.mu.Lock()
		n.known, n.led = &newest, led
		n.mu.Unlock()
		n.look()
	}
}
