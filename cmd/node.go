package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.uber.org/zap"

	"holdfast/embedded"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/gossip"
	"holdfast/metrics"
	"holdfast/snapshot"
	"holdfast/volume/ebs"
)

// node is what `holdfast run` runs: the parts, and what only all of them together can answer.
type node struct {
	cfg     Config
	lg      *zap.Logger
	address netip.Addr
	store   snapshot.Store
	names   *gossip.Resolver
	mesh    *gossip.Mesh
	etcd    *embedded.Member
	coord   *coordinator.Coordinator
	keeper  *snapshot.Keeper
	metrics *metrics.Metrics
	ebs     *ebs.Provider // nil with another kind of volumes
}

// askForStatus is the question for a node's status; the coordinator knows the others.
const askForStatus = "status"

// answer answers other nodes' direct questions.
func (n *node) answer(_ context.Context, question []byte) ([]byte, error) {
	if string(question) == askForStatus {
		return json.Marshal(n.status())
	}
	if a, ok := n.coord.Answer(question); ok {
		return a, nil
	}
	return nil, fmt.Errorf("no answer to the question %.40q", question)
}

// Leader implements [snapshot.Source]: the schedule runs on the raft leader.
func (n *node) Leader() bool {
	s := n.etcd.Status()
	return s.Running && s.Ready && s.Leader
}

// Begin implements [snapshot.Source].
func (n *node) Begin(ctx context.Context) (snapshot.Tx, snapshot.Meta, error) {
	now := n.coord.Now()
	record := now.Observation.Disk.Ledger.Record
	if record == nil || !now.Observation.Member.Running {
		return nil, snapshot.Meta{}, fmt.Errorf("this node runs no member: %s", now.Action.Why)
	}
	tx, err := n.etcd.Snapshot(ctx)
	if err != nil {
		return nil, snapshot.Meta{}, err
	}
	return tx, snapshot.Meta{
		Cluster: n.cfg.Cluster.Name, Generation: record.Generation, Record: record.ID,
		EtcdClusterID: fmt.Sprintf("%x", now.Observation.Disk.ClusterID), Slot: now.Observation.Claim.Slot, Node: n.cfg.Node.Name,
		HoldfastVersion: Version(), EtcdVersion: etcdversion.Version,
	}, nil
}

// observed exports each situation as metrics.
func (n *node) observed(s coordinator.Situation) {
	m, claim := s.Observation.Member, ""
	if c := claimStatus(n.ebs); c != nil {
		claim = c.State
	}
	sample := metrics.Sample{
		State: s.State(), Claim: claim, Slot: s.Observation.Claim.Slot, Epoch: s.Observation.Claim.Epoch,
		Running: m.Running, Ready: m.Ready && m.HasLead, Leader: m.Leader, Learner: m.Learner,
	}
	if r := s.Observation.Disk.Ledger.Record; r != nil {
		sample.Generation = r.Generation
	}
	for _, i := range m.Members {
		if i.Learner {
			sample.Learners++
		} else {
			sample.Voters++
		}
	}
	n.metrics.Observe(sample)
}

// status is this node's own status.
func (n *node) status() coordinator.NodeStatus {
	now := n.coord.Now()
	s := coordinator.NodeStatus{
		Node: n.cfg.Node.Name, Address: n.address.String(), Live: true, Reached: true, Version: Version(),
		Since: now.Since, State: now.State(), Action: now.Action.Kind, Why: now.Action.Why, Error: now.Err,
		Problems: n.problems(), Record: now.Observation.Disk.Ledger.Record,
	}
	if now.Observation.Claim.Held {
		s.Volume = &coordinator.VolumeStatus{Slot: now.Volume.Slot, ID: now.Volume.Volume, Disk: now.Volume.Disk, Epoch: now.Volume.Epoch, Path: now.Path}
	}
	if e := n.etcd.Status(); e.Running {
		s.Etcd = etcdStatus(e, n.cfg.Etcd.AdvertiseClientURLs)
	}
	s.Claim = claimStatus(n.ebs)
	s.Backup = backupStatus(n.keeper.Status())
	return s
}

// problems is what is wrong here beside the action: in the gossip, and with the members' names, which a
// line added to /etc/hosts can take away from us at any time.
func (n *node) problems() []string {
	problems := n.mesh.Problems()
	if n.ebs != nil {
		problems = append(problems, n.ebs.Problems()...)
	}
	if at, ok := n.mesh.Twin(); ok {
		problems = append(problems, fmt.Sprintf("another live process calls itself %s, at %s: each node needs its own node.name", n.cfg.Node.Name, at))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := n.names.Check(ctx); err != nil {
		problems = append(problems, err.Error())
	}
	o := n.coord.Now().Observation
	if r := o.Disk.Ledger.Record; r != nil {
		if slots := r.Charter.Slots(); !slices.Equal(slots, o.Config.Slots) {
			problems = append(problems, fmt.Sprintf("cluster.slots is %s here, but the cluster was founded with %s, which it keeps",
				strings.Join(o.Config.Slots, ","), strings.Join(slots, ",")))
		}
		if r.Charter.PeerURL != o.Config.PeerURL {
			problems = append(problems, fmt.Sprintf("the configuration makes the peer URL %s, but the cluster was founded with %s: set scheme, port, cluster.name and cluster.domain back",
				o.Config.PeerURL, r.Charter.PeerURL))
		}
	}
	return problems
}

func etcdStatus(e embedded.Status, clients []string) *coordinator.EtcdStatus {
	s := &coordinator.EtcdStatus{
		Member: fmt.Sprintf("%x", e.MemberID), Cluster: fmt.Sprintf("%x", e.ClusterID), Leader: e.Leader, HasLeader: e.LeaderID != 0,
		Learner: e.Learner, Term: e.Term, Revision: e.Revision, Applied: e.Applied, Size: e.Database.Size, InUse: e.Database.InUse,
		Quota: e.Database.Quota, Version: e.ServerVersion, ClusterVersion: e.ClusterVersion, Clients: clients,
	}
	for _, a := range e.Alarms {
		s.Alarms = append(s.Alarms, fmt.Sprintf("%s of member %x", a.Name, a.MemberID))
	}
	return s
}

func backupStatus(k snapshot.Status) *coordinator.BackupStatus {
	b := &coordinator.BackupStatus{Leading: k.Leading, Failures: k.Failures, Error: k.LastError, Overdue: k.Overdue}
	if k.Newest.Name != "" {
		b.Name, b.Time, b.Revision, b.Size = k.Newest.Name, &k.Newest.Created, k.Newest.Content.Revision, k.Newest.Stored.Size
	}
	if !k.Due.IsZero() {
		b.Due = &k.Due
	}
	return b
}

// clusterStatus asks every live node for its status and judges the whole.
func (n *node) clusterStatus(ctx context.Context) (any, error) {
	nodes := n.mesh.Nodes()
	s := coordinator.ClusterStatus{Cluster: n.cfg.Cluster.Name, Asked: n.cfg.Node.Name, Time: time.Now(), Nodes: make([]coordinator.NodeStatus, len(nodes))}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i, peer := range nodes {
		wg.Go(func() { s.Nodes[i] = n.ask(ctx, peer) })
	}
	wg.Wait()
	coordinator.Assess(&s, n.cfg.Cluster.Slots)
	return s, nil
}

// ask gets the status of one node; of one that does not answer, what gossip knows of it.
func (n *node) ask(ctx context.Context, peer gossip.Node) (s coordinator.NodeStatus) {
	if peer.Node == n.cfg.Node.Name {
		return n.status()
	}
	if peer.Live {
		data, err := n.mesh.Ask(ctx, peer.Node, []byte(askForStatus))
		if err == nil && json.Unmarshal(data, &s) == nil && s.Node == peer.Node {
			return s
		}
	}
	s = coordinator.NodeStatus{Node: peer.Node, Address: peer.Address.String(), Live: peer.Live, Since: peer.Since, State: "lost", Version: peer.Version,
		Why: "not heard of since " + peer.Since.Format(time.RFC3339)}
	if peer.Live {
		s.State, s.Why = "silent", "in the gossip, but it does not answer"
	}
	var f plan.Facts
	if json.Unmarshal(peer.State, &f) == nil && f.Slot != "" {
		s.Volume = &coordinator.VolumeStatus{Slot: f.Slot, Disk: f.Disk, Epoch: f.Epoch}
		s.Record = f.Record
	}
	return s
}

// stalled is how long the coordinator may go without looking at the world before the process is not live.
const stalled = 30 * time.Second

// livez says whether the process works. A supervisor may restart one that does not.
func (n *node) livez(context.Context) []metrics.Check {
	c := metrics.Check{Name: "coordinator", Detail: "looks at the world every second"}
	if last := n.coord.Now().Looked; !last.IsZero() && time.Since(last) > stalled {
		c.Err = fmt.Errorf("has not looked at the world for %s", time.Since(last).Round(time.Second))
	}
	return []metrics.Check{c}
}

// readyz says whether clients can be sent here, and what else an operator should know.
func (n *node) readyz(ctx context.Context) []metrics.Check {
	s := n.status()
	checks := []metrics.Check{{Name: "volume", Err: errors.New(s.Why)}, {Name: "member", Err: fmt.Errorf("%s: %s", s.State, s.Why)},
		{Name: "names", Err: n.names.Check(ctx), Detail: "members' names are answered in this process"}}
	if v := s.Volume; v != nil {
		checks[0] = metrics.Check{Name: "volume", Detail: fmt.Sprintf("slot %s, epoch %d", v.Slot, v.Epoch)}
	}
	if e := s.Etcd; e != nil && e.HasLeader && !e.Learner {
		checks[1] = metrics.Check{Name: "member", Detail: fmt.Sprintf("%s, term %d, revision %d", s.State, e.Term, e.Revision)}
	}
	gossip := metrics.Check{Name: "gossip", Detail: "no problems"}
	if len(s.Problems) > 0 {
		gossip.Warning = strings.Join(s.Problems, "; ")
	}
	backup := metrics.Check{Name: "backup", Detail: "the schedule runs on the leader"}
	switch b := s.Backup; {
	case b.Error != "":
		backup.Warning = fmt.Sprintf("%d in a row failed: %s", b.Failures, b.Error)
	case b.Overdue:
		backup.Warning = "the newest verified backup is too old"
	case b.Time != nil:
		backup.Detail = fmt.Sprintf("newest verified %s, revision %d", b.Time.Format(time.RFC3339), b.Revision)
	}
	return append(checks, gossip, backup)
}
