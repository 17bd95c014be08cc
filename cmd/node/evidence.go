package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/embedded"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// checkup returns what this node contributes to the report of doctor.
func (n *node) checkup() *health.Checkup {
	o := n.coord.Now().Observation
	m := o.Member
	c := &health.Checkup{Leader: m.Leader && m.HasLead && !m.Stalled, Member: m.ID, Members: m.Members,
		Near: m.Near, Taken: o.Taken(),
		Names: n.etcd.MemberNames(),
		Files: lookAtFiles(n.cfg, m.Running), Cures: n.cfg.Upkeep.CureNoSpace}
	n.rooms.tell(c, n.coord.Now())
	c.Time = time.Now() // last, so that only the network's delay is between this clock and the caller's
	return c
}

const (
	doctorTime = 15 * time.Second // for all questions to nodes and to the store
	// endpointsPrefix has the addresses of live API servers, each bound to a lease of 15 s. eventsPrefix has the events,
	// with a lease of an hour. kube-apiserver writes both, with its default --etcd-prefix.
	endpointsPrefix = "/registry/masterleases/"
	eventsPrefix    = "/registry/events/"
	mostEndpoints   = 1000
	mostEvents      = 1000 // there may be many more, which are not read
)

// collect gathers the facts for doctor from every node, from etcd and from the store.
func (n *node) collect(ctx context.Context) health.Facts {
	ctx, cancel := snapshot.Within(ctx, doctorTime)
	defer cancel()
	f := health.Facts{}
	var wg sync.WaitGroup
	wg.Go(func() { f.Status = n.ask(ctx) })
	wg.Go(func() { f.Endpoints = n.unleasedIn(ctx, endpointsPrefix, mostEndpoints) })
	wg.Go(func() { f.Events = n.unleasedIn(ctx, eventsPrefix, mostEvents) })
	wg.Go(func() {
		f.Store = holdingsOf(ctx, n.store, source{n}.Identity(), time.Now())
	})
	wg.Wait()
	f.Now = f.Status.Time
	return f
}

// unleasedIn looks for keys of Kubernetes that have no lease. It returns when ctx ends, even if etcd does not: on a
// disk that hangs, a read in etcd waits for a write and ignores its context.
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

// FactsAlone gathers the facts that need no node: the files and the store. why is the error of asking the node.
func FactsAlone(ctx context.Context, cfg config.Config, why error) health.Facts {
	ctx, cancel := snapshot.Within(ctx, doctorTime)
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

// holdingsOf lists the backups in a store and summarizes them.
func holdingsOf(ctx context.Context, store snapshot.Store, id snapshot.Identity, now time.Time) *health.Holdings {
	all, err := snapshot.List(ctx, store, id)
	return show.Holdings(all, err, now)
}

// repairTime limits a repair, which is one write through raft.
const repairTime = 10 * time.Second

// repair makes one repair, if a new look at the facts still offers it.
func (n routes) repair(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	offered := health.Facts{Offline: "asked only for what is repaired",
		Endpoints: n.unleasedIn(ctx, endpointsPrefix, mostEndpoints)}
	for _, f := range offered.Judge(nil) {
		if f.Fix == nil || f.Fix.ID != id {
			continue
		}
		err := n.etcd.DeleteUnchanged(ctx, f.Fix.Key, f.Fix.Revision)
		if errors.Is(err, embedded.ErrChanged) {
			return fmt.Errorf("%w: it was written meanwhile, so it is not stale; nothing was changed", err)
		}
		return err
	}
	return fmt.Errorf("%q is no repair that is offered by now: run `holdfast doctor` again; nothing was changed", id)
}
