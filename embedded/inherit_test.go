package embedded

import (
	"context"
	"sync"
	"testing"
	"time"
)

// stopBound is less than the 7 s of etcd's own hand-over to an absent heir, and more than the promised 2 s may take on
// a busy machine.
const stopBound = 5 * time.Second

// moveTo makes the leader of nodes hand over to heir.
func moveTo(t *testing.T, nodes []*node, heir *node) {
	t.Helper()
	leader := leaderOf(nodes)
	if leader == heir {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	srv := heir.current().etcd.Server
	if err := moveLeader(ctx, leader.current().etcd.Server, srv.MemberID()); err != nil {
		t.Fatalf("hand over to %s: %v", heir.spec.Slot, err)
	}
	await(t, "the heir leads", func() bool { return srv.Leader() == srv.MemberID() })
}

// A follower is told to stop, and then inherits the leadership from a leader that stops as well. The others are still
// connected but take nothing over, because they are leaving. etcd's own hand-over would wait 7 s for one of them.
func TestInheritWhileLeaving(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	nodes := found(t, "a", "b", "c")
	leader := leaderOf(nodes)
	var heir *node
	for _, n := range nodes {
		if n != leader {
			heir = n
		}
	}
	l := heir.current()
	l.retire(t.Context(), 10*time.Second) // as a follower, which has nothing to hand over
	moveTo(t, nodes, heir)
	for _, n := range nodes {
		if n != heir {
			n.current().etcd.Server.PauseSending()
		}
	}
	begin := time.Now()
	stop(t, heir, 10*time.Second)
	if took := time.Since(begin); took > stopBound {
		t.Errorf("the stop took %s, want at most %s", took, stopBound)
	}
}

// The leader hands over, and its heir is stopped meanwhile. Neither waits for the other.
func TestStopHeir(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	nodes := found(t, "a", "b", "c")
	leader := leaderOf(nodes)
	var stops sync.WaitGroup
	end := func(n *node) {
		begin := time.Now()
		stop(t, n, 10*time.Second)
		took := time.Since(begin)
		t.Logf("%s stopped in %s", n.spec.Slot, took.Round(time.Millisecond))
		if took > stopBound {
			t.Errorf("the stop of %s took %s, want at most %s", n.spec.Slot, took, stopBound)
		}
	}
	stops.Go(func() { end(leader) })
	heir := leader
	await(t, "another one leads", func() bool {
		for _, n := range nodes {
			if n != leader && n.Status().Leader {
				heir = n
			}
		}
		return heir != leader
	})
	end(heir)
	stops.Wait()
}
