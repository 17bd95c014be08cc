package embedded

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"holdfast/embedded/plan"
)

// What is not looked at in time does not count: this process was starved, or stopped.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulse
		look := func(mark float64, pause, want time.Duration) {
			t.Helper()
			time.Sleep(pause)
			if got, _ := p.silence(1, mark, 0); got != want {
				t.Errorf("pulse: silent for %s, want %s", got, want)
			}
		}
		look(1, time.Hour, 0)
		look(1, 5*time.Millisecond, 5*time.Millisecond)
		look(1, 40*time.Millisecond, 45*time.Millisecond)
		look(1, time.Hour, 85*time.Millisecond)
		look(2, 5*time.Millisecond, 0)
		look(2, 5*time.Millisecond, 5*time.Millisecond)
		if got, _ := p.silence(2, 2, 0); got != 0 {
			t.Errorf("pulse: another leader is silent for %s", got)
		}
	})
}

// A look rests after a heartbeat, until shortly before the next, and only then: not while more comes, nor while nothing
// does. The rest counts as silence, and no other pause does.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulse
		look := func(of types.ID, mark float64, pause, silence, rest time.Duration) {
			t.Helper()
			time.Sleep(pause)
			if s, r := p.silence(of, mark, 100*time.Millisecond); s != silence || r != rest {
				t.Errorf("rest: silent for %s, rests for %s; want %s and %s", s, r, silence, rest)
			}
		}
		const most = 95 * time.Millisecond
		look(1, 1000, 0, 0, 0)
		look(1, 1030, time.Millisecond, 0, most)
		look(1, 1030, most, most, 0)
		look(1, 1030, time.Hour, most+starved, 0)
		look(1, 1060, time.Millisecond, 0, most)
		look(1, 1060, time.Hour, most+starved, 0)
		look(1, 1060+heartbeats, time.Millisecond, 0, 0)
		look(1, math.NaN(), time.Millisecond, 0, 0)
		look(1, math.NaN(), time.Millisecond, 0, 0)
		look(1, 1000, time.Millisecond, 0, 0)
		look(1, 1030, time.Millisecond, 0, most)
		look(2, 1030, most, 0, 0)
		look(2, 1030, time.Hour, starved, 0)
	})
}

// Each leader but the first one counts, also the same one in another term; an election that brings none does not.
func TestElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulse
		for _, c := range []struct {
			lead, term uint64
			want       time.Duration
		}{{0, 4, 0}, {1, 5, 0}, {1, 5, 0}, {0, 6, 0}, {1, 7, 0}, {1, 7, time.Second}, {0, 8, 2 * time.Second}, {2, 8, 0}, {2, 8, time.Second}} {
			if got := p.elected(c.lead, c.term); got != c.want {
				t.Errorf("elected: %d leads in term %d: got %s, want %s", c.lead, c.term, got, c.want)
			}
			time.Sleep(time.Second)
		}
	})
}

// Where there is no leader, nothing is counted.
func TestReceivedOfNone(t *testing.T) {
	receivedBytes().DeleteLabelValues("0") // etcd itself counts messages of nobody, as members of other tests had them
	if !math.IsNaN(received(0)) || receivedBytes().DeleteLabelValues("0") {
		t.Error("received: there is a series of the member 0")
	}
}

// A leader's disk hangs where another's has written more.
func TestHanging(t *testing.T) {
	at := func(mine, other uint64) bool {
		s := raft.Status{BasicStatus: raft.BasicStatus{ID: 1}, Progress: map[uint64]tracker.Progress{1: {Match: mine}, 2: {Match: other}, 3: {Match: 1}}}
		return !math.IsNaN(hanging(s))
	}
	for _, c := range []struct {
		mine, other uint64
		want        bool
	}{{5, 5, false}, {6, 5, false}, {5, 6, true}} {
		if got := at(c.mine, c.other); got != c.want {
			t.Errorf("hanging: %d of %d written: got %v, want %v", c.mine, c.other, got, c.want)
		}
	}
}

// Three members tell their standings: a leader's bytes are counted, and a follower that is told to campaign leads,
// though the leader lives.
func TestCampaign(t *testing.T) {
	peers := map[string]string{}
	var nodes []*node
	for _, slot := range []string{"a", "b", "c"} {
		n := newNode(t, slot)
		peers[slot] = n.spec.PeerURL
		nodes = append(nodes, n)
	}
	nodes = runAll(t, nodes, peers)
	old := leads(t, nodes...)
	heir := nodes[(slices.Index(nodes, old)+1)%3]
	var s plan.Standing
	await(t, "it is connected", func() bool { s = heir.Standing(); return len(s.Near) == 2 })
	if !s.Running || !s.Voter || s.ID != heir.Status().ID || s.Lead != old.Status().ID || len(s.Voters) != 3 ||
		s.End == (plan.LogEnd{}) || s.Beat != plan.Beat(50*time.Millisecond, 500*time.Millisecond) {
		t.Errorf("standing: got %+v", s)
	}
	if lead := old.current().server().MemberID(); math.IsNaN(received(lead)) {
		t.Error("etcd counts the bytes that came from a member elsewhere: nobody is ever silent")
	}
	if err := heir.Campaign(soon(t), s); err != nil {
		t.Fatal(err)
	}
	await(t, "it leads", func() bool { now := heir.Standing(); return now.Lead == now.ID && now.Term > s.Term })
}

// A member that answers nothing while a leader looks does not count any more; one look after a long pause says nothing.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		look := func(mark float64, pause time.Duration, want bool) {
			t.Helper()
			time.Sleep(pause)
			if got := a.missing(1, mark, time.Second); got != want {
				t.Errorf("answers: after %s with %v missing is %t, want %t", pause, mark, got, want)
			}
		}
		look(1, 0, false)
		look(1, time.Hour, false)
		look(2, time.Second, false)
		look(2, 1500*time.Millisecond, false)
		look(2, time.Second, false)
		look(2, 999*time.Millisecond, false)
		look(2, time.Millisecond, true)
		a.forget() // it leads no more, and then leads again
		look(2, time.Millisecond, false)
		look(3, time.Hour, false)
		look(math.NaN(), time.Hour, false) // nothing is known of it
		look(math.NaN(), time.Hour, false)
		look(math.NaN(), time.Hour, false)
		look(math.NaN(), time.Hour, false)
		for mark := range 6 { // one chatters, and the other says nothing
			time.Sleep(time.Second)
			if a.missing(2, float64(mark), time.Second) {
				t.Error("answers: another member is missing")
			}
			look(4, 0, mark >= unanswered)
		}
	})
}
