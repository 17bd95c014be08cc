package node

import (
	"context"
	"fmt"

	etcdversion "go.etcd.io/etcd/api/v3/version"

	"holdfast/embedded"
	"holdfast/snapshot"
)

// source is the member as the source of backups. It implements [snapshot.Source].
type source struct{ *node }

var _ snapshot.Abortable = (*embedded.Tx)(nil)

// Leader implements [snapshot.Source]: the schedule runs on a leader that is confirmed, not on a deposed one.
func (s source) Leader() bool {
	now := s.etcd.Status()
	return now.Running && now.Ready && now.Leader && now.Confirmed
}

// Begin implements [snapshot.Source].
func (s source) Begin(ctx context.Context) (snapshot.Tx, snapshot.Meta, error) {
	now := s.coord.Now()
	record := now.Observation.Disk.Ledger.Record
	if record == nil || !now.Observation.Member.Running {
		return nil, snapshot.Meta{}, fmt.Errorf("this node runs no member: %s", now.Action.Text())
	}
	tx, err := s.etcd.Snapshot(ctx)
	if err != nil {
		return nil, snapshot.Meta{}, err
	}
	return tx, snapshot.Meta{
		Cluster: s.cfg.Cluster.Name, Generation: record.Generation, Record: record.ID, Lineage: record.Lineage(),
		EtcdClusterID: fmt.Sprintf("%x", now.Observation.Disk.ClusterID), Slot: now.Observation.Claim.Slot, Node: s.cfg.Node.Name,
		Members:         now.Observation.Member.Voters(),
		HoldfastVersion: s.version, EtcdVersion: etcdversion.Version,
	}, nil
}

// Hold implements [snapshot.Source]: no backup is deleted while another program runs members, because it may be the way
// back.
func (s source) Hold() string { return s.coord.Now().Observation.Mixed() }

// Identity implements [snapshot.Source].
func (s source) Identity() snapshot.Identity {
	id := snapshot.Identity{Cluster: s.cfg.Cluster.Name}
	if r := s.coord.Now().Observation.Disk.Ledger.Record; r != nil {
		id.Lineage = r.Lineage()
	}
	return id
}
