package plan

import (
	"fmt"
	"slices"
)

// A Contest keeps two processes from starting one member, where the member's disk was copied. What the gossip tells of
// the other holder may be older than the copy, so each asks all others directly, right before it starts. The answer is
// the other's facts. Of two that do not run yet these say which comes first: both judge the same facts, so one gives
// way. Where only one has heard of the other, the question tells of it: who was asked while it asks gives up that
// attempt, and asks back in the next one.
//
// One Contest belongs to a process. It is not safe for concurrent use.
type Contest struct {
	ours   Contender            // of the attempt
	askers map[string]Contender // by node
	asked  bool                 // one for the same has, since Whom
	begun  bool                 // the member starts
}

// A Contender is what a node is about to start: a disk, and the member whose data is on it, 0 for none.
type Contender struct {
	Disk   string `json:"disk"`
	Member uint64 `json:"member,omitempty"`
}

// Contender is what this node would start.
func (obs *Observation) Contender() Contender { return Contender{obs.Claim.Disk, obs.Disk.Member} }

// same reports whether both are copies of one.
func (c Contender) same(d Contender) bool {
	return c.Disk != "" && c.Disk == d.Disk || c.Member != 0 && c.Member == d.Member
}

// same reports whether a node holds the same disk as we do, or data of the same member. One of another generation is no
// rival: their tokens differ, so raft does not mix them (R17), and a word about a generation that nothing proves would
// keep us from starting.
func (obs *Observation) same(f *Facts) bool {
	if ours := obs.Disk.Ledger.Record; ours != nil && f.Record != nil && f.Record.ID != ours.ID {
		return false
	}
	return obs.Contender().same(Contender{f.Disk, f.Member})
}

// Asked notes that a node is about to start something. It reports whether the member here starts and gives way no more.
// What else is answered must be observed after the call.
func (c *Contest) Asked(by string, about Contender) (begun bool) {
	if c.askers == nil {
		c.askers = map[string]Contender{}
	}
	c.askers[by] = about
	c.asked = c.asked || c.ours.same(about)
	return c.begun
}

// Forget takes a question back: who asked it does not live, as far as is heard here.
func (c *Contest) Forget(by string) { delete(c.askers, by) }

// Whom begins an attempt to start. It returns the nodes to ask before: every live one, whatever was heard of it. Two
// that have restarted, each on a copy, may both be heard to hold the disks that they held before.
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
		if !live[node] { // or is not heard yet
			c.asked = c.asked || c.ours.same(about)
			c.Forget(node)
		}
	}
	return nodes
}

// Begin reports whether the member may start once those of Whom have let it: nobody has asked meanwhile. From then on,
// until End, it gives way to nobody.
func (c *Contest) Begin() bool {
	c.begun = !c.asked
	return c.begun
}

// End tells that the start is over: the member runs, or does not.
func (c *Contest) End() { c.begun = false }

// An Answer is what a node says of itself right now, nil if it is silent. Gone: its machine says that nobody listens
// there. Deaf: it answers, and could not ask in turn, for it does not hear the asker in the gossip yet.
type Answer struct {
	Facts      *Facts
	Gone, Deaf bool
}

// Obstacle says why the answers to an attempt do not let our member start, "" if they do: one is of a holder of the same
// disk that runs it, or comes first. A node that answers is not gone, no matter who has its lock. Where one that was
// heard to hold the same is silent, or one that has asked for it, the gossip has to tell first whether it lives; and to
// one that holds the same, who asks. One that has our name cannot be asked, and is heard of or not.
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
	if rival, stop := claiming(look(&obs)).rivalry(); stop {
		return rival.Text()
	}
	if obs.Twin != "" {
		return fmt.Sprintf("another live process calls itself %s, at %s", obs.Node, obs.Twin)
	}
	return ""
}
