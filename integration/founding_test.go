package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/integration/tier"
)

// One node, two, or all are killed at each step of the founding. When they are started again, they found exactly one
// cluster.
func TestKillWhileFounding(t *testing.T) {
	t.Parallel() // its parts are stories
	steps := []string{
		"before-promise", "after-promise", "before-mirror", "before-commit", "after-commit",
		"before-etcd", "after-etcd", "before-start", "after-start",
	}
	type kill struct {
		step    string
		victims int // 0: of a lone founder
	}
	var kills []kill
	for _, step := range steps {
		for victims := range 4 {
			kills = append(kills, kill{step, victims})
		}
	}
	for _, k := range tier.Share(t, 3, kills) {
		if k.victims == 0 {
			t.Run(k.step+"/alone", func(t *testing.T) {
				story(t)
				killWhileFounding(t, k.step, cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}}), 1)
			})
			continue
		}
		t.Run(fmt.Sprintf("%s/%d", k.step, k.victims), func(t *testing.T) {
			story(t)
			killWhileFounding(t, k.step, cluster(t, integration.Options{}), k.victims)
		})
	}
}

func killWhileFounding(t *testing.T, step string, c *integration.Cluster, victims int) {
	k := killAtEach(t, step)
	k.all = true
	k.start(c.Nodes[:victims]...)
	for _, n := range c.Nodes[victims:] {
		n.Start()
	}
	// A victim can wait forever for something that another victim had no time to say, so that one comes back first.
	c.Until(30*time.Second, "the victims have died at "+step+", or wait for one that has", func() error {
		dead, waiting := 0, 0
		for _, n := range c.Nodes[:victims] {
			if !n.Running() {
				dead++
			} else if s, err := n.Self(); err == nil && s.Action == "wait" && s.Etcd == nil {
				waiting++
			}
		}
		if dead == 0 || dead+waiting < victims {
			return fmt.Errorf("%d of %d are dead, %d wait", dead, victims, waiting)
		}
		return nil
	})
	k.until("all serve", c.Served)
	oneCluster(t, c)
	records, err := filepath.Glob(filepath.Join(c.Store, "holdfast", c.Name, "record-*.json"))
	if err != nil || len(records) != 1 {
		t.Errorf("records in the store: %v (%v)", records, err)
	}
	w := c.Write()
	w.More(10)
	w.Verify()
}

// A disk is replaced, and its node, or the leader that replaces its member, is killed at each step of that. In the end
// the slot is a voter again, and the other members are the same.
func TestKillWhileReplacing(t *testing.T) {
	t.Parallel() // its parts are stories
	steps := []string{"before-vacate", "before-accept", "after-accept", "before-etcd", "after-etcd", "before-start", "after-start"}
	for _, step := range tier.Share(t, 3, steps) {
		t.Run(step, func(t *testing.T) {
			story(t)
			killWhileReplacing(t, step, false)
		})
	}
	for _, step := range tier.Share(t, 2, []string{"before-remove", "before-add"}) {
		t.Run(step, func(t *testing.T) {
			story(t)
			killWhileReplacing(t, step, true)
		})
	}
}

func killWhileReplacing(t *testing.T, step string, leader bool) {
	c := cluster(t, integration.Options{})
	n, k := c.Nodes[1], killAtEach(t, step)
	if leader {
		k.start(c.Nodes...)
	} else {
		c.Start()
	}
	c.Serving()
	w := c.Write()
	w.More(20)
	replaced(t, c, n, func() {
		n.Kill()
		n.Wipe()
		k.start(n)
		k.until("slot b is served", c.Served)
	})
	w.More(20)
	w.Verify()
}

// A founding node comes late. The others wait, name its slot, and then all found together.
func TestFoundLate(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	late := c.Nodes[1]
	c.Nodes[0].Start()
	c.Nodes[2].Start()
	c.Nodes[0].Says("slot b has no live holder")
	c.Nodes[2].Says("slot b has no live holder")
	late.Start()
	c.Serving()
	oneCluster(t, c)
	w := c.Write()
	w.More(20)
	w.Verify()
}

// Two of three disks are wiped while the third node is down. No quorum could know better, so all wait, before and
// after the third is back, and nothing is ever founded again.
func TestWipeTwo(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(20)
	w.Stop()
	before := oneCluster(t, c)
	c.Kill()
	for _, n := range c.Nodes[:2] {
		n.Wipe()
		n.Start()
	}
	for _, n := range c.Nodes[:2] {
		n.Says("the backup store knows the cluster as story@1-", "if its disks are only away, bring them back")
	}
	survivor := c.Nodes[2]
	survivor.Start()
	survivor.Says("waits for a quorum", "a: blank on n1", "b: blank on n2")
	for _, n := range c.Nodes[:2] {
		n.Says("the cluster story@1-", "this blank disk founds nothing", "c: running on n3")
		for _, d := range n.Decisions() {
			if d.Action == "promise" || d.Action == "commit" || d.Action == "start" {
				t.Errorf("%s decided to %s: %s", n.Name, d.Action, d.Why)
			}
		}
		if _, err := os.Stat(filepath.Join(n.Volume(), "etcd")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s has etcd data (%v)", n.Name, err)
		}
	}
	s, err := survivor.Self()
	must(t, err)
	if s.Etcd == nil || s.Etcd.Cluster.String() != before {
		t.Errorf("cluster ID of the survivor: got %+v, want %s", s.Etcd, before)
	}
}
