package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// checkup examines this node.
func (n *node) checkup() *health.Checkup {
	o := n.coord.Now().Observation
	m := o.Member
	c := &health.Checkup{Leader: m.Leader && m.HasLead && !m.Stalled, Member: m.ID, Members: m.Members,
		Near: m.Near, Taken: o.Taken(),
		Names: n.etcd.MemberNames(),
		Files: lookAtFiles(n.cfg, m.Running), Cures: n.cfg.Upkeep.CureNoSpace}
	n.rooms.tell(c, n.coord.Now())
	c.Time = time.Now() // at the end, so that only the way back is between it and who asks
	return c
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
func (n *node) collect(ctx context.Context) health.Facts {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	f := health.Facts{}
	var wg sync.WaitGroup
	wg.Go(func() { f.Status = n.ask(ctx) })
	wg.Go(func() { f.Endpoints = n.unleasedIn(ctx, endpointsPrefix, mostEndpoints) })
	wg.Go(func() { f.Events = n.unleasedIn(ctx, eventsPrefix, mostEvents) })
	wg.Go(func() {
		f.Store = holdingsOf(ctx, n.store, n.source.Identity(), time.Now())
	})
	wg.Wait()
	f.Now = f.Status.Time
	return f
}

// unleasedIn looks at Kubernetes' keys until ctx ends: a read of etcd on a disk that hangs waits for a write to it,
// whatever its context.
func (n *node) unleasedIn(ctx context.Context, prefix string, limit int64) *plan.Unleased {
	done := make(chan *plan.Unleased, 1)
	go func() {
		u, err := n.etcd.Unleased(ctx, prefix, limit)
		if err != nil {
			u = plan.Unleased{Prefix: prefix, Err: err.Error()}
		}
		done <- &u
	}()
	select {
	case u := <-done:
		return u
	case <-ctx.Done():
		return &plan.Unleased{Prefix: prefix, Err: "etcd does not answer: " + context.Cause(ctx).Error()}
	}
}

// FactsAlone looks at what can be looked at without a node: the files and the store.
func FactsAlone(ctx context.Context, cfg config.Config, why error) health.Facts {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	now := time.Now()
	self := health.NodeStatus{Node: cfg.Node.Name, Checkup: &health.Checkup{Time: now, Files: lookAtFiles(cfg, false)}}
	f := health.Facts{Now: now, Offline: why.Error(), Hangs: errors.Is(why, control.ErrHangs), Ended: LastEnd(cfg),
		Status: health.ClusterStatus{Cluster: cfg.Cluster.Name, Nodes: []health.NodeStatus{self}}}
	f.Store = storeAlone(ctx, cfg, now)
	return f
}

func storeAlone(ctx context.Context, cfg config.Config, now time.Time) *health.Holdings {
	store, err := OpenStore(ctx, cfg)
	if err != nil {
		return &health.Holdings{Err: err.Error()}
	}
	id, err := generations.Identity(ctx, store, cfg.Cluster.Name)
	if err != nil {
		return &health.Holdings{Err: err.Error()}
	}
	return holdingsOf(ctx, store, id, now)
}

// holdingsOf lists a store.
func holdingsOf(ctx context.Context, store snapshot.Store, id snapshot.Identity, now time.Time) *health.Holdings {
	all, err := snapshot.List(ctx, store, id)
	return show.Holdings(all, err, now)
}
