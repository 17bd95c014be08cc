package integration_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/integration"
)

var (
	seed  = flag.Uint64("seed", 0, "of the restart storm; 0: another one each time")
	blows = flag.Int("blows", 20, "of the restart storm")
)

// Nodes are killed, stopped, restarted and paused at random under load. In the end the cluster is healthy, and no
// acknowledged write is lost.
func TestStorm(t *testing.T) {
	story(t)
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("to see this storm again: -run TestStorm -seed %d -blows %d", *seed, *blows)
	random := rand.New(rand.NewPCG(*seed, 0))
	c := founded(t, integration.Options{Keys: map[string]any{"snapshot.every": "1s"}})
	before := oneCluster(t, c)
	members := c.Members()
	w := c.Write()
	w.More(50)
	for range *blows {
		strike(c.Nodes[random.IntN(len(c.Nodes))], random)
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond) // until the next blow
	}
	for _, n := range c.Nodes {
		if n.Paused() {
			n.Continue()
		}
		if !n.Running() {
			n.Start()
		}
	}
	c.Healthy()
	w.More(20)
	sameCluster(t, c, before, members)
	t.Logf("%d writes were acknowledged; longest time without one: %s", w.Acked(), w.Gap().Round(time.Millisecond))
	w.Verify()
	unscheduled(c)
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
