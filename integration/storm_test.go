package integration_test

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/integration"
)

var (
	seed     = flag.Uint64("seed", 0, "of a storm; 0: another one each time")
	blows    = flag.Int("blows", 20, "of a storm")
	restores = flag.Int("restores", 2, "of the storm of restores")
)

// Nodes are killed, stopped, restarted and paused at random under load. In the end the cluster is healthy, and no
// acknowledged write is lost.
func TestStorm(t *testing.T) {
	story(t)
	random := dice(t)
	c := founded(t, integration.Options{Keys: map[string]any{"snapshot.every": "1s"}})
	before := oneCluster(t, c)
	members := c.Members()
	w := c.Write()
	w.More(50)
	for range *blows {
		strike(c.Nodes[random.IntN(len(c.Nodes))], random)
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond) // until the next blow
	}
	settle(c)
	c.Healthy()
	w.More(20)
	sameCluster(t, c, before, members)
	t.Logf("%d writes were acknowledged; longest time without one: %s", w.Acked(), w.Gap().Round(time.Millisecond))
	w.Verify()
	unscheduled(c)
}

// dice returns the random numbers of a storm, and logs how to see the same storm again.
func dice(t *testing.T) *rand.Rand {
	from := cmp.Or(*seed, rand.Uint64())
	t.Logf("to see this storm again: -run %s -seed %d -blows %d -restores %d", t.Name(), from, *blows, *restores)
	return rand.New(rand.NewPCG(from, 0))
}

// settle has all nodes run after a storm.
func settle(c *integration.Cluster) {
	for _, n := range c.Nodes {
		if n.Paused() {
			n.Continue()
		}
		if !n.Running() {
			n.Start()
		}
	}
}

// strike does to a node one of the things that happen to nodes.
func strike(n *integration.Node, random *rand.Rand) {
	switch {
	case n.Paused():
		n.Continue()
	case !n.Running():
		n.Start()
	default:
		switch random.IntN(4) {
		case 0:
			n.Kill()
		case 1:
			n.Kill()
			n.Start()
		case 2:
			if _, err := n.Self(); err == nil { // before that, the process may not handle SIGTERM yet
				n.Stop()
			}
		case 3:
			n.Pause()
		}
	}
}
