package gossip

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

func watcher(name string) Meta {
	m := node(name)
	m.Observer = true
	return m
}

// Observers come, are told what nodes say, and go, and no node has ever heard of another node.
func TestObserversDisturbNobody(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	a.Publish([]byte("fact"))
	one := start(t, "main", watcher("a"), seeded(a)) // on a's host, with its name
	two := start(t, "main", watcher("x"), seeded(one))
	for _, m := range []*member{one, two} {
		await(t, "the observer sees a", 5*time.Second, sees(m, "a"))
		await(t, "the observer is told what a says", 5*time.Second, says(m, "a", "fact"))
	}
	two.Publish([]byte("an observer's word"))
	b := start(t, "main", node("b"), seeded(two)) // an observer as the seed
	await(t, "b sees a", 5*time.Second, sees(b, "a"))
	await(t, "a sees b", 5*time.Second, sees(a, "b"))
	b.Publish([]byte("news"))
	await(t, "an observer is told news", 5*time.Second, says(one, "b", "news"))
	await(t, "a knows both observers", 5*time.Second, func() bool { return len(a.Observers()) == 2 })
	for _, m := range []*member{a, b, one, two} {
		if n := m.Nodes(); len(n) != 2 || n[0].Node != "a" || n[1].Node != "b" || n[0].Observer || n[1].Observer {
			t.Errorf("nodes of %s: got %+v, want a and b", m.self.process(), n)
		}
		if at, ok := m.Twin(); ok {
			t.Errorf("%s has a twin at %s", m.self.process(), at)
		}
	}
	one.stop()
	two.stop()
	await(t, "the observers are forgotten", 8*time.Second, func() bool { return len(a.Observers())+len(b.Observers()) == 0 })
	if got := a.count(false); got != 0 {
		t.Errorf("lost nodes: got %v, want none", got)
	}
}

// A node that has nobody but observers still looks for the others as eagerly as one that is alone.
func TestObserversAreNoCompany(t *testing.T) {
	now := time.Unix(1, 0)
	m := newMesh(t)
	mark := process("x", 3)
	mark.Observer = true
	m.view.up(mark, at, now)
	if !m.alone() {
		t.Error("an observer is taken for company")
	}
	if v := m.view.twins(now.Add(time.Hour)); len(v) != 0 {
		t.Errorf("twins: got %v", v)
	}
	if m.view.learn(entry{Meta: mark, Seq: 1, State: []byte("an observer's word")}, now) || len(m.Nodes()) != 1 {
		t.Errorf("an observer's word is taken: %+v", m.Nodes())
	}
	m.view.up(process("y", 4), at, now)
	if m.alone() {
		t.Error("a node is no company")
	}
}

// However many observers there are, nodes find room, and at one address there are few.
func TestObserversLeaveRoom(t *testing.T) {
	m := newMesh(t)
	accepted, ip := 0, netip.MustParseAddr("10.1.0.1")
	come := func(i int, observer bool) {
		meta := process(fmt.Sprintf("x%d", i), uint64(i+1))
		meta.Observer = observer
		if m.room(meta, ip) {
			m.view.up(meta, netip.AddrPortFrom(ip, 1), time.Unix(1, 0))
			accepted++
		}
	}
	for i := range 2 * maxObservers {
		if come(2*i, true); i%maxOfAddress == 0 {
			come(2*i+1, true) // for some address this is the one too many
			ip = ip.Next()
		}
	}
	if accepted != maxObservers {
		t.Errorf("observers: got %d, want %d", accepted, maxObservers)
	}
	for i := range maxNodes {
		come(-2-i, false)
	}
	if got := accepted - maxObservers; got != maxNodes-1 {
		t.Errorf("nodes beside them: got %d, want %d", got, maxNodes-1)
	}
	accepted = 0
	m = newMesh(t)
	for i := range 2 * maxOfAddress {
		come(i, true)
	}
	if accepted != maxOfAddress {
		t.Errorf("observers at one address: got %d, want %d", accepted, maxOfAddress)
	}
}
