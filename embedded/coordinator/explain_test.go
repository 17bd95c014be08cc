package coordinator

import (
	"slices"
	"testing"
	"time"

	"holdfast/embedded/plan"
)

func TestSentences(t *testing.T) {
	for why, want := range map[string][]string{
		"":                    {""},
		"one":                 {"one"},
		"one; two":            {"one", "two"},
		"a (b; c); d":         {"a (b; c)", "d"},
		"run `x; y`; or not":  {"run `x; y`", "or not"},
		"a) b; c (never done": {"a) b", "c (never done"},
	} {
		if got := sentences(why); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", why, got, want)
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
			n:    NodeStatus{Reached: true, State: "leader", Action: plan.Wait, Why: "serving as the leader; slot c has no live holder; slot b waits", Problems: []string{"gossip"}},
			does: "serving as the leader", obstacles: []string{"slot c has no live holder", "slot b waits", "gossip"},
		},
		"a blank disk that waits for an operator": {
			n:    NodeStatus{Reached: true, State: "founding", Action: plan.Wait, Why: "the store knows it: run `holdfast found --new`; or wait"},
			does: "waits", obstacles: []string{"the store knows it: run `holdfast found --new`", "or wait"}, commands: []string{"holdfast found --new"},
		},
		"an action that fails": {
			n:    NodeStatus{Reached: true, State: "starting", Action: plan.Start, Why: "it has data", Error: "no room"},
			does: "start: it has data", obstacles: []string{"the last attempt failed: no room"},
		},
		"a node that is gone": {n: NodeStatus{State: "lost", Why: "not heard of"}, does: "unknown", obstacles: []string{"not heard of"}},
		"a claim under way": {
			n:    NodeStatus{Reached: true, State: "claiming", Action: plan.Acquire, Why: "claiming", Claim: &ClaimStatus{State: "attaching", Volume: "vol-1", Why: "EC2 is slow"}},
			does: "acquire: claiming", obstacles: []string{"the claim of vol-1 is attaching: EC2 is slow"},
		},
	} {
		c.n.explain()
		if c.n.Does != c.does || !slices.Equal(c.n.Obstacles, c.obstacles) || !slices.Equal(c.n.Commands, c.commands) {
			t.Errorf("%s: got %q, %q, %q", name, c.n.Does, c.n.Obstacles, c.n.Commands)
		}
	}
}

// The leader's word goes before that of a member that may be behind; without a leader that of any counts.
func TestSummarize(t *testing.T) {
	behind := NodeStatus{Node: "n1", Reached: true, Etcd: &EtcdStatus{}, Paused: &plan.Pause{By: "old"}}
	leader := NodeStatus{Node: "n2", Reached: true, Etcd: &EtcdStatus{Leader: true, HasLeader: true}, Lock: &plan.Lock{Slot: "a"}}
	s := ClusterStatus{Nodes: []NodeStatus{behind, leader}}
	s.summarize()
	if s.Leader != "n2" || s.Paused != nil || s.Lock == nil {
		t.Errorf("with a leader: got %+v", s)
	}
	s = ClusterStatus{Nodes: []NodeStatus{behind}}
	s.summarize()
	if s.Leader != "" || s.Paused == nil {
		t.Errorf("without a leader: got %+v", s)
	}
}

// What is held back only by a pause is what comes after it.
func TestNextAfterAPause(t *testing.T) {
	record := plan.Record{Generation: 1, ID: "r", Charter: plan.Charter{Seats: []plan.Seat{{Slot: "a", Disk: "d1"}, {Slot: "b", Disk: "d2"}, {Slot: "c", Disk: "d3"}}}}
	s := Situation{Observation: plan.Observation{
		Claim: plan.Claim{Held: true, Slot: "a", Disk: "d1"},
		Disk:  plan.Disk{WAL: true, Member: 1, Ledger: plan.Ledger{Record: &record, Role: plan.RoleFounder, Started: "d1"}},
		Member: plan.Member{Running: true, Ready: true, Leader: true, HasLead: true, ID: 1, Members: []plan.MemberInfo{
			{ID: 1, Slot: "a"}, {ID: 2, Slot: "b", Connected: true}, {ID: 3, Slot: "c"}}},
		Peers: []plan.Peer{{Node: "n3", Live: true, Facts: &plan.Facts{Slot: "c", Disk: "d4", Phase: plan.PhaseVacant, Record: &record}}},
	}}
	if got := s.Next(); got != nil {
		t.Errorf("not paused: got %+v", got)
	}
	s.Observation.Member.Paused = &plan.Pause{By: "ops", Since: time.Unix(0, 0)}
	if got := s.Next(); got == nil || got.Action != plan.Replace {
		t.Errorf("paused: got %+v", got)
	}
}
