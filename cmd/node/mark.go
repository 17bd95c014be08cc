package node

import (
	"context"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

const (
	// markEvery is how often the store is checked for etcd-manager's mark. etcd-manager itself checks every 10 s.
	markEvery = 2 * time.Second
	markWait  = 10 * time.Second // for the store
)

// marker keeps etcd-manager's mark in the backup store while etcd-manager may run members of this cluster. If the store
// has a spec but no mark, etcd-manager stops its members and founds an empty cluster in their place.
type marker struct {
	wanted func() bool
	keep   func(context.Context) (missing bool, err error)
	lg     *zap.Logger
}

// follow keeps the mark until ctx ends.
func (m *marker) follow(ctx context.Context) error {
	ticker := time.NewTicker(markEvery)
	defer ticker.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !m.wanted() {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, markWait)
		missing, err := m.keep(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failed:
			m.lg.Warn("could not check whether the backup store has etcd-manager's mark of this cluster", zap.Error(err))
		case err == nil && missing:
			m.lg.Warn("etcd-manager's mark of this cluster was missing in the backup store, and was written again: without it " +
				"etcd-manager founds an empty cluster over this one")
		}
		failed = err != nil
	}
}

// marker returns the marker of this node's cluster.
func (n *node) marker() *marker {
	return &marker{
		wanted: func() bool { return managed(n.coord.Now()) },
		keep:   func(ctx context.Context) (bool, error) { return snapshot.KeepMark(ctx, n.store) },
		lg:     n.lg.Named("takeover"),
	}
}

// managed reports whether etcd-manager may run members of the cluster.
func managed(s coordinator.Situation) bool {
	o := s.Observation
	r := o.Disk.Ledger.Record
	return r != nil && r.Adopted != nil && r.Adopted.From() == plan.EtcdManager && o.Mixed() != ""
}
