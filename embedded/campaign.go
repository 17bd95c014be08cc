package embedded

import (
	"context"
	"errors"
	"math"
	"net"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"holdfast/embedded/plan"
)

// dialWait limits one dial of a peer port. A refusal takes one round trip. A port that does not answer proves nothing.
const dialWait = 200 * time.Millisecond

// Glance shows whether to look at this member's Standing; the zero value if it does not run. It is cheap: it asks
// neither raft's loop nor a disk. There is nothing new to see before rest is over.
func (c Cluster) Glance() (g plan.Glance, rest time.Duration) {
	l, err := c.running()
	if err != nil {
		return g, 0
	}
	srv := l.etcd.Server
	lead := srv.Leader()
	g = plan.Glance{Lead: uint64(lead), Term: srv.Term(), Leads: lead == srv.MemberID()}
	if g.Leads {
		return g, 0
	}
	_, connected := connectedSince(srv, lead)
	late := plan.Standing{Beat: beat(srv)}
	late.Silence, rest = l.pulse.silence(lead, received(lead), time.Duration(srv.Cfg.TickMs)*time.Millisecond)
	g.Doubtful = lead == 0 || !connected || late.Late()
	return g, rest
}

func beat(srv *etcdserver.EtcdServer) time.Duration {
	heartbeat := time.Duration(srv.Cfg.TickMs) * time.Millisecond
	return plan.Beat(heartbeat, time.Duration(srv.Cfg.ElectionTicks)*heartbeat)
}

// Standing is the current state of raft and of its log. It asks raft's own loop, which never waits for a disk.
func (c Cluster) Standing() plan.Standing {
	l, err := c.running()
	if err != nil {
		return plan.Standing{}
	}
	srv := l.etcd.Server
	node, log := raftNode(srv), raftLog(srv)
	if node == nil || log == nil {
		return plan.Standing{}
	}
	status := node.Status()
	s := plan.Standing{Running: true, ID: uint64(srv.MemberID()), Term: term(status), Lead: status.Lead, End: logEnd(log),
		Settled: status.Applied >= commit(status), Beat: beat(srv), Elected: l.pulse.elected(status.Lead, term(status))}
	for _, m := range srv.Cluster().Members() {
		id := uint64(m.ID)
		if !m.IsLearner {
			s.Voters = append(s.Voters, id)
		}
		if _, ok := connectedSince(srv, m.ID); ok && id != s.ID {
			s.Near = append(s.Near, id)
		}
	}
	slices.Sort(s.Voters)
	slices.Sort(s.Near)
	s.Voter = slices.Contains(s.Voters, s.ID)
	switch lead := types.ID(s.Lead); {
	case status.RaftState == raft.StateLeader:
		s.Silence, _ = l.pulse.silence(lead, hanging(status), 0)
	case s.Lead != 0:
		s.Silence, _ = l.pulse.silence(lead, received(lead), 0)
	}
	return s
}

// hanging returns the last index that the leader's own disk has written, if another member's disk has written more:
// then the leader's disk may hang. Otherwise it returns unknown, which never counts as silence.
func hanging(status raft.Status) float64 {
	mine := status.Progress[status.ID].Match
	for _, p := range status.Progress {
		if p.Match > mine {
			return float64(mine)
		}
	}
	return unknown
}

// unknown is not equal to itself, so it always counts as a change.
var unknown = math.NaN()

// logEnd returns the last entry that is on the disk.
func logEnd(log *raft.MemoryStorage) (end plan.LogEnd) {
	index, err := log.LastIndex()
	if err != nil {
		return end
	}
	term, err := log.Term(index)
	if err != nil { // compacted meanwhile; the next look sees the new end
		return end
	}
	return plan.LogEnd{Term: term, Index: index}
}

// raftLog returns the log that raft has written, or nil if a later etcd moves it: then no member campaigns early, and
// TestCampaign fails. Its methods lock.
var raftLog = dig[*raft.MemoryStorage]("raftStorage")

// Refused reports whether the member's peer port refuses a new connection at each address of each of its URLs: no
// process listens there. A timeout or a name that does not resolve proves nothing, so Refused returns false.
func (c Cluster) Refused(ctx context.Context, id uint64) bool {
	l, err := c.running()
	if err != nil {
		return false
	}
	m := l.etcd.Server.Cluster().Member(types.ID(id))
	if m == nil || len(m.PeerURLs) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	for _, text := range m.PeerURLs {
		u, err := url.Parse(text)
		if err != nil {
			return false
		}
		addresses, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
		if err != nil || len(addresses) == 0 {
			return false
		}
		for _, a := range addresses { // one dial of all addresses would return only the first error
			if !refused(ctx, net.JoinHostPort(a, u.Port())) {
				return false
			}
		}
	}
	return true
}

func refused(ctx context.Context, address string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Campaign makes the member start an election at once, unless its term has changed since the standing was taken. It
// sends the message with which a leader hands over. A candidate, a leader and a member without a vote ignore it.
func (c Cluster) Campaign(ctx context.Context, s plan.Standing) error {
	l, err := c.running()
	if err != nil {
		return err
	}
	from := s.Lead
	if from == 0 {
		from = s.ID
	}
	kind := raftpb.MsgTimeoutNow
	return l.etcd.Server.Process(ctx, message(&raftpb.Message{Type: field(kind), From: field(from), To: field(s.ID),
		Term: field(s.Term)}))
}

// starved limits how much of the time between two looks counts as silence, beyond a rest. A longer gap means that this
// process was stopped or gets too little CPU, so it proves nothing about the leader. Unless it rests, the campaigner
// looks every 20 ms or more often. A leader's own silence counts from when the followers begin to ask it.
const starved = 40 * time.Millisecond

// heartbeats limits the bytes that come between two looks if they are heartbeats alone. A busy member gets more.
const heartbeats = 128

// pulse measures how long nothing has come from the leader. etcd does not report heartbeats, so pulse reads the counter
// of bytes in raft messages, which is one for the process. On a leader, pulse measures how long its disk hangs. It also
// knows when a leader last followed another.
type pulse struct {
	mu    sync.Mutex
	of    types.ID
	still still
	rest  time.Duration // after the last look

	term     uint64 // the term of the leader that raft showed last
	followed time.Time
}

// elected returns how long ago a leader followed the previous one, or 0 if none has. Each election has its own term.
// The same leader may win again.
func (p *pulse) elected(lead, term uint64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lead != 0 && term != p.term {
		if p.term != 0 {
			p.followed = time.Now()
		}
		p.term = term
	}
	if p.followed.IsZero() {
		return 0
	}
	return time.Since(p.followed)
}

// silence returns how long a member's mark has not changed. After a heartbeat alone, the next look may rest until
// shortly before the next heartbeat is due. So a rest delays no look at a missing heartbeat.
func (p *pulse) silence(of types.ID, mark float64, heartbeat time.Duration) (silence, rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of != p.of {
		p.of, p.still, p.rest = of, still{mark: unknown}, 0
	}
	came := mark - p.still.mark
	silence = p.still.look(mark, starved+p.rest)
	if p.rest = 0; came > 0 && came < heartbeats {
		p.rest = heartbeat * 19 / 20
	}
	return silence, p.rest
}

// still measures how long a mark has not changed.
type still struct {
	mark   float64
	lasted time.Duration
	looked time.Time
}

// look returns how long the mark has not changed. Of the time between two looks, at most this much counts, because this
// process may have been suspended or starved meanwhile.
func (s *still) look(mark float64, most time.Duration) time.Duration {
	now := time.Now()
	if mark != s.mark {
		s.mark, s.lasted = mark, 0
	} else {
		s.lasted += min(now.Sub(s.looked), most)
	}
	s.looked = now
	return s.lasted
}

// receivedBytes is etcd's own counter, which only the registry gives access to. Without it, no leader ever counts as
// silent. TestPulse fails if a later etcd renames it.
var receivedBytes = sync.OnceValue(func() *prometheus.CounterVec {
	mine := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "etcd", Subsystem: "network",
		Name: "peer_received_bytes_total", Help: "The total number of bytes received from peers."}, []string{"From"})
	var there prometheus.AlreadyRegisteredError
	if !errors.As(prometheus.Register(mine), &there) {
		prometheus.Unregister(mine)
		return nil
	}
	found, _ := there.ExistingCollector.(*prometheus.CounterVec)
	return found
})

// received returns how many bytes have come from a member. For no member it must not ask: that would create a series.
func received(from types.ID) float64 {
	counter, kept := counters.Load(from)
	if !kept {
		vec := receivedBytes()
		if from == 0 || vec == nil {
			return unknown
		}
		counter = vec.WithLabelValues(from.String())
		counters.Store(from, counter)
	}
	var m dto.Metric
	if counter.(prometheus.Counter).Write(&m) != nil {
		return unknown
	}
	return m.GetCounter().GetValue()
}

// counters are the counters of receivedBytes by types.ID. The vector searches by text, and a leader is asked for many
// times a second. etcd never deletes a counter.
var counters sync.Map
