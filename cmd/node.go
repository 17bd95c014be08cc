package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/embedded/auth"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/gossip"
	"holdfast/metrics"
	"holdfast/snapshot"
	"holdfast/volume/ebs"
)

// node is what `holdfast run` runs: the parts, and what only all of them together can answer.
type process struct {
	cfg     config.Config
	lg      *zap.Logger
	address netip.Addr
	store   snapshot.Store
	records *generations.Records
	names   *gossip.Resolver
	mesh    *gossip.Mesh
	etcd    *embedded.Member
	coord   *coordinator.Coordinator
	keeper  *snapshot.Keeper
	metrics *metrics.Metrics
	auth    *auth.Keeper
	volumes provider
	rooms   *rooms
	ebs     *ebs.Provider // the volumes, nil with another kind of them

	certificates *pki.Keeper
	editions     *authorities.Keeper // nil unless tls.mode is auto
	issued       *authorities.Issued
}

// askForStatus is the question for a node's status; the coordinator knows the others.
const askForStatus = "status"

// Identity implements [snapshot.Source].
func (n *process) Identity() snapshot.Identity {
	id := snapshot.Identity{Cluster: n.cfg.Cluster.Name}
	if r := n.coord.Now().Observation.Disk.Ledger.Record; r != nil {
		id.Lineage = r.Lineage()
	}
	return id
}

// status is this node's own status.
func (n *process) status() health.NodeStatus {
	s := n.facts()
	if s.Etcd != nil {
		s.Checkup.Fsync, s.Checkup.Commit = diskTimes(prometheus.DefaultGatherer)
	}
	return s
}

// facts is the status but for what the metrics tell, which themselves are made from it.
func (n *process) facts() health.NodeStatus {
	now, e := n.coord.Now(), n.etcd.Status()
	if m := &now.Observation.Member; m.Running && e.Running { // what was observed is up to a second old
		m.Leader, m.HasLead, m.Confirmed, m.Stalled = e.Leader, e.LeaderID != 0, e.Confirmed, e.Stalled
	}
	s := health.NodeStatus{
		Node: n.cfg.Node.Name, Address: n.address.String(), Live: true, Reached: true, Version: Version(),
		Since: now.Since, State: now.State(), Action: now.Action.Kind, Why: now.Action.Text(), Decision: health.Decided(now.Action), Error: now.Err,
		Found: n.found(), Checkup: n.checkup(), Record: now.Observation.Disk.Ledger.Record,
	}
	if !now.Looked.IsZero() {
		ago := time.Since(now.Looked).Seconds()
		s.Looked = &ago
	}
	if now.Observation.Claim.Held {
		s.Volume = &health.VolumeStatus{Slot: now.Volume.Slot, ID: now.Volume.Volume, Disk: now.Volume.Disk, Epoch: now.Volume.Epoch, Path: now.Path}
	}
	if e.Running {
		s.Etcd = etcdStatus(e, n.cfg.Etcd.AdvertiseClientURLs)
		if e.LeaderID == 0 || !e.Confirmed && !e.Stalled { // one that was just elected is not confirmed yet
			since := e.Asked
			if since.IsZero() {
				since = now.Since
			}
			leaderless := time.Since(since).Seconds()
			s.Etcd.Leaderless = &leaderless
		}
		for _, m := range now.Observation.Member.Members {
			if m.Learner {
				s.Etcd.Learners = append(s.Etcd.Learners, m.Slot)
			}
		}
		if e.Stalled && !e.Learner && !now.Observation.Member.Defragging {
			s.Stall = &health.StallStatus{Unwritten: time.Since(e.Progress).Seconds()}
		}
	}
	o := now.Observation
	s.Wanted, s.Set, s.Paused, s.Lock, s.Next = o.Config.Slots, o.Member.Set, o.Member.Paused, o.Member.Lock, now.Next()
	if s.Etcd != nil {
		upkeep := now.Upkeep
		if upkeep.Full {
			upkeep.Advice = fullAdvice(o.Config.Upkeep, o.Member)
		}
		s.Upkeep = &upkeep
	}
	s.Claim, s.Clock = claimStatus(n.ebs), n.records.Clock()
	s.Store, s.Restore, s.Aside = now.Observation.Store.ID, now.Restoring(), now.SetAside(n.cfg.Restore.ReclaimAfter)
	s.Backup, s.TLS = backupStatus(n.keeper.Status()), n.tlsStatus()
	return s
}

func etcdStatus(e embedded.Status, clients []string) *health.EtcdStatus {
	s := &health.EtcdStatus{
		Member: fmt.Sprintf("%x", e.MemberID), Cluster: fmt.Sprintf("%x", e.ClusterID), Leader: e.Leader, HasLeader: e.LeaderID != 0, Confirmed: e.Confirmed,
		Learner: e.Learner, Term: e.Term, Revision: e.Revision, Applied: e.Applied, Space: e.Space,
		Version: e.ServerVersion, ClusterVersion: e.ClusterVersion, StorageVersion: e.StorageVersion,
		Downgrade: e.Downgrade, Clients: clients,
	}
	for _, a := range e.Alarms {
		s.Alarms = append(s.Alarms, health.Alarm{Name: a.Name, Member: fmt.Sprintf("%x", a.MemberID)})
	}
	for _, h := range e.Hashes {
		s.Hashes = append(s.Hashes, health.Hash{Revision: h.Revision, Compacted: h.Compacted, Sum: fmt.Sprintf("%08x", h.Sum)})
	}
	return s
}

// statusOfAll asks every live node for its status and judges the whole.
func (n *process) statusOfAll(ctx context.Context) health.ClusterStatus {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s := n.ask(ctx)
	s.Judge(n.cfg.Cluster.Slots)
	if s.Record != nil {
		s.Founders = n.coord.Now().Observation.Founders(s.Record)
	}
	return s
}

// ask asks every live node for its status.
func (n *process) ask(ctx context.Context) health.ClusterStatus {
	nodes := n.mesh.Nodes()
	s := health.ClusterStatus{Cluster: n.cfg.Cluster.Name, Asked: n.cfg.Node.Name, Time: time.Now(), Nodes: make([]health.NodeStatus, len(nodes))}
	var wg sync.WaitGroup
	for i, peer := range nodes {
		wg.Go(func() { s.Nodes[i] = n.askNode(ctx, peer) })
	}
	wg.Wait()
	for _, o := range n.mesh.Observers() {
		s.Observers = append(s.Observers, fmt.Sprintf("%s at %s", o.Node, o.Address))
	}
	return s
}

// askNode gets the status of one node; of one that does not answer, what gossip knows of it.
func (n *process) askNode(ctx context.Context, peer gossip.Node) (s health.NodeStatus) {
	asked := time.Now()
	if peer.Node == n.cfg.Node.Name {
		s = n.status()
		s.Asked, s.Answered = asked, time.Now()
		return s
	}
	if peer.Live {
		data, err := n.mesh.Ask(ctx, peer.Node, []byte(askForStatus))
		if err == nil && json.Unmarshal(data, &s) == nil && s.Node == peer.Node {
			s.Asked, s.Answered = asked, time.Now()
			return s
		}
	}
	s = health.NodeStatus{Node: peer.Node, Address: peer.Address.String(), Live: peer.Live, Since: peer.Since, State: "lost", Version: peer.Version,
		Why: "not heard of since " + peer.Since.Format(time.RFC3339)}
	if peer.Live {
		s.State, s.Why = "silent", "in the gossip, but it does not answer"
	}
	if f, err := coordinator.ReadFacts(peer.State); err == nil && f.Slot != "" {
		s.Volume = &health.VolumeStatus{Slot: f.Slot, Disk: f.Disk, Epoch: f.Epoch}
		s.Record = f.Record
	}
	return s
}
