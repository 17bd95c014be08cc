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

// dialWait bounds one look at a peer port. A refusal comes within a round trip; what does not answer is no evidence.
const dialWait = 200 * time.Millisecond

// Glance tells what may make a look at this member's Standing worth it; the zero value where it does not run. It is
// cheap: it asks neither raft's loop nor a disk.
func (c Cluster) Glance() plan.Glance {
	l, err := c.running()
	if err != nil {
		return plan.Glance{}
	}
	srv := l.etcd.Server
	lead := srv.Leader()
	g := plan.Glance{Lead: uint64(lead), Term: srv.Term(), Leads: lead == srv.MemberID()}
	if g.Leads {
		return g
	}
	_, connected := connectedSince(srv, lead)
	late := plan.Standing{Silence: l.pulse.silence(lead, received(lead)), Beat: beat(srv)}
	g.Doubtful = lead == 0 || !connected || late.Late()
	return g
}

func beat(srv *etcdserver.EtcdServer) time.Duration {
	heartbeat := time.Duration(srv.Cfg.TickMs) * time.Millisecond
	return plan.Beat(heartbeat, time.Duration(srv.Cfg.ElectionTicks)*heartbeat)
}

// Standing is what raft shows of itself and of its log just now. It asks raft's own loop, which waits for no disk.
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
	s := plan.Standing{Running: true, ID: uint64(srv.MemberID()), Term: term(status), Lead: status.Lead,
		End: logEnd(log), Settled: status.Applied >= commit(status),
		Beat: beat(srv), Elected: l.pulse.elected(status.Lead, term(status))}
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
		s.Silence = l.pulse.silence(lead, hanging(status))
	case s.Lead != 0:
		s.Silence = l.pulse.silence(lead, received(lead))
	}
	return s
}

// hanging is up to where a leader's own disk has written its log while another's has written more, in vain here: that
// disk hangs. Otherwise it is unknown, so that nothing is ever silent.
func hanging(status raft.Status) float64 {
	mine := status.Progress[status.ID].Match
	for _, p := range status.Progress {
		if p.Match > mine {
			return float64(mine)
		}
	}
	return unknown
}

// unknown differs from itself.
var unknown = math.NaN()

// logEnd is the last entry that is on the disk.
func logEnd(log *raft.MemoryStorage) (end plan.LogEnd) {
	index, err := log.LastIndex()
	if err != nil {
		return end
	}
	term, err := log.Term(index)
	if err != nil { // compacted meanwhile: it is asked again
		return end
	}
	return plan.LogEnd{Term: term, Index: index}
}

// raftLog is what raft has written to its log; nil if a later etcd moves it: then nobody campaigns early, and
// TestCampaign fails. Its methods lock.
var raftLog = dig[*raft.MemoryStorage]("raftStorage")

// Refused reports whether the member's peer port refuses a new connection, at each address of each of its URLs: no
// process listens there, or what is asked is not the member. A timeout is no evidence, nor is a name that does not
// resolve.
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
		for _, a := range addresses { // a dialer that tries all of them tells only of the first
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

// Campaign has the member start an election at once, unless its term has changed since the standing was taken. It is
// the message by which a leader hands over: a candidate or leader ignores it, and so does raft where it has no vote.
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

// starved is how long nobody looks at the pulse when this process itself does not run as it should: it was stopped, or
// gets too little of the processor. That it hears nothing meanwhile is no evidence. The campaigner looks every 20 ms or
// more often; a leader is asked so often by those that its heartbeats reach late, and counts from then on.
const starved = 40 * time.Millisecond

// pulse knows since when nothing has come from the leader: from the counter of the bytes that raft's messages had, for
// etcd tells of no heartbeat. The counter is the process's. Of a leader it knows since when its disk hangs, and of each
// how long ago it followed another.
type pulse struct {
	mu    sync.Mutex
	of    types.ID
	still still

	term     uint64 // of the leader that raft showed last
	followed time.Time
}

// elected is how long ago a leader followed the one before, 0 if none has. Each election has a term of its own, and may
// have the same leader.
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

// silence is for how long a member's mark was seen not to change.
func (p *pulse) silence(of types.ID, mark float64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of != p.of {
		p.of, p.still = of, still{mark: unknown}
	}
	return p.still.look(mark, starved)
}

// still knows for how long a mark was seen not to change.
type still struct {
	mark   float64
	lasted time.Duration
	looked time.Time
}

// look returns for how long. A gap between two looks counts for so much at most: this process may have been suspended,
// or starved, meanwhile.
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

// receivedBytes is etcd's own counter, of which only the registry tells. Without it nothing is ever silent: every look
// hears something. TestPulse fails if a later etcd renames it.
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

// received is how many bytes have come from a member. To ask for those of none would begin a series.
func received(from types.ID) float64 {
	var m dto.Metric
	vec := receivedBytes()
	if from == 0 || vec == nil || vec.WithLabelValues(from.String()).Write(&m) != nil {
		return unknown
	}
	return m.GetCounter().GetValue()
}
