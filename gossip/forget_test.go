package gossip

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

const day = 24 * time.Hour

// witness is the state of a node that knows a cluster.
const witness = "record"

func forgetful(self Meta, now time.Time) *view {
	v := newView(self, now)
	v.forgetAfter, v.settled = day, true
	v.evidence = func(state []byte) bool { return string(state) == witness }
	return v
}

// tell passes all that one view knows to another, as a push/pull does.
func tell(t *testing.T, from, to *view, now time.Time) {
	t.Helper()
	from.fade(now)
	all, err := decodeWords(from.words(now).encode())
	must(t, err)
	to.merge(all, all.entries, now)
}

func lists(v *view, now time.Time, name string) bool {
	v.fade(now)
	return slices.ContainsFunc(v.list(), func(n Node) bool { return n.Node == name })
}

func TestLostNodeIsForgottenWithTime(t *testing.T) {
	begin := time.Unix(1, 0)
	for _, c := range []struct {
		name             string
		state            string
		settled, forever bool
		never            bool
	}{
		{"no evidence, member", "", true, false, false},
		{"no evidence, blank", "", false, false, false},
		{"evidence, member", witness, true, false, false},
		{"evidence, blank", witness, false, false, true},
		{"never", "", true, true, true},
	} {
		v := forgetful(process("self", 1), begin)
		v.settled = c.settled
		if c.forever {
			v.forgetAfter = 0
		}
		v.up(process("x", 1), at, begin)
		v.learn(entry{Meta: process("x", 1), Seq: 1, State: []byte(c.state)}, begin)
		if !lists(v, begin.Add(9*day), "x") {
			t.Errorf("%s: a live node is forgotten", c.name)
		}
		lost := begin.Add(10 * day)
		v.down(process("x", 1), lost)
		if !lists(v, lost.Add(day-1), "x") {
			t.Errorf("%s: it is forgotten too early", c.name)
		}
		if got := lists(v, lost.Add(day), "x"); got != c.never {
			t.Errorf("%s: after a day: got listed %v, want %v", c.name, got, c.never)
		}
		if got := len(v.words(lost.Add(day)).entries) > 1; got != c.never {
			t.Errorf("%s: after a day: got told %v, want %v", c.name, got, c.never)
		}
		v.up(process("x", 1), at, lost.Add(2*day))
		if !lists(v, lost.Add(2*day), "x") {
			t.Errorf("%s: it came back and does not count", c.name)
		}
	}
}

// A node that has lost its part in the cluster needs the witnesses again.
func TestWitnessesComeBack(t *testing.T) {
	begin := time.Unix(1, 0)
	v := forgetful(process("self", 1), begin)
	v.learn(entry{Meta: process("x", 1), Seq: 1, State: []byte(witness)}, begin)
	v.learn(entry{Meta: process("y", 1), Seq: 1, State: nil}, begin)
	now := begin.Add(day)
	if lists(v, now, "x") || lists(v, now, "y") {
		t.Fatalf("got %v", v.list())
	}
	v.settled = false
	if !lists(v, now, "x") || lists(v, now, "y") {
		t.Errorf("got %v, want the witness and not the other", v.list())
	}
	if got := v.list()[1]; string(got.State) != witness {
		t.Errorf("got %+v", got)
	}
}

// However often the nodes restart and tell each other, a lost node does not become younger.
func TestAgeOnlyGrows(t *testing.T) {
	begin := time.Unix(1, 0)
	views := []*view{forgetful(process("a", 1), begin), forgetful(process("b", 1), begin), forgetful(process("c", 1), begin)}
	for _, v := range views {
		v.up(process("x", 1), at, begin)
		v.down(process("x", 1), begin)
	}
	blank := forgetful(process("blank", 1), begin) // it tells all others forever
	blank.settled = false
	blank.learn(entry{Meta: process("x", 1), Seq: 1, State: []byte(witness)}, begin)
	now := begin
	for hour := range 24 * 4 {
		now = begin.Add(time.Duration(hour) * time.Hour)
		i := hour % len(views)
		views[i] = forgetful(process(views[i].self.Node, uint64(hour+2)), now) // restarted
		for range 2 {
			for _, from := range append(views, blank) {
				for _, to := range append(views, blank) {
					if from != to {
						tell(t, from, to, now)
					}
				}
			}
		}
		for _, v := range views {
			if got, want := lists(v, now, "x"), hour < 24; got != want {
				t.Fatalf("hour %d: %s lists it: got %v, want %v", hour, v.self.Node, got, want)
			}
		}
	}
	if !lists(blank, now, "x") {
		t.Error("the blank node has forgotten its witness")
	}
}

// What we have seen ourselves we know better than those who were parted from us.
func TestOwnEyesCount(t *testing.T) {
	begin := time.Unix(1, 0)
	v, parted := forgetful(process("self", 1), begin), forgetful(process("parted", 1), begin)
	for _, v := range []*view{v, parted} {
		v.up(process("x", 1), at, begin)
	}
	parted.down(process("x", 1), begin)
	now := begin.Add(day - time.Minute)
	v.down(process("x", 1), now)
	tell(t, parted, v, now)
	if !lists(v, now.Add(time.Hour), "x") {
		t.Error("it is forgotten an hour after it was lost")
	}
}

func TestForgottenByCommandStaysForgotten(t *testing.T) {
	now := time.Unix(1, 0)
	a, b, c := forgetful(process("a", 1), now), forgetful(process("b", 1), now), forgetful(process("c", 1), now)
	x := process("x", 5)
	for _, v := range []*view{a, b, c} {
		v.learn(entry{Meta: x, Seq: 3, State: []byte(witness)}, now)
	}
	order := lastWord{"x", 5, 3}
	if got := a.mayForget(lastWord{"x", 5, 2}); got == nil || !strings.Contains(got.Error(), "has heard more") {
		t.Errorf("an order that does not know the last word: got %+v", got)
	}
	if a.forget(lastWord{"x", 5, 2}, 0, now) || !lists(a, now, "x") {
		t.Error("more is forgotten than was known")
	}
	if !a.forget(order, 0, now) || lists(a, now, "x") {
		t.Fatal("it is not forgotten")
	}
	for range 3 { // b hears of it before it tells, c through b
		tell(t, c, a, now)
		tell(t, a, b, now)
		tell(t, b, c, now)
		now = now.Add(time.Minute)
	}
	for _, v := range []*view{a, b, c} {
		if lists(v, now, "x") {
			t.Errorf("%s still lists it", v.self.Node)
		}
	}
	late := forgetful(process("late", 1), now) // it was away
	late.settled = false
	late.learn(entry{Meta: x, Seq: 2, State: nil}, now)
	tell(t, late, a, now)
	tell(t, a, late, now)
	if lists(a, now, "x") || lists(late, now, "x") {
		t.Error("who was away has brought it back")
	}

	// A later word counts, and a process that is heard alive, though it says nothing new.
	if !b.learn(entry{Meta: x, Seq: 4, State: []byte("later")}, now) {
		t.Error("a later word is not heard")
	}
	a.up(x, at, now)
	a.learn(entry{Meta: x, Seq: 3, State: []byte(witness)}, now)
	if n := a.nodes["x"]; n == nil || !n.Live || string(n.State) != witness {
		t.Errorf("it is back: got %+v", n)
	}
	tell(t, c, a, now) // who has not heard of that yet
	if n := a.nodes["x"]; n == nil || !n.Live || string(n.State) != witness {
		t.Errorf("an old command counts against a live node: got %+v", n)
	}
	if got := a.mayForget(order); got == nil || a.forget(order, 0, now) {
		t.Errorf("a live node: got %+v", got)
	}
	if got := a.mayForget(lastWord{"a", 9, 9}); got == nil || a.forget(lastWord{"a", 9, 9}, 0, now) {
		t.Errorf("ourselves: got %+v", got)
	}
}

// An old process that lives on is heard, though a later one was forgotten.
func TestOlderProcessIsHeard(t *testing.T) {
	now := time.Unix(1, 0)
	v := forgetful(process("self", 1), now)
	v.learn(entry{Meta: process("x", 7), Seq: 1, State: nil}, now)
	v.forget(lastWord{"x", 7, 1}, 0, now)
	v.up(process("x", 5), at, now)
	v.learn(entry{Meta: process("x", 5), Seq: 1, State: []byte("here")}, now)
	v.learn(entry{Meta: process("x", 7), Seq: 1, State: []byte("forgotten")}, now)
	if n := v.list()[1]; n.Boot != 5 || string(n.State) != "here" {
		t.Errorf("got %+v", n)
	}
}

func TestTombstonesAreBoundedAndEnd(t *testing.T) {
	begin := time.Unix(1, 0)
	v := newView(process("self", 1), begin)
	for i := range 2 * maxForgotten {
		v.forget(lastWord{fmt.Sprintf("n%d", i), 1, 1}, 0, begin.Add(time.Duration(i)*time.Second))
	}
	if _, first := v.forgotten["n0"]; first || len(v.forgotten) != maxForgotten {
		t.Errorf("got %d, with the first: %v", len(v.forgotten), first)
	}
	again := lastWord{"n100", 1, 1} // told with another age
	for _, age := range []time.Duration{time.Hour, time.Minute} {
		if v.forget(again, age, begin); !v.forgotten["n100"].at.Equal(begin.Add(-time.Hour)) {
			t.Errorf("told with age %s: got %s", age, v.forgotten["n100"].at)
		}
	}
	other := newView(process("other", 1), begin)
	now := begin.Add(forgottenFor - 2*time.Hour)
	tell(t, v, other, now)
	if len(other.forgotten) != maxForgotten {
		t.Errorf("told: got %d", len(other.forgotten))
	}
	now = now.Add(3 * time.Hour)
	for _, v := range []*view{v, other} {
		if v.fade(now); len(v.forgotten) != 0 {
			t.Errorf("after %s: %d are left", forgottenFor, len(v.forgotten))
		}
	}
}

func TestFullMeshIsTold(t *testing.T) {
	now := time.Unix(1, 0)
	v := newView(process("self", 1), now)
	for i := range 2 * maxNodes {
		v.learn(entry{Meta: process(fmt.Sprintf("n%d", i), uint64(i+2)), Seq: 1, State: []byte("x")}, now)
	}
	for i := range maxForgotten {
		v.forget(lastWord{fmt.Sprintf("%d%s", i, strings.Repeat("n", maxNode-5)), 1, 1}, 0, now)
	}
	other := newView(process("other", 1), now)
	tell(t, v, other, now.Add(time.Hour))
	n := other.nodes[fmt.Sprintf("n%d", 2*maxNodes-1)]
	if n == nil || !n.Since.Equal(now) || len(other.forgotten) != maxForgotten {
		t.Errorf("got %+v, and %d tombstones", n, len(other.forgotten))
	}
}

// The mesh's own clock does it, with nobody looking, and says so.
func TestMeshForgetsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		m.knowledge.log = zap.NewNop()
		m.view.forgetAfter = day
		m.UseEvidence(func(state []byte) bool { return string(state) == witness })
		told := words{entries: []entry{{Meta: process("x", 1), Seq: 1, State: []byte(witness)}}}
		delegate{m}.NotifyMsg(append(framed(nil), told.encode()...))
		<-m.Changed()
		time.Sleep(day)
		if len(m.Nodes()) != 2 || m.count(false) != 1 {
			t.Errorf("a blank node: got %v", m.Nodes())
		}
		m.Settle(true)
		if len(m.Nodes()) != 1 || m.count(false) != 0 || len(m.remembered()) != 2 {
			t.Errorf("a member: got %v", m.Nodes())
		}
		select {
		case <-m.Changed():
		default:
			t.Error("nobody is told")
		}
		m.Settle(false)
		if len(m.Nodes()) != 2 {
			t.Errorf("blank again: got %v", m.Nodes())
		}
		if got := m.forget(lastWord{"x", 1, 1}, true); got != nil || len(m.Nodes()) != 2 {
			t.Errorf("dry: got %+v, %v", got, m.Nodes())
		}
		if got := m.forget(lastWord{"x", 1, 1}, false); got != nil || len(m.Nodes()) != 1 || len(m.remembered()) != 1 {
			t.Errorf("got %+v, %v", got, m.Nodes())
		}
	})
}

// Of three nodes one is told to forget, and the word spreads; the other way round nothing comes back, not even through
// somebody who joins later. The process that comes back counts.
func TestForgottenNodeDoesNotComeBack(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	b := start(t, "main", node("b"), seeded(a))
	c := start(t, "main", node("c"), seeded(a))
	x := start(t, "main", node("x"), seeded(a))
	x.Publish([]byte(witness))
	for _, m := range []*member{a, b, c} {
		await(t, "x is heard", patience, says(m, "x", witness))
		for _, other := range []string{"a", "b", "c", "x"} {
			await(t, "all hear each other", patience, sees(m, other))
		}
	}
	n, _ := find(a, "x")
	order := lastWord{"x", n.Boot, n.Seq}
	if got := a.forget(order, false); got == nil {
		t.Errorf("a live node: got %+v", got)
	}
	x.stop()
	for _, m := range []*member{a, b, c} {
		await(t, "x is lost", patience, func() bool { return !sees(m, "x")() })
	}
	if got := a.forget(order, false); got != nil {
		t.Fatalf("got %+v", got)
	}
	swap(t, a, b)
	swap(t, c, b)
	for _, m := range []*member{a, b, c} {
		await(t, "x is forgotten", patience, func() bool { _, ok := find(m, "x"); return !ok })
	}
	late := start(t, "main", node("late"), seeded(c))
	await(t, "the newcomer hears a", patience, sees(late, "a"))
	old := words{entries: []entry{{Meta: x.self, Seq: 1, State: []byte(witness)}}} // that it has brought with it
	delegate{late.Mesh}.NotifyMsg(append(framed(nil), old.encode()...))
	swap(t, late, b)
	await(t, "the newcomer forgets x", patience, func() bool { _, ok := find(late, "x"); return !ok })
	for _, m := range []*member{a, b, c} {
		if _, ok := find(m, "x"); ok {
			t.Errorf("%s was told of x again", m.self.Node)
		}
	}
	again := start(t, "main", node("x"), seeded(b))
	again.Publish([]byte("back"))
	for _, m := range []*member{a, b, c, late} {
		await(t, "x is back", patience, says(m, "x", "back"))
	}
}
