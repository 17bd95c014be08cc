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
	"holdfast/embedded/auth"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/pki"
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
	auth    *auth.Keeper
	ebs     *ebs.Provider // nil with another kind of volumes

	certificates *pki.Keeper
	editions     *editions // nil unless tls.mode is auto
}

// askForStatus is the question for a node's status; the coordinator knows the others.
const askForStatus = "status"

// answer answers other nodes' direct questions.
func (n *node) answer(ctx context.Context, question []byte) ([]byte, error) {
	switch string(question) {
	case askForStatus:
		return json.Marshal(n.status())
	case askForCheckup:
		return json.Marshal(n.checkup())
	}
	if a, ok, err := n.answerKeys(question); ok {
		return a, err
	}
	if a, ok, err := n.coord.Answer(ctx, question); ok {
		return a, err
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
	voters := 0
	for _, m := range now.Observation.Member.Members {
		if !m.Learner {
			voters++
		}
	}
	return tx, snapshot.Meta{
		Cluster: n.cfg.Cluster.Name, Generation: record.Generation, Record: record.ID, Lineage: record.Lineage(),
		EtcdClusterID: fmt.Sprintf("%x", now.Observation.Disk.ClusterID), Slot: now.Observation.Claim.Slot, Node: n.cfg.Node.Name, Members: voters,
		HoldfastVersion: Version(), EtcdVersion: etcdversion.Version,
	}, nil
}

// Identity implements [snapshot.Source].
func (n *node) Identity() snapshot.Identity {
	id := snapshot.Identity{Cluster: n.cfg.Cluster.Name}
	if r := n.coord.Now().Observation.Disk.Ledger.Record; r != nil {
		id.Lineage = r.Lineage()
	}
	return id
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
	sample.Paused = m.Paused != nil
	for _, i := range m.Members {
		if i.Learner {
			sample.Learners++
		} else {
			sample.Voters++
		}
	}
	upkeepSample(&sample, s)
	n.metrics.Observe(sample)
	n.certificates.See(stances(s.Observation))
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
		for _, m := range now.Observation.Member.Members {
			if m.Learner {
				s.Etcd.Learners = append(s.Etcd.Learners, m.Slot)
			}
		}
	}
	o := now.Observation
	s.Wanted, s.Set, s.Paused, s.Lock, s.Next = o.Config.Slots, o.Member.Set, o.Member.Paused, o.Member.Lock, now.Next()
	if s.Etcd != nil {
		s.Upkeep = &now.Upkeep
	}
	s.Claim = claimStatus(n.ebs)
	s.Store, s.Restore, s.Aside = now.Observation.Store.ID, now.Restoring(), now.SetAside(n.cfg.Restore.ReclaimAfter)
	s.Backup, s.TLS = backupStatus(n.keeper.Status()), n.tlsStatus()
	return s
}

// problems is what is wrong here beside the action: around the node, and with its database.
func (n *node) problems() []string {
	return slices.Concat(n.surroundings(), upkeepProblems(n.coord.Now()), n.auth.Problems())
}

// surroundings is what is wrong in the gossip, with the volumes, with the configuration, and with the members' names,
// which a line added to /etc/hosts can take away from us at any time.
func (n *node) surroundings() []string {
	problems := slices.Concat(n.mesh.Problems(), n.coord.Now().Problems(), n.certificates.Problems())
	if n.ebs != nil {
		problems = append(problems, n.ebs.Problems()...)
	}
	if n.editions != nil {
		problems = append(problems, n.editions.Problems()...)
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
	if d := o.Disagreement(); d != "" {
		problems = append(problems, d)
	}
	if r := o.Disk.Ledger.Record; r != nil {
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
		Quota: e.Database.Quota, Version: e.ServerVersion, ClusterVersion: e.ClusterVersion, StorageVersion: e.StorageVersion,
		Downgrade: e.Downgrade, Clients: clients,
	}
	for _, a := range e.Alarms {
		s.Alarms = append(s.Alarms, fmt.Sprintf("%s of member %x", a.Name, a.MemberID))
	}
	return s
}

// clusterStatus is statusOfAll for a server.
func (n *node) clusterStatus(ctx context.Context) (any, error) { return n.statusOfAll(ctx), nil }

// statusOfAll asks every live node for its status and judges the whole.
func (n *node) statusOfAll(ctx context.Context) coordinator.ClusterStatus {
	nodes := n.mesh.Nodes()
	s := coordinator.ClusterStatus{Cluster: n.cfg.Cluster.Name, Asked: n.cfg.Node.Name, Time: time.Now(), Nodes: make([]coordinator.NodeStatus, len(nodes))}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i, peer := range nodes {
		wg.Go(func() { s.Nodes[i] = n.ask(ctx, peer) })
	}
	wg.Wait()
	for _, o := range n.mesh.Observers() {
		s.Observers = append(s.Observers, fmt.Sprintf("%s at %s", o.Node, o.Address))
	}
	coordinator.Assess(&s, n.cfg.Cluster.Slots)
	if s.Record != nil {
		s.Founders = n.coord.Now().Observation.Founders(s.Record)
	}
	return s
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
	checks = append(checks, gossip, alarmCheck(n.coord.Now().Observation.Member, s.Why), tlsCheck(s.TLS, n.certificates.Problems(), time.Now()))
	if p := s.Paused; p != nil {
		checks = append(checks, metrics.Check{Name: "paused", Warning: pauseText(*p, time.Now())})
	}
	return append(checks, backupChecks(s.Backup)...)
}
