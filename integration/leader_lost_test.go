package integration_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/embedded/plan"
	"holdfast/integration"
)

// calm is how long after an election a leader is not deposed early, because it may only be suspended. Nothing shows
// its end.
const calm = 11 * time.Second

// lasting is how long a leader is away. One that is back within some two election timeouts was only pausing, and the
// next is not deposed as early.
const lasting = 4 * time.Second

// A leader is lost without any signal: its machine vanishes, and nothing resets its connections; or its process is
// suspended, and the kernel accepts connections for it. The others elect early, once, and give the reason, unless the
// machine is so busy that leaders have paused for long before. Requests to the old leader meanwhile are not lost, and
// it follows later.
func TestLeaderLost(t *testing.T) {
	c, network := onHosts(t)
	c.Healthy()
	lost := func(how string, befall, mend func(leader *integration.Node)) {
		time.Sleep(calm)
		old := c.Leader()
		others := slices.DeleteFunc(slices.Clone(c.Nodes), func(n *integration.Node) bool { return n == old })
		before, early := campaigns(t, others), 1.0
		if pause := sum(t, others, "holdfast_leader_silence_seconds"); pause >= 0.5 {
			t.Logf("%s: leaders have paused before, for %v s: raft's own timers may come first", how, pause)
			early = 0
		}
		w := c.Write(others...)
		w.More(50)
		w.Gap()
		begin := time.Now()
		befall(old)
		c.Until(patience, how+": the others have campaigned, and one leads", func() error {
			if campaigns(t, others) < before+early {
				return errors.New("nobody has campaigned")
			}
			for _, n := range others {
				s, err := n.Self()
				if err != nil {
					return err
				}
				if s.State == "leader" {
					return nil
				}
			}
			return errors.New("nobody leads")
		})
		w.More(50)
		t.Logf("%s: longest time without a write %s", how, w.Gap())
		if got := campaigns(t, others) - before; got < early || got > 1 {
			t.Errorf("%s: %v campaigns, want 1", how, got)
		}
		if early == 1 && !slices.ContainsFunc(others, func(n *integration.Node) bool {
			return contains(past(t, n), "campaign", "done", string(plan.LeaderGone))
		}) {
			t.Errorf("%s: no history names the reason %s", how, plan.LeaderGone)
		}
		for time.Since(begin) < lasting {
			w.More(20)
		}
		mend(old)
		c.Healthy()
		if now := c.Leader(); now == old {
			t.Errorf("%s: %s leads again", how, old.Name)
		}
		w.More(20)
		w.Verify()
	}
	lost("gone", func(n *integration.Node) { must(t, n.Host.Isolate()) }, func(*integration.Node) { must(t, network.Heal()) })
	lost("paused", (*integration.Node).Pause, (*integration.Node).Continue)

	// A connection that is cut in one direction causes no early election.
	time.Sleep(calm)
	old, before := c.Leader(), campaigns(t, c.Nodes)
	follower := c.Nodes[(slices.Index(c.Nodes, old)+1)%3]
	w := c.Write(old)
	must(t, network.Cut(old.Host, follower.Host))
	w.More(200) // takes longer than two election timeouts
	must(t, network.Heal())
	c.Healthy()
	if got := campaigns(t, c.Nodes); got != before {
		t.Errorf("the leader's line to %s broke: %v campaigns, want %v", follower.Name, got, before)
	}
	w.Verify()
}

// campaigns returns how many early elections because of a lost leader the nodes' metrics have counted.
func campaigns(t *testing.T, nodes []*integration.Node) float64 {
	t.Helper()
	return sum(t, nodes, fmt.Sprintf("holdfast_early_campaigns_total{reason=%q}", plan.LeaderGone))
}

// sum adds a metric of the nodes.
func sum(t *testing.T, nodes []*integration.Node, name string) (total float64) {
	t.Helper()
	for _, n := range nodes {
		total += series(t, n, "holdfast_")[name]
	}
	return total
}
