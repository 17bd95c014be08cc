package coordinator

import (
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
