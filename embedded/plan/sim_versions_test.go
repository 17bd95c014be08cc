package plan

import (
	"fmt"
	"slices"
)

// The simulated etcds are of the minors 3.6 and 3.7. A cluster agrees on the lowest of its members' minors, and never
// goes back without a downgrade. An etcd that is older than its cluster's version panics as soon as it learns of that.

// etcd formats a minor as an etcd version: "" in a life without versions.
func etcd(minor int) string {
	if minor == 0 {
		return ""
	}
	return fmt.Sprintf("3.%d.3", minor)
}

// exchange lets the operator put the other holdfast on a node, as an upgrade or a downgrade goes from node to node;
// sometimes on a node that is not ready for it.
func (w *world) exchange() {
	n := w.someNode()
	switch r := w.rng.IntN(20); {
	case r == 0 && w.minor == 6:
		w.minor = 7
		w.note("the operator upgrades")
	case r == 1 && w.minor == 7:
		for _, c := range w.clusters {
			c.downgrade(w)
		}
		w.minor = 6
		w.note("the operator downgrades")
	case n.minor != w.minor:
		n.crash()
		n.minor = w.minor
		w.note("%s has etcd 3.%d", n.name, n.minor)
		w.tally.event("exchanged")
	}
}

// downgrade begins a downgrade, if there is a leader.
func (c *cluster) downgrade(w *world) {
	if c.leader != nil && c.propose(w) {
		c.minor, c.falls = 6, true
	}
}

// agree lets the leader raise the cluster version to the lowest minor of its members, if it has seen them all.
func (c *cluster) agree(w *world) {
	lowest := 7
	for _, m := range c.members {
		r := c.runner(w, m.ID)
		if r == nil || !w.reach(c.leader, r) {
			return
		}
		lowest = min(lowest, r.minor)
	}
	if c.falls = c.falls && lowest > 6; !c.falls && lowest > c.minor && c.propose(w) {
		c.minor = lowest
		w.tally.event("agreed on another minor")
	}
}

// learn lets a member learn the cluster version.
func (n *node) learn(c *cluster) {
	if n.w.versions && n.proc != nil && n.minor < c.minor {
		n.w.tally.event("an older etcd panicked")
		n.crash()
	}
}

// judgeVersions: no node starts an etcd that it could know to be older than its cluster. While the minors differ, only
// what has begun is finished. No learner is admitted that could not start.
func (w *world) judgeVersions(n *node, o Observation, a Action) {
	for _, p := range look(&o).live() { // without nodes that had this disk's lock before
		f := p.Facts
		if f == nil || !f.Running || f.Record == nil || o.Disk.Ledger.Record == nil || f.Record.ID != o.Disk.Ledger.Record.ID {
			continue
		}
		voter := slices.ContainsFunc(o.Member.Members, func(m MemberInfo) bool { return m.ID == f.Member && !m.Learner })
		switch {
		case a.Kind == Start && f.Agreed > etcd(n.minor): // both have one digit
			w.fail("V1: %s starts etcd %s, and %s shows that the cluster is at %s", n.name, etcd(n.minor), p.Node, f.Agreed)
		case (a.Kind == Replace || a.Kind == Remove || a.Kind == Resize) && voter && f.Etcd != etcd(n.minor):
			w.fail("V2: %s decides to %s with etcd %s while %s runs %s", n.name, a.Kind, etcd(n.minor), p.Node, f.Etcd)
		}
	}
	for _, p := range o.Peers {
		if a.Kind == Replace && p.Node == a.Node && p.Facts.Etcd < o.Member.ClusterVersion {
			w.fail("V3: %s admits %s with etcd %s into a cluster at %s", n.name, p.Node, p.Facts.Etcd, o.Member.ClusterVersion)
		}
	}
}
