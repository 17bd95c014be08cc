package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/show"
	"holdfast/embedded"
	"holdfast/embedded/auth"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/embedded/plan"
	"holdfast/gossip"
	"holdfast/metrics"
	"holdfast/snapshot"
	"holdfast/volume/ebs"
)

// node is what `holdfast run` runs. Its fields are the parts, and its methods need several of them.
type node struct {
	cfg     config.Config
	lg      *zap.Logger
	version string // of holdfast
	address netip.Addr
	store   snapshot.Store
	records *generations.Records
	names   *gossip.Resolver
	elders  *elders
	mesh    *gossip.Mesh
	etcd    *embedded.Member
	coord   *coordinator.Coordinator
	keeper  *snapshot.Keeper
	counted *metrics.Counters
	auth    *auth.Keeper
	volumes provider
	rooms   *rooms
	disk    diskTimes
	ebs     *ebs.Provider // the same as volumes; nil with another provider

	given        released
	pending      atomic.Pointer[pending]
	certificates *pki.Keeper
	editions     *authorities.Keeper // nil unless tls.mode is auto
	step         func(string)        // is called before each step of an action, where tests kill the process
	issued       *authorities.Issued
}

// askForStatus asks a node for its status. All other questions between nodes are the coordinator's.
const askForStatus = "status"

func (n *node) answer(ctx context.Context, question []byte) ([]byte, error) {
	if string(question) == askForStatus {
		return json.Marshal(n.status())
	}
	if a, ok, err := n.coord.Answer(ctx, question); ok {
		return a, err
	}
	return nil, fmt.Errorf("no answer to the question %.40q", question)
}

func (n *node) status() health.NodeStatus {
	s := n.facts()
	if s.Etcd != nil {
		s.Checkup.Fsync, s.Checkup.Commit = n.disk.times(prometheus.DefaultGatherer)
	}
	return s
}

// begins is the status text of a node that has decided nothing yet.
const begins = "the process has just begun"

// situation returns the coordinator's situation with the current status of the member, and that status. An observation
// is up to a second old, and it is not renewed while the process stops its member.
func (n *node) situation() (coordinator.Situation, plan.Member) {
	now, e := n.coord.Now(), n.etcd.Status()
	return refreshed(now, e), e
}

// refreshed returns a situation in which the member is as it says now. What only an observation tells is kept.
func refreshed(now coordinator.Situation, e plan.Member) coordinator.Situation {
	switch m := &now.Observation.Member; {
	case !e.Running:
		*m = plan.Member{}
	case m.Running:
		m.Status, m.Stalled = e.Status, e.Stalled
	}
	return now
}

// facts returns the status without the parts that come from the metrics, because the metrics are made from it.
func (n *node) facts() health.NodeStatus {
	now, e := n.situation()
	s := health.NodeStatus{
		Node: n.cfg.Node.Name, Address: n.address.String(), Live: true, Reached: true, Version: n.version,
		Since: now.Since, State: now.State(), Action: now.Action.Kind, Why: now.Action.Text(),
		Decision: health.Decided(now.Action), Error: now.Err,
		Found: n.found(), Checkup: n.checkup(), Record: now.Observation.Disk.Ledger.Record,
		Early: now.Looked.IsZero() || now.Observation.Early,
	}
	if now.Action.Kind == "" {
		s.Why, s.Decision.Why = begins, begins
	}
	for _, o := range n.mesh.Observers() {
		s.Observers = append(s.Observers, fmt.Sprintf("%s at %s", o.Node, o.Address))
	}
	if !now.Looked.IsZero() {
		s.Looked = new(time.Since(now.Looked).Seconds())
	}
	if now.Observation.Claim.Held {
		s.Volume = &now.Volume
	}
	if e.Running {
		s.Etcd = etcdStatus(e, n.cfg.Etcd.AdvertiseClientURLs)
		if !e.HasLead || !e.Confirmed && !e.Stalled { // a leader that was just elected is not confirmed yet
			since := e.Asked
			if since.IsZero() {
				since = now.Since
			}
			s.Etcd.Leaderless = new(time.Since(since).Seconds())
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
			upkeep.Advice = health.FullAdvice(o.Config.Upkeep, o.Member)
		}
		s.Upkeep = &upkeep
	}
	s.Claim, s.Clock = claimStatus(n.ebs), n.records.Clock()
	s.Store, s.Restore, s.Aside = now.Observation.Store.ID, now.Restoring(), now.SetAside(n.cfg.Restore.ReclaimAfter)
	s.Backup, s.TLS = show.BackupStatus(n.keeper.Status()), n.tlsStatus()
	return s
}

// etcdStatus returns the part of the status about the member.
func etcdStatus(m plan.Member, clients []string) *health.EtcdStatus {
	return &health.EtcdStatus{Member: plan.ID(m.ID), Cluster: plan.ID(m.Cluster), Status: m.Status, Clients: clients}
}

// statusOfAll asks every live node for its status, within 2 s, and judges the cluster.
func (n *node) statusOfAll(ctx context.Context) health.ClusterStatus {
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
func (n *node) ask(ctx context.Context) health.ClusterStatus {
	nodes := n.mesh.Nodes()
	s := health.ClusterStatus{Cluster: n.cfg.Cluster.Name, Asked: n.cfg.Node.Name, Time: time.Now(),
		Nodes: make([]health.NodeStatus, len(nodes))}
	var wg sync.WaitGroup
	for i, peer := range nodes {
		wg.Go(func() { s.Nodes[i] = n.askNode(ctx, peer) })
	}
	wg.Wait()
	for _, node := range s.Nodes {
		s.Observers = append(s.Observers, node.Observers...)
	}
	return s
}

// databaseOf asks a node for the size of its database in bytes; 0: it is not known.
func (n *node) databaseOf(ctx context.Context, name string) int64 {
	for _, peer := range n.mesh.Nodes() {
		if peer.Node == name {
			if s := n.askNode(ctx, peer); s.Etcd != nil {
				return s.Etcd.Space.Size
			}
		}
	}
	return 0
}

// askNode returns the status of one node. If the node does not answer, it returns what the gossip knows.
func (n *node) askNode(ctx context.Context, peer gossip.Node) (s health.NodeStatus) {
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
	s = health.NodeStatus{Node: peer.Node, Address: peer.Address.String(), Live: peer.Live, Since: peer.Since,
		State: "lost", Version: peer.Version,
		Why: "not heard of since " + peer.Since.Format(time.RFC3339)}
	if peer.Live {
		s.State, s.Why = "silent", "in the gossip, but it does not answer"
		s.Since = time.Time{} // in the gossip, since when the node lives, not since when it is silent
	}
	if f, err := coordinator.ReadFacts(peer.State); err == nil && f.Slot != "" {
		s.Volume = &plan.Volume{Slot: f.Slot, Disk: f.Disk, Epoch: f.Epoch}
		s.Record = f.Record
	}
	return s
}

// livez checks whether the process works. A supervisor may restart one that does not.
func (n *node) livez(context.Context) []metrics.Check {
	s := health.NodeStatus{Node: n.cfg.Node.Name, Reached: true}
	if last := n.coord.Now().Looked; !last.IsZero() {
		s.Looked = new(time.Since(last).Seconds())
	}
	c := metrics.Check{Name: "coordinator", Detail: "looks at the world every second"}
	for _, f := range s.Judge(time.Now()) {
		c.Err = errors.New(f.Text)
	}
	return []metrics.Check{c}
}

// readyz checks whether clients can be sent here. It also returns this node's findings, as warnings and details.
func (n *node) readyz(context.Context) []metrics.Check {
	s := n.status()
	checks := []metrics.Check{{Name: "volume", Err: errors.New(s.Why)}, memberCheck(s, n.coord.Now().Observation.Stopping)}
	if v := s.Volume; v != nil {
		checks[0] = metrics.Check{Name: "volume", Detail: fmt.Sprintf("slot %s, epoch %d", v.Slot, v.Epoch)}
	}
	if b := s.Backup; b != nil && !b.Time.IsZero() {
		checks = append(checks, metrics.Check{Name: "backup", Detail: show.NewestText(b, time.Now())})
	}
	for _, f := range s.Local(n.cfg.Cluster.Slots, time.Now()) {
		c := metrics.Check{Name: string(f.Code), Warning: f.String()}
		switch {
		case f.Code == health.NamesUnknown, f.Code == health.AlarmCorrupt:
			// NOSPACE is only a warning: reads are answered, and no other node is better.
			c = metrics.Check{Name: string(f.Code), Err: errors.New(f.String())}
		case f.Severity == health.Info:
			c = metrics.Check{Name: string(f.Code), Detail: f.String()}
		}
		checks = append(checks, c)
	}
	return checks
}

// memberCheck checks whether the member serves. Of a process that is stopping it tells only that, and not its last
// state.
func memberCheck(s health.NodeStatus, stopping bool) metrics.Check {
	c := metrics.Check{Name: "member"}
	e := s.Etcd
	led := e != nil && e.HasLead && !e.Learner
	switch {
	case s.Stall != nil:
		c.Err = errors.New(s.Stalls())
	case led && e.Confirmed:
		c.Detail = fmt.Sprintf("%s, term %d, revision %d", s.State, e.Term, e.Revision)
	case led:
		c.Err = fmt.Errorf("%s, but no read through it was answered in the last seconds: %s", s.State, s.Why)
	case stopping, s.State == health.Standby: // Why includes the state
		c.Err = errors.New(s.Why)
	default:
		c.Err = fmt.Errorf("%s: %s", s.State, s.Why)
	}
	return c
}
