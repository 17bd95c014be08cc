package integration_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/embedded/health"
	"holdfast/integration"
	"holdfast/integration/tier"
)

// unpinned makes a cluster of nodes that take any slot. It starts them one after the other, so that they hold the
// slots in their order, and the rest are standbys.
func unpinned(t *testing.T, nodes int, slots ...string) *integration.Cluster {
	t.Helper()
	c := cluster(t, integration.Options{Nodes: nodes, Slots: slots})
	for i, n := range c.Nodes {
		delete(n.Keys, "volume.local.slot")
		n.Start()
		if i < len(slots) {
			c.Until(patience, n.Name+" holds slot "+slots[i], func() error { return holds(n, slots[i]) })
		}
	}
	members(c, slots...)
	return c
}

func holds(n *integration.Node, slot string) error {
	s, err := n.Self()
	if err == nil && (s.Volume == nil || s.Volume.Slot != slot) {
		err = fmt.Errorf("it is %s: %s", s.State, s.Why)
	}
	return err
}

// want gives nodes other slots while they run.
func want(nodes []*integration.Node, slots ...string) {
	for _, n := range nodes {
		n.Keys["cluster.slots"] = slots
		n.Configure()
		n.Signal(syscall.SIGHUP)
	}
}

// members waits until exactly these slots have voters, and all wanted slots are served.
func members(c *integration.Cluster, slots ...string) {
	voters(c, slots...)
	c.Serving()
}

// voters waits until the members are voters, of exactly these slots.
func voters(c *integration.Cluster, slots ...string) {
	c.Until(90*time.Second, fmt.Sprintf("the members are %v", slots), func() error {
		var leader string
		for _, n := range c.Running() {
			if s, err := n.Self(); err == nil && s.State == "leader" {
				leader = s.Why
			}
		}
		if leader == "" {
			return errors.New("no node leads")
		}
		got := c.Members()
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slots) {
			return fmt.Errorf("they are %v; the leader: %s", slices.Sorted(maps.Keys(got)), leader)
		}
		for _, m := range got {
			if m.Learner {
				return fmt.Errorf("%s is a learner; the leader: %s", m.Name, leader)
			}
		}
		return nil
	})
}

// says waits until a node's own words contain some.
func says(c *integration.Cluster, n *integration.Node, words string) {
	c.Until(patience, n.Name+" says "+words, func() error {
		s, err := n.Self()
		if err == nil && !strings.Contains(s.Why+strings.Join(health.Texts(s.Found), "; "), words) {
			err = fmt.Errorf("it says %s; %v", s.Why, health.Texts(s.Found))
		}
		return err
	})
}

// retired waits until a node has given up its slot, and checks that its data is still there.
func retired(t *testing.T, c *integration.Cluster, n *integration.Node, slot string) {
	t.Helper()
	waitsOnStandby(c, n)
	if aside, err := filepath.Glob(filepath.Join(n.Root, slot, "aside", "*", "member", "wal")); err != nil || len(aside) == 0 {
		t.Errorf("%s has nothing set aside of slot %s: %v", n.Name, slot, err)
	}
}

// One node becomes three, five, three and one, by a configuration that changes on one node after the other. A minority
// changes nothing. The leader is among those that leave. A node that left is a standby with its data set aside, and
// comes back later.
func TestResize(t *testing.T) {
	story(t)
	c := unpinned(t, 5, "a")
	w := c.Write()
	w.More(20)
	want(c.Nodes[:1], "a", "b", "c") // the only voter decides; all others are standbys
	members(c, "a", "b", "c")
	want(c.Nodes[1:], "a", "b", "c")
	w.More(20)

	holder := map[string]*integration.Node{}
	for _, slot := range []string{"a", "b", "c"} {
		holder[slot] = c.Holder(slot)
	}
	five := []string{"a", "b", "c", "d", "e"}
	want([]*integration.Node{holder["a"]}, five...)
	says(c, c.Leader(), "cluster.slots a,b,c,d,e is wanted by 1 of 3 members' nodes ("+holder["a"].Name+"); 2 must want it")
	if got := slices.Sorted(maps.Keys(c.Members())); len(got) != 3 {
		t.Errorf("one of three nodes has changed the members to %v", got)
	}
	want([]*integration.Node{holder["b"]}, five...)
	members(c, five...)
	want(c.Nodes, five...)
	c.Healthy()

	leader := c.Leader()
	s, err := leader.Self()
	must(t, err)
	gone := []string{s.Volume.Slot, "e"}
	if s.Volume.Slot == "e" {
		gone[1] = "d"
	}
	other := c.Holder(gone[1])
	three := slices.DeleteFunc(slices.Clone(five), func(slot string) bool { return slices.Contains(gone, slot) })
	w.Gap()
	want(c.Nodes, three...)
	members(c, three...)
	t.Logf("longest time without a write while two of five, the leader among them, were removed: %s", w.Gap().Round(time.Millisecond))
	decided(t, leader, "hand-over")
	retired(t, c, leader, gone[0])
	retired(t, c, other, gone[1])
	w.More(20)

	want(c.Nodes, three[0])
	members(c, three[0])
	// A client that empties the database deletes our keys as well.
	_, err = dialed(t, c.Leader().ClientURL()).Delete(t.Context(), "holdfast.internal/", clientv3.WithPrefix())
	must(t, err)
	want(c.Nodes, five[:3]...)
	members(c, five[:3]...)
	c.Healthy()
	w.More(20)
	w.Verify()
}

// Five become three while one of those that leave is dead. It is removed first, and comes back as a standby.
func TestShrinkDeadFirst(t *testing.T) {
	story(t)
	c := unpinned(t, 5, "a", "b", "c", "d", "e")
	w := c.Write()
	w.More(20)
	dead, live := c.Nodes[4], c.Nodes[3]
	dead.Kill()
	c.Until(patience, "the dead one is missed", func() error {
		s, err := c.Leader().Self()
		if err == nil && !strings.Contains(s.Why, "slot e") {
			err = errors.New(s.Why)
		}
		return err
	})
	want(c.Nodes[:4], "a", "b", "c")
	members(c, "a", "b", "c")
	retired(t, c, live, "d")
	var all []integration.Decision // different leaders may have removed the two members
	for _, n := range c.Running() {
		all = append(all, n.Decisions()...)
	}
	slices.SortFunc(all, func(a, b integration.Decision) int { return strings.Compare(a.Time, b.Time) })
	var removed []string
	for _, d := range all {
		if d.Action == "remove" {
			removed = append(removed, strings.Fields(d.Why)[1])
		}
	}
	if !slices.Equal(slices.Compact(removed), []string{"e", "d"}) {
		t.Errorf("removed %v, want e, which was dead, and then d", removed)
	}
	dead.Start() // with its old configuration
	retired(t, c, dead, "e")
	says(c, dead, "not a slot of the cluster")
	w.More(20)
	w.Verify()
}

// Nodes are killed at the steps of a resize from three to one, in which the leader and a follower leave. The resize is
// finished.
func TestKillWhileResizing(t *testing.T) {
	t.Parallel() // its parts are stories
	for _, step := range tier.Share(t, 2, []string{"after-resize", "after-shrink", "before-hand-over", "before-retire"}) {
		t.Run(step, func(t *testing.T) {
			story(t)
			c := cluster(t, integration.Options{})
			k := killAtEach(t, step)
			k.start(c.Nodes...)
			members(c, "a", "b", "c")
			w := c.Write()
			w.More(20)
			s, err := c.Leader().Self()
			must(t, err)
			keep := map[string]string{"a": "b", "b": "c", "c": "a"}[s.Volume.Slot] // the leader leaves
			for _, n := range c.Nodes {
				delete(n.Keys, "volume.local.slot")
			}
			want(c.Nodes, keep)
			k.until("only "+keep+" is left", func() error {
				if err := c.Served(); err != nil {
					return err
				}
				all, err := c.ReadMembers() // a single look: a node that dies meanwhile must be started
				if err != nil {
					return err
				}
				if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, []string{keep}) {
					return fmt.Errorf("the members are %v", got)
				}
				for _, n := range c.Nodes { // a node that still has to give up its volume may still be killed
					if s, err := n.Self(); err != nil || s.Volume != nil && s.Volume.Slot != keep {
						return errors.Join(err, fmt.Errorf("%s holds %+v", n.Name, s.Volume))
					}
				}
				return nil
			})
			w.More(20)
			w.Verify()
		})
	}
}

// A node dies after it was admitted as a learner, and its disk is lost. The join is undone, so that another slot can
// join, and done again when the node is back.
func TestJoinUndone(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Nodes: 5})
	lost, other := c.Nodes[3], c.Nodes[4]
	for _, n := range c.Nodes[:3] {
		n.Start()
	}
	members(c, "a", "b", "c")
	w := c.Write()
	w.More(20)
	lost.Start(killAt + "before-accept")
	waitsOnStandby(c, lost)
	want(c.Nodes[:3], "a", "b", "c", "d", "e")
	killed(t, lost, "before-accept")
	lost.Wipe()
	other.Start()
	voters(c, "a", "b", "c", "e")
	undone := false
	for _, n := range c.Running() {
		for _, d := range n.Decisions() {
			undone = undone || d.Action == "remove" && strings.Contains(d.Why, "slot d never started and has no live holder")
		}
	}
	if !undone {
		t.Error("nobody has undone the join of slot d")
	}
	lost.Start()
	members(c, "a", "b", "c", "d", "e")
	w.More(20)
	w.Verify()
}
