package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// decoded is a node's decoded facts, kept so that they are decoded only once.
type decoded struct {
	stamp  [2]uint64
	facts  *plan.Facts
	unread string // why there are none
}

// observer gathers an observation. Each of its parts adds what it knows, under its own lock; the observer's lock is
// taken before any of theirs.
type observer struct {
	env
	holding     *holding
	status      *status
	names       *names
	generations *generations
	data        *dataDir
	newest      *newest
	restoring   *restoring
	upkeep      *upkeep
	learners    *learners

	stopping atomic.Bool // the process was told to end

	mu     sync.Mutex // also guards the wanted slots of the configuration
	began  time.Time  // the process; set by begin
	seen   map[string]decoded
	claims claims
}

// claims are the live nodes, each with its disk.
type claims struct {
	text  string
	since time.Time
}

// begin notes that the process begins.
func (ob *observer) begin() {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	ob.began = time.Now()
}

// ends reports whether the process was told to end.
func (ob *observer) ends() bool { return ob.stopping.Load() }

// want sets the wanted slots, sorted.
func (ob *observer) want(slots []string, unset bool) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	ob.cfg.Plan.Slots, ob.cfg.Unset = slots, unset
}

// observe gathers everything that is known. ended is not nil if etcd ended on its own for a reason other than a
// removal.
func (ob *observer) observe() (o plan.Observation, ended error) {
	accepted := ob.holding.now().accepted()
	o, ended = ob.gather(ob.world.Mesh.Nodes(accepted))
	// The record was given up meanwhile: witnesses are needed again.
	if accepted && ended == nil && o.Disk.Ledger.Record == nil {
		o, ended = ob.gather(ob.world.Mesh.Nodes(false))
	}
	return o, ended
}

// hear observes as the leader, for whom only members that have answered since the call count as connected.
func (ob *observer) hear(ctx context.Context) plan.Observation {
	answered := ob.world.Etcd.Heard(ctx)
	o, _ := ob.observe()
	o.Member = o.Member.Heard(answered)
	return o
}

func (ob *observer) gather(nodes []Node) (o plan.Observation, ended error) {
	live := map[string]string{}
	member, ended := ob.world.Etcd.State()
	data := ob.data.inspect(member) // not under the lock: a disk may hang
	witnesses := ob.world.Volumes.Witnesses()
	ob.mu.Lock()
	defer ob.mu.Unlock()
	o = plan.Observation{Node: ob.cfg.Node, Config: ob.cfg.Plan, Member: member, Witnesses: witnesses,
		Early: time.Since(ob.began) < early, Stopping: ob.ends()}
	if at, ok := ob.world.Mesh.Twin(); ok {
		o.Twin = at.String()
	}
	ob.names.tell(&o)
	for _, n := range nodes {
		if n.Name != ob.cfg.Node {
			d := ob.decode(n)
			p := plan.Peer{Node: n.Name, Live: n.Live, Facts: d.facts, Unread: d.unread}
			if o.Peers = append(o.Peers, p); p.Live && p.Facts != nil {
				live[p.Node] = p.Facts.Nonce
			}
		}
	}
	if len(ob.seen) > len(nodes) {
		maps.DeleteFunc(ob.seen, func(name string, _ decoded) bool {
			return !slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == name })
		})
	}
	rooms := ob.world.Rooms(ob.holding.tell(&o, data))
	ob.status.set(func(now *Situation) { now.Rooms = rooms })
	o.Claim.Room = rooms.Volume
	o.Member = o.Member.Within(o.Disk.Ledger.Record)
	ob.generations.tell(&o, ob.began, live)
	ob.newest.tell(&o)
	ob.restoring.tell(&o)
	ob.upkeep.tell(&o, time.Now())
	ob.learners.tell(&o, time.Now())
	if ob.cfg.Unset {
		if known := o.Slots(); known != nil {
			o.Config.Slots = known
		}
	}
	o.Stirred = ob.stirred(o)
	return o, ended
}

// stirred reports whether hosts may still be taking slots. When they have been quiet for long enough, it makes the loop
// look again.
func (ob *observer) stirred(o plan.Observation) bool {
	if !o.Config.Yields {
		return false
	}
	now := o.Claim.Disk
	for _, p := range o.Peers {
		if p.Live && p.Facts != nil && p.Facts.Disk != "" { // nodes without a disk that come and go delay nobody
			now += fmt.Sprintf(" %s %s", p.Node, p.Facts.Disk)
		}
	}
	if now != ob.claims.text {
		ob.claims = claims{now, time.Now()}
		time.AfterFunc(settle+time.Millisecond, ob.look)
	}
	return time.Since(ob.claims.since) < settle
}

// decode decodes the facts that a node published. Unreadable facts count as none, with the reason.
func (ob *observer) decode(n Node) decoded {
	if n.State == nil {
		return decoded{}
	}
	if d, ok := ob.seen[n.Name]; ok && d.stamp == n.Stamp {
		return d
	}
	facts, err := ReadFacts(n.State)
	d := decoded{n.Stamp, facts, text(err)}
	if err != nil && d.unread != ob.seen[n.Name].unread {
		ob.lg.Warn("ignored a node's facts", zap.String("node", n.Name), zap.Error(err))
	}
	if old := ob.seen[n.Name].facts; old != nil && d.facts != nil && old.Restore != "" && d.facts.Restore == "" {
		ob.generations.ask() // that node knows the outcome of the restore
	}
	ob.seen[n.Name] = d
	return d
}
