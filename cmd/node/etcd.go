package node

import (
	"context"
	"fmt"

	etcdversion "go.etcd.io/etcd/api/v3/version"

	"holdfast/cmd/child"
	"holdfast/embedded"
	"holdfast/embedded/auth"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// etcd is the member and its disk, with the certificates that they need. It implements [coordinator.Etcd].
type etcd struct {
	*embedded.Member
	embedded.Disk
	certificates *pki.Keeper
}

// Start issues the slot's certificates, and then starts the member.
func (e etcd) Start(ctx context.Context, s plan.Spec) error {
	if err := e.certificates.Prepare(ctx, s.Slot); err != nil {
		return coordinator.Outside{Err: err}
	}
	return e.Member.Start(ctx, s)
}

// State adds the issuer of the member's certificate to the state of the member.
func (e etcd) State() (plan.Member, error) {
	p, ended := e.Member.State()
	if p.Running {
		p.Issuer = e.certificates.Issuer()
	}
	return p, ended
}

// Recover copies the database and replays the log on the copy. The replay runs in a process of its own, because the log
// may make it panic.
func (e etcd) Recover(ctx context.Context, from, dir string, progress func(coordinator.Progress)) (plan.LogEnd, error) {
	err := e.Copy(ctx, from, e.Database(dir), func(done, total int64) {
		progress(coordinator.Progress{Phase: "copying", Done: done, Total: total})
	})
	if err != nil {
		return plan.LogEnd{}, err
	}
	progress(coordinator.Progress{Phase: "replaying the log"})
	return child.Replay(ctx, from, dir)
}

// source is the member as the source of backups. It implements [snapshot.Source].
type source struct{ *node }

var _ snapshot.Abortable = (*embedded.Tx)(nil)

// Leader implements [snapshot.Source]: the schedule runs on a leader that is confirmed, not on a deposed one.
func (s source) Leader() bool {
	if !s.etcd.Leads() {
		return false
	}
	now := s.etcd.Status()
	return now.Running && now.Ready && now.Leader && now.Confirmed
}

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
		EtcdClusterID: fmt.Sprintf("%x", now.Observation.Disk.ClusterID), Slot: now.Observation.Claim.Slot,
		Node: s.cfg.Node.Name, Members: now.Observation.Member.Voters(),
		HoldfastVersion: s.version, EtcdVersion: etcdversion.Version,
	}, nil
}

func (s source) Hold() string { return s.coord.Now().Observation.KeepBackups() }

func (s source) Identity() snapshot.Identity {
	id := snapshot.Identity{Cluster: s.cfg.Cluster.Name}
	if r := s.coord.Now().Observation.Disk.Ledger.Record; r != nil {
		id.Lineage, id.Generation = r.Lineage(), r.Generation
	}
	return id
}

// users adapts the node to the keeper of etcd's users and roles.
type users struct{ *node }

func (u users) world() auth.World {
	return auth.World{Etcd: u.etcd, Leads: u.leadership, Obstacle: u.obstacle, Did: u.changed}
}

// leadership identifies this member's leadership, or is "" if it does not lead. It includes the cluster ID, because
// terms begin again after a restore.
func (u users) leadership() string {
	s := u.etcd.Status()
	if !s.Running || !s.Ready || !s.Leader || !s.Confirmed {
		return ""
	}
	return fmt.Sprintf("%x of %x in term %d", s.ID, s.Cluster, s.Term)
}

// obstacle returns why users and roles may not be changed now, or "". asked says that an operator asked for the
// change. A member that is down is no obstacle, because a leaked password must be changed all the same. A restore is
// one, because it replaces the users.
func (u users) obstacle(asked bool) string {
	s, now := u.coord.Now(), u.etcd.Status() // the situation is up to a second old
	m := s.Observation.Member
	switch {
	case !now.Running || !now.Ready:
		return "this node runs no member that serves: run the command on one that does (see `holdfast status`)"
	case !now.HasLead:
		return "etcd has no leader: there is no quorum"
	case m.Alarmed(plan.Corrupt):
		return "etcd's alarm CORRUPT is up"
	case s.Restoring() != nil:
		return "a restore is under way"
	case m.Paused != nil && !asked:
		return "the cluster is paused"
	}
	return ""
}

// changed adds a step to the history.
func (u users) changed(s auth.Step, err error) {
	e := coordinator.Entry{Kind: coordinator.EntryAuth, Why: s.String(), Outcome: coordinator.Done}
	if err != nil {
		e.Error = err.Error()
	}
	u.coord.Remember(e)
}
