package plan

import (
	"fmt"
	"slices"
)

// A Contest keeps two processes from starting the same member after the member's disk was copied. What the gossip says
// about the other holder may be older than the copy. So each node asks all others directly, right before it starts, and
// each answers with its facts. If neither runs, both judge the same facts, so exactly one gives way. If only one of
// them has heard of the other, the question itself announces it: a node that is asked while it asks gives up its
// attempt, and asks back in the next one.
//
// One Contest belongs to a process. It is not safe for concurrent use.
type Contest struct {
	ours   Contender            // what this attempt would start
	askers map[string]Contender // by node
	asked  bool                 // since Whom, one asked about the same disk or member
	begun  bool                 // the member starts
}

// A Contender is what a node is about to start: a disk, and the member whose data is on it, 0 if there is none.
type Contender struct {
	Disk   string `json:"disk"`
	Member uint64 `json:"member,omitempty"`
}

// Contender is what this node would start.
func (obs *Observation) Contender() Contender { return Contender{obs.Claim.Disk, obs.Disk.Member} }

// same reports whether one is a copy of the other.
func (c Contender) same(d Contender) bool {
	return c.Disk != "" && c.Disk == d.Disk || c.Member != 0 && c.Member == d.Member
}

// same reports whether a node holds the same disk as we do, or data of the same member. A disk of another generation is
// no rival: the tokens differ, so raft does not mix them (R17). Otherwise an unproven claim about a generation would
// keep us from starting.
func (obs *Observation) same(f *Facts) bool {
	if ours := obs.Disk.Ledger.Record; ours != nil && f.Record != nil && f.Record.ID != ours.ID {
		return false
	}
	return obs.Contender().same(Contender{f.Disk, f.Member})
}

// Asked notes that a node is about to start something. It reports whether the member here is starting and no longer
// gives way. The rest of the answer must be observed after this call.
func (c *Contest) Asked(by string, about Contender) (begun bool) {
	if c.askers == nil {
		c.askers = map[string]Contender{}
	}
	c.askers[by] = about
	c.asked = c.asked || c.ours.same(about)
	return c.begun
}

// Forget drops a node's question, because the gossip does not show that node as live.
func (c *Contest) Forget(by string) { delete(c.askers, by) }

// Whom begins an attempt to start. It returns the nodes to ask: every live one, whatever the gossip says about it. Two
// nodes that restarted, each on a copy, may both still be listed with the disks they held before.
func (c *Contest) Whom(obs *Observation) []string {
	c.ours, c.asked = obs.Contender(), false
	live := map[string]bool{}
	var nodes []string
	for _, p := range obs.Peers {
		if !p.Live {
			continue
		}
		live[p.Node] = true
		nodes = append(nodes, p.Node)
	}
	for node, about := range c.askers {
		if !live[node] { // lost, or not heard of yet
			c.asked = c.asked || c.ours.same(about)
			c.Forget(node)
		}
	}
	return nodes
}

// Begin reports whether the member may start, after the nodes of Whom have allowed it: nobody has asked meanwhile. From
// then until End, the member does not give way.
func (c *Contest) Begin() bool {
	c.begun = !c.asked
	return c.begun
}

// End says that the start is over, whether or not the member runs now.
func (c *Contest) End() { c.begun = false }

// An Answer is what a node says about itself now; Facts is nil if it is silent. Gone: its machine says that nobody
// listens there. Deaf: it answers, but could not ask in turn, because it does not hear the asker in the gossip yet.
type Answer struct {
	Facts      *Facts
	Gone, Deaf bool
}

// Obstacle says why the answers do not let our member start, "" if they do. One of them may come from a holder of the
// same disk that runs it or goes first. A node that answers is not gone, no matter who has its lock. A silent node that
// is said to hold the same disk, or has asked about it, blocks the start until the gossip says whether it is live. A
// node that holds the same disk but does not hear us yet blocks it, too. A node with our own name cannot be asked; we
// can only hear of it in the gossip.
func (c *Contest) Obstacle(obs Observation, answers map[string]Answer) string {
	peers := slices.Clone(obs.Peers)
	for i, p := range peers {
		a, asked := answers[p.Node]
		switch {
		case !asked || a.Gone:
		case a.Facts == nil && (p.Facts != nil && obs.same(p.Facts) || c.askers[p.Node].same(c.ours)):
			return fmt.Sprintf("node %s may hold a copy of this disk or of its member's data, and does not answer: it is "+
				"asked again until it answers or is gone", p.Node)
		case a.Facts != nil && obs.same(a.Facts):
			f := *a.Facts
			f.Lock = ""
			peers[i].Facts = &f
			if a.Deaf {
				return fmt.Sprintf("node %s holds a copy of this disk or of its member's data, and does not hear this node "+
					"in the gossip yet", p.Node)
			}
		}
	}
	obs.Peers = peers
	if rival := claiming(look(&obs)).rivalry(); rival.Kind != "" {
		return rival.Text()
	}
	if obs.Twin != "" {
		return fmt.Sprintf("another live process calls itself %s, at %s", obs.Node, obs.Twin)
	}
	return ""
}
