package coordinator

import (
	"testing"
	"time"

	"holdfast/embedded/plan"
)

func TestLearnerIsStuck(t *testing.T) {
	var l learners
	start := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	for _, at := range []struct {
		name               string
		minute             int
		matched            uint64
		receiving, follows bool
		cut                bool // off from us
		want               bool
	}{
		{"new", 0, 0, false, false, false, false},
		{"has not begun", 4, 0, false, false, false, false},
		{"never began", 5, 0, false, false, false, true},
		{"begins after all", 6, 10, false, false, false, false},
		{"no further", 10, 10, false, false, false, false},
		{"stays where it was", 11, 10, false, false, false, true},
		{"is being sent a database", 12, 10, true, false, false, false},
		{"for too long", 36, 10, true, false, false, true},
		{"in sync, and not promoted", 37, 95, false, false, false, false},
		{"still in sync", 50, 95, false, false, false, false},
		{"in sync, and cut off", 51, 95, false, false, true, false},
		{"for too long as well", 55, 95, false, false, true, true},
		{"connected again", 55, 95, false, false, false, false},
		{"we lead no more", 56, 95, false, true, false, false},
		{"we lead again", 60, 10, false, false, false, false},
		{"from then on", 64, 10, false, false, false, false},
		{"for five minutes", 65, 10, false, false, false, true},
	} {
		told := []plan.MemberInfo{{ID: 1, Slot: "a", Matched: 100}, {ID: 2, Slot: "b", Matched: 3},
			{ID: 9, Slot: "c", Learner: true, Matched: at.matched, Receiving: at.receiving, Connected: !at.cut}}
		o := plan.Observation{Member: plan.Member{Running: true, Status: plan.Status{Leader: !at.follows}, ID: 1, Members: told}}
		l.tell(&o, start.Add(time.Duration(at.minute)*time.Minute))
		if m := o.Member.Members; m[2].Stuck != at.want || m[0].Stuck || m[1].Stuck {
			t.Errorf("%s: got %+v, want stuck %v", at.name, m, at.want)
		}
		if told[2].Stuck {
			t.Errorf("%s: what etcd told was changed", at.name)
		}
	}
}

// TestLearnerWithoutProgressKnown: if raft reports no progress for the leader itself, a connected learner is not stuck.
func TestLearnerWithoutProgressKnown(t *testing.T) {
	for _, connected := range []bool{true, false} {
		var l learners
		o := plan.Observation{Member: plan.Member{Status: plan.Status{Leader: true}, ID: 1, Members: []plan.MemberInfo{{ID: 1}, {ID: 9, Learner: true, Connected: connected}}}}
		start := time.Now()
		l.tell(&o, start)
		if l.tell(&o, start.Add(stuckAfter)); o.Member.Members[1].Stuck == connected {
			t.Errorf("connected %v: got %+v", connected, o.Member.Members[1])
		}
	}
}
