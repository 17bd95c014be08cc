package cmd

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// checkup examines this node.
func (n *process) checkup() *health.Checkup {
	m := n.coord.Now().Observation.Member
	c := &health.Checkup{Leader: m.Leader && m.HasLead && !m.Stalled, Member: m.ID, Members: m.Members, Names: n.etcd.MemberNames(),
		Files: lookAtFiles(n.cfg), Cures: n.cfg.Upkeep.CureNoSpace}
	n.rooms.tell(c, n.coord.Now())
	c.Time = time.Now() // at the end, so that only the way back is between it and who asks
	return c
}

// diskTimes are etcd's own figures of the disk, over the life of this process; nil where there are none.
func diskTimes(from prometheus.Gatherer) (fsync, commit *health.Quantile) {
	families, _ := from.Gather() // what could be gathered is here, whatever else could not
	for _, f := range families {
		of := map[string]**health.Quantile{"etcd_disk_wal_fsync_duration_seconds": &fsync, "etcd_disk_backend_commit_duration_seconds": &commit}[f.GetName()]
		if of == nil || len(f.GetMetric()) == 0 {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		var bounds []float64
		var below []uint64
		for _, b := range h.GetBucket() {
			bounds, below = append(bounds, b.GetUpperBound()), append(below, b.GetCumulativeCount())
		}
		*of = &health.Quantile{Seconds: percentile99(bounds, below, h.GetSampleCount()), Count: h.GetSampleCount()}
	}
	return fsync, commit
}

// percentile99 is the 99th percentile as Prometheus' histogram_quantile reckons it: evenly spread within a bucket, and
// the highest bound for what is beyond.
func percentile99(bounds []float64, below []uint64, count uint64) float64 {
	rank := 0.99 * float64(count)
	lower, under := 0.0, uint64(0)
	for i, bound := range bounds {
		if float64(below[i]) >= rank && below[i] > under {
			return lower + (bound-lower)*(rank-float64(under))/float64(below[i]-under)
		}
		lower, under = bound, below[i]
	}
	return lower
}

const (
	doctorTime = 15 * time.Second // for all questions to nodes and to the store
	// endpointsPrefix holds the addresses of living API servers, each bound to a lease of 15 s, and eventsPrefix the
	// events, with a lease of an hour. Both are kube-apiserver's, with its default --etcd-prefix.
	endpointsPrefix = "/registry/masterleases/"
	eventsPrefix    = "/registry/events/"
	mostEndpoints   = 1000
	mostEvents      = 1000 // that are looked at, for there may be many
)

// collect asks every node, etcd and the store.
func (n *process) collect(ctx context.Context) health.Facts {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	f := health.Facts{}
	var wg sync.WaitGroup
	wg.Go(func() { f.Status = n.ask(ctx) })
	wg.Go(func() { f.Endpoints = n.unleasedIn(ctx, endpointsPrefix, mostEndpoints) })
	wg.Go(func() { f.Events = n.unleasedIn(ctx, eventsPrefix, mostEvents) })
	wg.Go(func() {
		all, unread := backupsIn(ctx, n.store, n.Identity())
		f.Store = holdings(all, unread, time.Now())
	})
	wg.Wait()
	f.Now = f.Status.Time
	return f
}

// unleasedIn is unleased until ctx ends: a read of etcd on a disk that hangs waits for a write to it, whatever its context.
func (n *process) unleasedIn(ctx context.Context, prefix string, limit int64) *health.Leases {
	done := make(chan *health.Leases, 1)
	go func() { done <- n.unleased(ctx, prefix, limit) }()
	select {
	case l := <-done:
		return l
	case <-ctx.Done():
		return &health.Leases{Prefix: prefix, Err: "etcd does not answer: " + context.Cause(ctx).Error()}
	}
}

func (n *process) unleased(ctx context.Context, prefix string, limit int64) *health.Leases {
	l := &health.Leases{Prefix: prefix}
	u, err := n.etcd.Unleased(ctx, prefix, limit)
	if err != nil {
		l.Err = err.Error()
		return l
	}
	l.Read, l.Total = int64(u.Read), int64(u.Total)
	for _, k := range u.Keys {
		l.Keys = append(l.Keys, health.Unleased{Key: k.Key, Revision: k.Revision, Lease: int64(k.Lease)})
	}
	return l
}

// backupsIn lists a store. One that hangs does not hold up the rest.
func backupsIn(ctx context.Context, store snapshot.Store, id snapshot.Identity) ([]snapshot.Backup, string) {
	type listing struct {
		all []snapshot.Backup
		err error
	}
	done := make(chan listing, 1)
	go func() {
		all, err := snapshot.List(ctx, store, id)
		done <- listing{all, err}
	}()
	select {
	case l := <-done:
		if l.err != nil {
			return nil, l.err.Error()
		}
		return l.all, ""
	case <-ctx.Done():
		return nil, "the store does not answer: " + context.Cause(ctx).Error()
	}
}
