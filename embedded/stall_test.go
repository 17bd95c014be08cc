package embedded

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"holdfast/embedded/plan"
	"holdfast/volume/device/devicetest"
)

// stallable founds three members, each on a disk of its own, and returns where the disks are mounted.
func stallable(t *testing.T) (nodes []*node, disks map[*node]string) {
	t.Helper()
	disks = map[*node]string{}
	peers := map[string]string{}
	for _, slot := range []string{"a", "b", "c"} {
		n := newNode(t, slot)
		disks[n] = devicetest.New(t, devicetest.Small).Mount(t)
		n.spec.DataDir = filepath.Join(disks[n], "etcd")
		peers[slot] = n.spec.PeerURL
		nodes = append(nodes, n)
	}
	return runAll(t, nodes, peers), disks
}

// leads waits until all nodes are confirmed and one of them leads, and returns that one.
func leads(t *testing.T, nodes ...*node) (leader *node) {
	t.Helper()
	await(t, "all are confirmed and one leads", func() bool {
		leader = nil
		for _, n := range nodes {
			switch s := n.Status(); {
			case !s.Confirmed, s.Leader && leader != nil:
				return false
			case s.Leader:
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// prompt returns a member's status, which must come at once.
func prompt(t *testing.T, n *node) plan.Member {
	t.Helper()
	begun := time.Now()
	s := n.Status()
	_, _, _ = n.Key("slots")
	if took := time.Since(begun); took > 3*glimpseWait {
		t.Errorf("it took %s for %s to say how it is", took, n.spec.Slot)
	}
	return s
}

// This shows on a real disk what a stall does to a member. Everything that confirmation and docs/operating.md say of it
// rests on this test.
func TestStalledDisk(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for elections")
	}
	nodes, disks := stallable(t)
	others := func(of *node) []*node {
		return slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return n == of })
	}
	leader := leads(t, nodes...)

	t.Run("leader", func(t *testing.T) { // of an idle cluster
		old := leader
		before := old.Status()
		thaw := devicetest.Freeze(t, disks[old])
		defer thaw()
		leader = leads(t, others(old)...)
		if s := leader.Status(); s.Term <= before.Term || s.Revision != before.Revision {
			t.Errorf("the new leader is at term %d, revision %d; want a later term than %d, and revision %d", s.Term, s.Revision, before.Term, before.Revision)
		}
		// The old leader claims to lead forever, but it is not confirmed.
		await(t, "the old leader is not confirmed", func() bool { s := prompt(t, old); return !s.Confirmed && s.Stalled })
		s := prompt(t, old)
		if !s.Leader || s.Term != before.Term {
			t.Errorf("the old leader says leader %v, term %d: raft's state reached it although its loop is stopped", s.Leader, s.Term)
		}
		// It cannot hand the leadership over either: that goes through the same loop.
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		srv := old.current().server()
		if err := srv.MoveLeader(ctx, uint64(srv.MemberID()), leader.Status().ID); err == nil {
			t.Error("a leader whose disk stalls has handed the leadership over")
		}
		put(t, leader.client(t), "k", "served")
		thaw()
		if got := leads(t, nodes...); got == old {
			t.Errorf("%s leads again", old.spec.Slot)
		}
		await(t, "the old leader has what was written meanwhile", func() bool { return old.Status().Revision == before.Revision+1 })
	})
	leader = leads(t, nodes...)

	t.Run("follower", func(t *testing.T) {
		victim := others(leader)[0]
		thaw := devicetest.Freeze(t, disks[victim])
		defer thaw()
		await(t, "it is not confirmed", func() bool { s := prompt(t, victim); return !s.Confirmed && s.Stalled })
		if got := leads(t, others(victim)...); got != leader {
			t.Errorf("%s leads now, want %s", got.spec.Slot, leader.spec.Slot)
		}
		thaw()
		leads(t, nodes...)
	})

	leader = leads(t, nodes...)

	// Raft gives up a hand-over to such an heir, and reports that to nobody. Another heir gets the leadership.
	t.Run("heir", func(t *testing.T) {
		id, _ := heirOf(leader.current().server(), nil)
		heir := others(leader)[0]
		if heir.Status().ID != uint64(id) {
			heir = others(leader)[1]
		}
		thaw := devicetest.Freeze(t, disks[heir])
		defer thaw()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := leader.TransferLeadership(ctx); err != nil {
			t.Fatal(err)
		}
		if got := leads(t, others(heir)...); got == leader {
			t.Error("it leads still")
		}
	})
	leader = leads(t, nodes...)

	t.Run("killed", func(t *testing.T) {
		defer devicetest.Freeze(t, disks[leader])()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		srv := leader.current().server()
		_, _ = srv.Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: []byte("hangs")})
		begun := time.Now()
		leader.Kill()
		if took := time.Since(begun); took > 2*killWait {
			t.Errorf("a member whose disk stalls was killed within %s, want %s", took, killWait)
		}
	})
}
