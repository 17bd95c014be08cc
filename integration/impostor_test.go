package integration_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
	"holdfast/integration/tier"
)

// A stray process with the name of the leading node runs for 8 s and is killed. The leader continues to lead, the
// member list and the leader's address stay, and no node restarts. Even a node that starts meanwhile does not take the
// stray for the leader. Another node can be drained all the time, and the finding ends with the stray.
func TestImpostor(t *testing.T) {
	t.Parallel() // its parts are stories
	disguises := map[string]func(t *testing.T, impostor, innocent *integration.Node){
		"a standby": func(*testing.T, *integration.Node, *integration.Node) {},
		"of another slot": func(_ *testing.T, impostor, _ *integration.Node) {
			impostor.Keys["cluster.slots"], impostor.Keys["volume.local.slot"] = []string{"x"}, "x"
		},
		"a copied machine": func(t *testing.T, impostor, innocent *integration.Node) {
			impostor.Keys["volume.local.slot"] = innocent.Keys["volume.local.slot"]
			place(t, innocent.Volume(), filepath.Join(impostor.Root, filepath.Base(innocent.Volume())))
		},
	}
	for _, name := range tier.One(t, disguises) {
		t.Run(name, func(t *testing.T) {
			story(t)
			c := founded(t, integration.Options{})
			c.Healthy()
			w := c.Write()
			w.More(50)
			before, innocent := c.Members(), c.Leader()
			was, err := innocent.Self()
			must(t, err)
			others := slices.DeleteFunc(slices.Clone(c.Nodes), func(n *integration.Node) bool { return n == innocent })
			still := func() error { return known(c, innocent, false) }

			stray := cluster(t, integration.Options{Nodes: 1, Keys: map[string]any{
				"cluster.slots": c.Slots, "gossip.seeds": []string{c.Nodes[0].Address, c.Nodes[1].Address}, "snapshot.store": c.Store,
			}})
			impostor := stray.Nodes[0]
			impostor.Name, impostor.Address = innocent.Name, c.Address(9)
			delete(impostor.Keys, "volume.local.slot")
			disguises[name](t, impostor, innocent)
			impostor.Start()
			began := time.Now()
			impostor.Says("another live process calls itself "+innocent.Name, innocent.Address)
			c.Until(patience, "the leader says who has its name", func() error { return finds(innocent, "node.name", impostor.Address) })
			views(t, c, health.Healthy)
			drained(t, c, others[0], still)
			others[1].Kill()
			others[1].Start()
			c.Until(patience, "who has restarted knows the leader", func() error { return known(c, innocent, true) })
			during(t, c, 8*time.Second-time.Since(began), "the stray lives", still, func() error { return nil })
			w.More(50)
			alive(t, impostor)
			impostor.Kill()

			during(t, c, 8*time.Second, "every node reaches the leader", still, func() error { return known(c, innocent, true) })
			drained(t, c, others[1], still)
			c.Healthy()
			sameMembers(t, c, before)
			if is, err := innocent.Self(); err != nil || is.Etcd == nil || !is.Etcd.Leader || is.Etcd.Term != was.Etcd.Term {
				t.Errorf("%s leads no more, or again: %+v, %v; it did at term %d", innocent.Name, is.Etcd, err, was.Etcd.Term)
			}
			w.More(50)
			w.Verify()
		})
	}
}

// known returns nil if every running node sees a node as live and knows its address and, if asked for, the node has
// answered each of them as the leader.
func known(c *integration.Cluster, innocent *integration.Node, answers bool) error {
	for _, n := range c.Running() {
		s, err := n.Status()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.Nodes, func(m health.NodeStatus) bool { return m.Node == innocent.Name })
		switch {
		case i < 0:
			return fmt.Errorf("%s does not know %s", n.Name, innocent.Name)
		case !s.Nodes[i].Live || s.Nodes[i].Address != innocent.Address:
			return fmt.Errorf("%s takes %s to be at %s, live %v", n.Name, innocent.Name, s.Nodes[i].Address, s.Nodes[i].Live)
		case answers && (!s.Nodes[i].Reached || s.Leader != innocent.Name):
			return fmt.Errorf("%s has no answer of %s as the leader: %+v", n.Name, innocent.Name, s.Nodes[i])
		}
	}
	return nil
}

// drained drains a node and takes that back. Meanwhile, still must always return nil.
func drained(t *testing.T, c *integration.Cluster, n *integration.Node, still func() error) {
	t.Helper()
	c.Until(patience, n.Name+" is drained", func() error {
		must(t, still())
		if out := n.Command("drain"); out.Code != 0 {
			return fmt.Errorf("%+v", out)
		}
		return nil
	})
	done(t, n, "undrain")
	c.Until(patience, n.Name+" serves again", func() error {
		must(t, still())
		s, err := n.Self()
		if err == nil && (s.Etcd == nil || !s.Etcd.Confirmed) {
			err = fmt.Errorf("it is %s: %s", s.State, s.Why)
		}
		return err
	})
	unlocked(c)
}
