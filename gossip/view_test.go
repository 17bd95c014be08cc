package gossip

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func process(name string, boot uint64) Meta {
	return Meta{Node: name, Boot: boot, Address: netip.MustParseAddr("10.0.0.1")}
}

var (
	at        = netip.MustParseAddrPort("10.0.0.1:7946")
	elsewhere = netip.MustParseAddrPort("10.0.0.2:7946")
)

// Whatever the order and repetition, the same news end in the same view.
func TestViewDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		news := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) entry {
			m := process(rapid.SampledFrom([]string{"a", "b", "self"}).Draw(t, "node"), rapid.Uint64Range(1, 4).Draw(t, "boot"))
			seq := rapid.Uint64Range(0, 3).Draw(t, "seq")
			e := entry{Meta: m, Seq: seq}
			if seq > 0 {
				e.State = fmt.Appendf(nil, "%s %d %d", m.Node, m.Boot, seq)
			}
			return e
		}), 0, 20).Draw(t, "news")
		order := rapid.Permutation(news).Draw(t, "order")
		now := time.Unix(1, 0)
		one, two := newView(process("self", 2), now), newView(process("self", 2), now)
		for _, e := range news {
			one.learn(e, now)
		}
		for _, e := range append(order, news...) {
			two.learn(e, now)
		}
		if got, want := two.list(), one.list(); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		for _, e := range news {
			if one.learn(e, now) {
				t.Fatalf("%+v is news again", e)
			}
		}
	})
}

func TestViewTrustsNobodyAboutItself(t *testing.T) {
	now := time.Unix(1, 0)
	v := newView(process("self", 2), now)
	v.publish([]byte("mine"))
	for _, boot := range []uint64{1, 2} {
		if v.learn(entry{Meta: process("self", boot), Seq: 9, State: []byte("not mine")}, now) {
			t.Errorf("boot %d: it believed others about itself", boot)
		}
	}
	if got := v.list()[0]; string(got.State) != "mine" || got.Seq != 1 {
		t.Errorf("got %+v", got)
	}
	// Another process of our name changes nothing of that, live or not.
	twin := process("self", 3)
	v.learn(entry{Meta: twin, Seq: 1, State: []byte("later")}, now)
	v.up(twin, elsewhere, now)
	v.publish([]byte("mine again"))
	if got := v.list()[0]; string(got.State) != "mine again" || got.Boot != 2 || !got.Live {
		t.Errorf("got %+v", got)
	}
	if got, ok := v.twin(); !ok || got != twin.Address {
		t.Errorf("twin: got %v, %v", got, ok)
	}
	v.down(twin, now)
	v.here = elsewhere
	v.up(twin, elsewhere, now)
	if got, ok := v.twin(); ok { // only one process can listen at an address
		t.Errorf("at our own address: got the twin %v", got)
	}
	v.down(twin, now)
	if got := v.list()[0]; string(got.State) != "mine again" || got.Boot != 2 || !got.Live {
		t.Errorf("after the twin: got %+v", got)
	}
}

func TestViewLiveness(t *testing.T) {
	v := newView(process("self", 1), time.Unix(1, 0))
	one, two := process("a", 1), process("a", 2)
	steps := []struct {
		what    string
		do      func(now time.Time) bool
		changed bool
		boot    uint64
		live    bool
		since   int64
	}{
		{"first up", func(n time.Time) bool { return v.up(one, at, n) }, true, 1, true, 1},
		{"up again", func(n time.Time) bool { return v.up(one, at, n) }, false, 1, true, 1},
		{"second up", func(n time.Time) bool { return v.up(two, at, n) }, true, 2, true, 3},
		{"first down", func(n time.Time) bool { return v.down(one, n) }, false, 2, true, 3},
		{"first up late", func(n time.Time) bool { return v.up(one, at, n) }, false, 2, true, 3},
		{"second down", func(n time.Time) bool { return v.down(two, n) }, true, 2, false, 6},
		{"first up again", func(n time.Time) bool { return v.up(one, at, n) }, false, 2, false, 6},
		{"down again", func(n time.Time) bool { return v.down(two, n) }, false, 2, false, 6},
		{"heard of", func(n time.Time) bool { return v.learn(entry{Meta: two, Seq: 1, State: []byte{}}, n) }, true, 2, false, 6},
		{"second up again", func(n time.Time) bool { return v.up(two, at, n) }, true, 2, true, 10},
		{"third heard of", func(n time.Time) bool { return v.learn(entry{Meta: process("a", 3), Seq: 1, State: []byte{}}, n) }, false, 2, true, 10},
		{"third up", func(n time.Time) bool { return v.up(process("a", 3), at, n) }, true, 3, true, 12},
		{"fourth heard of", func(n time.Time) bool { return v.learn(entry{Meta: process("a", 4), Seq: 1, State: []byte{}}, n) }, false, 3, true, 12},
		{"third down", func(n time.Time) bool { return v.down(process("a", 3), n) }, true, 4, false, 14},
		{"fifth heard of", func(n time.Time) bool { return v.learn(entry{Meta: process("a", 5), Seq: 1, State: []byte{}}, n) }, true, 5, false, 15},
	}
	for i, s := range steps {
		changed := s.do(time.Unix(int64(i+1), 0))
		n := v.list()[0]
		if changed != s.changed || n.Boot != s.boot || n.Live != s.live || n.Since.Unix() != s.since {
			t.Errorf("%s: got changed %v and %+v, want changed %v, boot %d, live %v, since %d", s.what, changed, n, s.changed, s.boot, s.live, s.since)
		}
	}
}

// Of two live processes of one node, at two addresses, the one that was there first counts, whatever the clocks say and
// no matter who tells what; when it is gone, the other counts at once, with what it said meanwhile.
func TestTwins(t *testing.T) {
	begin := time.Unix(1, 0)
	first, second := process("a", 5), process("a", 9)
	for name, c := range map[string]struct {
		do    func(v *view, now time.Time)
		boot  uint64
		live  bool
		state string
		twins int
	}{
		"a later one comes": {func(v *view, now time.Time) { v.up(second, elsewhere, now) }, 5, true, "first", 1},
		"it speaks":         {func(v *view, now time.Time) { v.up(second, elsewhere, now); told(v, second, 9, now) }, 5, true, "first", 1},
		"it speaks before it is heard": {func(v *view, now time.Time) { told(v, second, 9, now); v.up(second, elsewhere, now) },
			5, true, "first", 1},
		"an earlier one comes": {func(v *view, now time.Time) { v.up(process("a", 1), elsewhere, now) }, 5, true, "first", 1},
		"it was killed before it is a problem": {func(v *view, now time.Time) { v.up(second, elsewhere, now); v.down(second, now) },
			5, true, "first", 0},
		"the later one goes": {func(v *view, now time.Time) {
			v.up(second, elsewhere, now)
			told(v, second, 9, now)
			v.down(second, now)
		}, 5, true, "first", 0},
		"both go, the later one first": {func(v *view, now time.Time) {
			v.up(second, elsewhere, now)
			told(v, second, 9, now)
			v.down(second, now)
			v.down(first, now)
		}, 5, false, "first", 0},
		"the first one goes": {func(v *view, now time.Time) {
			v.up(second, elsewhere, now)
			told(v, second, 9, now)
			v.down(first, now)
		}, 9, true, "9", 0},
		"the first one goes, and comes back": {func(v *view, now time.Time) {
			v.up(second, elsewhere, now)
			v.down(first, now)
			v.up(first, at, now.Add(together))
			v.down(second, now)
		}, 5, true, "", 0},
		"the first one restarts": {func(v *view, now time.Time) {
			v.up(second, elsewhere, now)
			told(v, process("a", 10), 1, now)
			v.up(process("a", 10), at, now)
			v.down(first, now)
		}, 10, true, "1", 1},
		"three, and the first one goes": {func(v *view, now time.Time) {
			v.up(second, elsewhere, now)
			v.up(process("a", 8), netip.MustParseAddrPort("10.0.0.3:7946"), now.Add(time.Second))
			v.down(first, now)
		}, 9, true, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := newView(process("self", 1), begin)
			v.up(first, at, begin)
			v.learn(entry{Meta: first, Seq: 1, State: []byte("first")}, begin)
			now := begin.Add(time.Minute)
			c.do(v, now)
			if n := v.list()[0]; n.Boot != c.boot || n.Live != c.live || string(n.State) != c.state {
				t.Errorf("got boot %d, live %v, state %q, want %d, %v, %q", n.Boot, n.Live, n.State, c.boot, c.live, c.state)
			}
			if got := v.twins(now.Add(time.Second)); len(got) != 0 {
				t.Errorf("too soon: got %v", got)
			}
			if got := v.twins(now.Add(time.Minute)); len(got) != c.twins {
				t.Errorf("twins: got %v, want %d", got, c.twins)
			}
		})
	}
}

// A process whose start time is before that of the one at its address before, which is lost, does not count. The
// problem names the command that has it count.
func TestRestartWithAnEarlierTime(t *testing.T) {
	now := time.Unix(1, 0)
	before, after := process("a", 9), process("a", 5)
	v := newView(process("self", 1), now)
	v.up(before, at, now)
	told(v, before, 1, now)
	v.down(before, now)
	now = now.Add(time.Minute)
	v.up(after, at, now)
	told(v, after, 1, now)
	now = now.Add(time.Minute)
	if got := v.twins(now)[after.process()]; v.list()[0].Live || !strings.Contains(got, "`holdfast gossip forget a`") {
		t.Errorf("got %+v, problem %q", v.list()[0], got)
	}
	v.forget(lastWord{"a", before.Boot, 1}, 0, now)
	told(v, after, 2, now)
	if n := v.list()[0]; n.Boot != after.Boot || !n.Live || len(v.twins(now.Add(time.Minute))) > 0 {
		t.Errorf("forgotten: got %+v, problems %v", n, v.twins(now.Add(time.Minute)))
	}
}

// told passes on what a process published as its n-th state.
func told(v *view, m Meta, n uint64, now time.Time) {
	v.learn(entry{Meta: m, Seq: n, State: fmt.Appendf(nil, "%d", n)}, now)
}

// Who joins hears of both at once, in any order, and takes the one that was started first, as all others do.
func TestNewcomerMeetsTwins(t *testing.T) {
	now := time.Unix(1, 0)
	first, second := process("a", 5), process("a", 9)
	for _, order := range [][]Meta{{first, second}, {second, first}} {
		v := newView(process("self", 1), now)
		for i, m := range order {
			v.up(m, map[Meta]netip.AddrPort{first: at, second: elsewhere}[m], now.Add(time.Duration(i)*together/2))
			told(v, m, m.Boot, now)
		}
		v.learn(entry{Meta: first, Seq: 6, State: []byte("6")}, now)
		if n := v.list()[0]; n.Boot != 5 || string(n.State) != "6" {
			t.Errorf("%v: got %+v", order, n)
		}
		v.down(first, now)
		if n := v.list()[0]; n.Boot != 9 || !n.Live || string(n.State) != "9" {
			t.Errorf("%v, and the first is gone: got %+v", order, n)
		}
	}
}

func TestViewIsBounded(t *testing.T) {
	now := time.Unix(1, 0)
	all := make([]entry, 0, 2*maxNodes)
	for i := range 2 * maxNodes {
		all = append(all, entry{Meta: process(fmt.Sprintf("n%d", i), uint64(i+10)), Seq: 1, State: []byte("x")})
	}
	names := func(v *view) []string {
		var out []string
		for _, n := range v.list() {
			out = append(out, n.Node)
		}
		return out
	}
	one := newView(process("self", 1), now)
	one.up(process("n0", 10), at, now)
	for _, e := range all {
		one.learn(e, now)
	}
	two := newView(process("self", 1), now)
	two.up(process("n0", 10), at, now)
	slices.Reverse(all)
	for _, e := range all {
		two.learn(e, now)
	}
	if got := len(one.list()); got != maxNodes {
		t.Errorf("nodes: got %d, want %d", got, maxNodes)
	}
	got, want := names(two), names(one)
	if !slices.Equal(got, want) {
		t.Errorf("they forgot different nodes: %v, %v", got, want)
	}
	// The live ones stay, and the latest of the lost.
	for _, name := range []string{"self", "n0"} {
		if !slices.Contains(got, name) {
			t.Errorf("%s is forgotten, though live", name)
		}
	}
	for i := maxNodes + 2; i < 2*maxNodes; i++ {
		if name := fmt.Sprintf("n%d", i); !slices.Contains(got, name) {
			t.Errorf("%s is forgotten, though among the latest", name)
		}
	}
}

func TestViewSendsOneAtATime(t *testing.T) {
	now := time.Unix(1, 0)
	v := newView(process("self", 1), now)
	v.up(process("a", 1), at, now)
	if got := v.behind(); len(got) != 0 {
		t.Errorf("nothing published: got %d peers, want 0", len(got))
	}
	v.publish([]byte("one"))
	got := v.behind()
	if len(got) != 1 {
		t.Fatalf("published: got %d peers, want 1", len(got))
	}
	v.publish([]byte("two"))
	if again := v.behind(); len(again) != 0 {
		t.Errorf("a second send began beside the first")
	}
	got[0].sending = false
	if again := v.behind(); len(again) != 1 {
		t.Errorf("after the first send: got %d peers, want 1", len(again))
	}
}

// A word that was published a moment ago and has no proof yet is sent once it has one, and not before: who is told it
// would drop it, and count as told.
func TestUnsignedWordIsNotSent(t *testing.T) {
	v := newView(process("self", 1), time.Now())
	v.strict = true
	v.up(process("a", 1), at, time.Now())
	v.publish([]byte("one"))
	if got := v.behind(); len(got) != 0 {
		t.Errorf("without proof it is sent to %d", len(got))
	}
	v.own.Proof = []byte("proof")
	if got := v.behind(); len(got) != 1 {
		t.Errorf("with its proof it is sent to %d, want 1", len(got))
	}
}

// An older process of a node says nothing about the one that was forgotten.
func TestOlderProcessLiftsNoTombstone(t *testing.T) {
	now := time.Unix(1, 0)
	v := newView(process("self", 1), now)
	v.forgotten.add(lastWord{Node: "a", Boot: 5, Seq: 2}, 0, now)
	v.up(process("a", 3), elsewhere, now)
	v.down(process("a", 3), now)
	if v.learn(entry{Meta: process("a", 5), Seq: 2, State: []byte("forgotten")}, now) {
		t.Error("a word counts again that was forgotten")
	}
	v.up(process("a", 6), elsewhere, now)
	if len(v.forgotten) != 0 {
		t.Error("the node is live again, and still forgotten")
	}
}
