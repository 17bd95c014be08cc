package integration_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"holdfast/integration"
)

// Three nodes found one cluster. All know the same record, and the member list has names, not addresses. Then the
// followers are killed one after the other, the leader, a majority with the leader, and all at once. As long as there
// is a quorum, the others continue; without one, the survivor waits. All come back by themselves.
func TestLife(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(50)
	before, members := oneCluster(t, c), c.Members()
	c.Healthy()
	for slot, m := range members {
		if got, want := m.PeerURL, "http://"+slot+".story.holdfast.internal:2380"; got != want {
			t.Errorf("peer URL of %s: got %s, want %s", slot, got, want)
		}
	}
	but := func(node *integration.Node) []*integration.Node {
		return slices.DeleteFunc(slices.Clone(c.Nodes), func(n *integration.Node) bool { return n == node })
	}

	for _, n := range but(c.Leader()) {
		n.Kill()
		w.More(50)
		n.Start()
		c.Serving()
	}

	leader := c.Leader()
	w.Gap()
	leader.Kill()
	w.More(50)
	t.Logf("the leader was killed; longest time without a write: %s", w.Gap().Round(time.Millisecond))
	leader.Start()
	c.Serving()

	survivor := but(c.Leader())[0]
	for _, n := range but(survivor) {
		n.Kill()
	}
	survivor.Says("waits for a quorum")
	for _, n := range but(survivor) {
		n.Start()
	}
	c.Serving()
	w.More(20)

	c.Kill()
	c.Start()
	c.Serving()
	w.More(20)
	sameCluster(t, c, before, members)
	w.Verify()
}

// oneCluster checks that all running nodes have the same record and run members of the same etcd cluster, and returns
// its ID.
func oneCluster(t *testing.T, c *integration.Cluster) string {
	t.Helper()
	records, ids := map[string]bool{}, map[string]bool{}
	for _, n := range c.Running() {
		s, err := n.Self()
		must(t, err)
		if s.Etcd == nil || s.Record == nil {
			continue // a standby
		}
		records[s.Record.Token()], ids[s.Etcd.Cluster.String()] = true, true
	}
	if len(records) != 1 || len(ids) != 1 {
		t.Fatalf("not one cluster: records %v, etcd cluster IDs %v", records, ids)
	}
	for id := range ids {
		return id
	}
	return ""
}

// All nodes stop, and start on other addresses with their disks. Nothing in the cluster changes.
func TestMoveAll(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(50)
	w.Stop()
	before := c.Members()
	begin := time.Now()
	c.Stop()
	t.Logf("all stopped in %s", time.Since(begin).Round(time.Millisecond))
	for i, n := range c.Nodes {
		n.Address = c.Address(11 + i)
	}
	begin = time.Now()
	c.Start()
	c.Serving()
	t.Logf("serving after %s", time.Since(begin).Round(time.Millisecond))
	sameMembers(t, c, before)
	again := c.Write()
	again.More(20)
	again.Verify()
	w.Verify()
}

// sameCluster checks that all running nodes run members of the etcd cluster that has this ID and this member list.
func sameCluster(t *testing.T, c *integration.Cluster, id string, members map[string]integration.Member) {
	t.Helper()
	if got := oneCluster(t, c); got != id {
		t.Errorf("cluster ID: got %s, want %s", got, id)
	}
	sameMembers(t, c, members)
}

// sameMembers checks that the member list, with IDs and URLs, has not changed.
func sameMembers(t *testing.T, c *integration.Cluster, before map[string]integration.Member) {
	t.Helper()
	if got := c.Members(); !maps.Equal(got, before) {
		t.Errorf("member list: got %v, want %v", got, before)
	}
}

// A disk is wiped. Its slot comes back as a learner and becomes a voter; the old member is gone.
func TestWipeOne(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(50)
	n := c.Nodes[1]
	replaced(t, c, n, func() {
		n.Kill()
		n.Wipe()
		n.Start()
	})
	decided(t, n, "accept") // as a learner
	w.More(20)
	w.Verify()
}

// replaced checks that after lose the node's slot gets a new member, which begins as a learner.
func replaced(t *testing.T, c *integration.Cluster, n *integration.Node, lose func()) {
	t.Helper()
	slot := n.Keys["volume.local.slot"].(string)
	before := c.Members()
	lose()
	c.Until(60*time.Second, "slot "+slot+" is another voter", func() error {
		m, ok := c.Members()[slot]
		if !ok || m.ID == before[slot].ID || m.Learner {
			return fmt.Errorf("member %x, learner %t; it was %x", m.ID, m.Learner, before[slot].ID)
		}
		return nil
	})
	c.Serving()
	for slot, m := range c.Members() {
		if other := before[slot]; slot != n.Keys["volume.local.slot"] && m != other {
			t.Errorf("member %s: got %v, want %v", slot, m, other)
		}
	}
}
