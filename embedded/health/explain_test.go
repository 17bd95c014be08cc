package health

import (
	"slices"
	"testing"

	"holdfast/embedded/plan"
)

func TestDoing(t *testing.T) {
	for want, n := range map[string]NodeStatus{
		"serving as a follower":    {Reached: true, State: "follower", Action: plan.Wait, Why: "serving as a follower"},
		"waits: no quorum":         {Reached: true, State: "waiting", Action: plan.Wait, Why: "no quorum"},
		"replace: slot a is blank": {Reached: true, State: "leader", Action: plan.Replace, Why: "slot a is blank"},
		"standing by: all held":    {Reached: true, State: Standby, Action: plan.Acquire, Why: "standing by: all held"},
		"lost: not heard":          {State: "lost", Action: plan.Wait, Why: "not heard"},
	} {
		if got := n.Doing(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	for name, c := range map[string]struct {
		n         NodeStatus
		does      string
		obstacles []string
		commands  []string
	}{
		"a healthy follower": {n: NodeStatus{Reached: true, State: "follower", Action: plan.Wait, Why: "serving as a follower"}, does: "serving as a follower"},
		"a leader that lacks something": {
			n: NodeStatus{Reached: true, State: "leader", Action: plan.Wait, Found: []Finding{{Text: "gossip", Severity: Degrading}, {Text: "a seed", Severity: Warning}},
				Decision: &Decision{Why: "serving as the leader", Obstacles: []string{"slot c has no live holder", "slot b waits"}}},
			does: "serving as the leader", obstacles: []string{"slot c has no live holder", "slot b waits", "gossip"},
		},
		"a blank disk that waits for an operator": {
			n: NodeStatus{Reached: true, State: "founding", Action: plan.Wait, Decision: Decided(plan.Action{
				Why: "the store knows it; run it, or wait", Obstacles: []string{"and more"}, Commands: []plan.Command{"found --new"}})},
			does: "waits", obstacles: []string{"the store knows it; run it, or wait", "and more"}, commands: []string{"holdfast found --new"},
		},
		"a warning where it waits": {
			n: NodeStatus{Reached: true, State: "founding", Action: plan.Wait, Found: []Finding{{Text: "a seed", Severity: Warning}},
				Decision: &Decision{Why: "slot c is missing"}},
			does: "waits", obstacles: []string{"slot c is missing", "a seed"},
		},
		"an action that fails": {
			n:    NodeStatus{Reached: true, State: "starting", Action: plan.Start, Why: "it has data", Error: "no room"},
			does: "start: it has data", obstacles: []string{"the last attempt failed: no room"},
		},
		"a node that is gone": {n: NodeStatus{State: "lost", Why: "not heard of"}, does: "unknown", obstacles: []string{"not heard of"}},
		"a claim under way": {
			n:    NodeStatus{Reached: true, State: "claiming", Action: plan.Acquire, Why: "claiming", Claim: &ClaimStatus{State: "attaching", Volume: "vol-1", Why: "EC2 is slow"}},
			does: "claiming", obstacles: []string{"the claim of vol-1 is attaching: EC2 is slow"},
		},
	} {
		c.n.explain()
		if c.n.Does != c.does || !slices.Equal(c.n.Obstacles, c.obstacles) || !slices.Equal(c.n.Commands, c.commands) {
			t.Errorf("%s: got %q, %q, %q", name, c.n.Does, c.n.Obstacles, c.n.Commands)
		}
	}
}

// The leader's state goes before that of a member that may be behind. Without a leader, any member's counts.
func TestSummarize(t *testing.T) {
	behind := NodeStatus{Node: "n1", Reached: true, Etcd: &EtcdStatus{}, Paused: &plan.Pause{By: "old"}}
	leader := NodeStatus{Node: "n2", Reached: true, Etcd: &EtcdStatus{Status: plan.Status{Leader: true, HasLead: true, Confirmed: true, Term: 3}}, Lock: &plan.Lock{Slot: "a"}}
	s := ClusterStatus{Nodes: []NodeStatus{behind, leader}}
	s.summarize()
	if s.Leader != "n2" || s.Paused != nil || s.Lock == nil {
		t.Errorf("with a leader: got %+v", s)
	}
	for what, etcd := range map[string]plan.Status{ // this member does not know yet that it no longer leads
		"one that is not confirmed": {Leader: true, HasLead: true, Term: 4}, "one of an earlier term": {Leader: true, HasLead: true, Confirmed: true, Term: 2},
	} {
		old := behind
		old.Etcd = &EtcdStatus{Status: etcd}
		for _, nodes := range [][]NodeStatus{{old, leader}, {leader, old}} {
			s = ClusterStatus{Nodes: nodes}
			if s.summarize(); s.Leader != "n2" || s.Paused != nil || s.Lock == nil {
				t.Errorf("beside %s: got %+v", what, s)
			}
		}
	}
	s = ClusterStatus{Nodes: []NodeStatus{behind}}
	s.summarize()
	if s.Leader != "" || s.Paused == nil {
		t.Errorf("without a leader: got %+v", s)
	}
}
