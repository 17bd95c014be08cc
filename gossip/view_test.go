package gossip

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func process(name string, boot uint64) Meta {
	return Meta{Node: name, Boot: boot, Address: netip.MustParseAddr("10.0.0.1")}
}

var at = netip.MustParseAddrPort("10.0.0.1:7946")

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
		if v.learn(entry{process("self", boot), 9, []byte("not mine")}, now) {
			t.Errorf("boot %d: it believed others about itself", boot)
		}
	}
	if got := v.list()[0]; string(got.State) != "mine" || got.Seq != 1 {
		t.Errorf("got %+v", got)
	}
	// A later process of ours is another matter; ours then no longer counts.
	v.learn(entry{process("self", 3), 1, []byte("later")}, now)
	v.publish([]byte("mine again"))
	if got := v.list()[0]; string(got.State) != "later" || got.Boot != 3 || got.Live {
		t.Errorf("got %+v", got)
	}
	if got := v.twins(now.Add(twinAfter)); len(got) != 1 {
		t.Errorf("twins: got %v, want this process", got)
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
		{"heard of", func(n time.Time) bool { return v.learn(entry{two, 1, []byte{}}, n) }, true, 2, false, 6},
		{"second up again", func(n time.Time) bool { return v.up(two, at, n) }, true, 2, true, 10},
		{"third heard of", func(n time.Time) bool { return v.learn(entry{process("a", 3), 1, []byte{}}, n) }, true, 3, false, 11},
		{"third up", func(n time.Time) bool { return v.up(process("a", 3), at, n) }, true, 3, true, 12},
	}
	for i, s := range steps {
		changed := s.do(time.Unix(int64(i+1), 0))
		n := v.list()[0]
		if changed != s.changed || n.Boot != s.boot || n.Live != s.live || n.Since.Unix() != s.since {
			t.Errorf("%s: got changed %v and %+v, want changed %v, boot %d, live %v, since %d", s.what, changed, n, s.changed, s.boot, s.live, s.since)
		}
	}
}

func TestViewIsBounded(t *testing.T) {
	now := time.Unix(1, 0)
	all := make([]entry, 0, 2*maxNodes)
	for i := range 2 * maxNodes {
		all = append(all, entry{process(fmt.Sprintf("n%d", i), uint64(i+10)), 1, []byte("x")})
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
	got[0].sending, got[0].sent = false, 1
	if again := v.behind(); len(again) != 1 {
		t.Errorf("after the first send: got %d peers, want 1", len(again))
	}
}
