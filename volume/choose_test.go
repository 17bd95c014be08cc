package volume

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestJudge(t *testing.T) {
	tag := func(owner string, phase Phase) *claimTag {
		return &claimTag{Epoch: 3, Owner: owner, Nonce: "x", Phase: phase}
	}
	away := map[string]string{"a": "n9 lives elsewhere"}
	for _, test := range []struct {
		name  string
		scope string
		s     sighting
		avoid map[string]string
		idle  time.Duration
		take  bool
		own   bool
		rank  int
		why   string
	}{
		{name: "cannot be seen", s: sighting{err: errors.New("EIO")}, why: "EIO"},
		{name: "held by another", s: sighting{locked: true, tag: tag("n2", PhaseHeld)}, idle: time.Hour, why: "held by n2"},
		{name: "held with a released tag", s: sighting{locked: true, tag: tag("n2", PhaseReleased)}, why: "not said its name"},
		{name: "held without a tag", s: sighting{locked: true}, why: "not said its name"},
		{name: "held by our double", s: sighting{locked: true, tag: tag("n1", PhaseHeld)}, own: true, rank: -1, why: "another process named n1"},
		{name: "ours", s: sighting{tag: tag("n1", PhaseHeld)}, avoid: away, take: true, own: true, rank: 0, why: "this node held"},
		{name: "half ours", s: sighting{tag: tag("n1", PhaseClaiming)}, avoid: away, take: true, own: true, rank: 1, why: "was claiming"},
		{name: "no tag", take: true, rank: 2, why: "nobody"},
		{name: "released by another", s: sighting{tag: tag("n2", PhaseReleased)}, take: true, rank: 2, why: "nobody"},
		{name: "released by us", s: sighting{tag: tag("n1", PhaseReleased)}, take: true, rank: 2, why: "nobody"},
		{name: "free but avoided", avoid: away, why: "n9 lives elsewhere"},
		{name: "not seen before", s: sighting{tag: tag("n2", PhaseHeld)}, why: "free when a node has seen that for 10s"},
		{name: "left just now", s: sighting{tag: tag("n2", PhaseHeld)}, idle: 9 * time.Second, why: "free at "},
		{name: "left long ago", s: sighting{tag: tag("n2", PhaseHeld)}, idle: 10 * time.Second, take: true, rank: 3, why: "n2 left it 10s ago"},
		{name: "left but avoided", s: sighting{tag: tag("n2", PhaseHeld)}, avoid: away, idle: time.Hour, why: "n9 lives elsewhere"},
		{name: "the host's own", scope: ScopeHost, s: sighting{tag: tag("n2", PhaseHeld)}, avoid: away, take: true, rank: 2, why: "this host's own"},
	} {
		r := rules{node: "n1", scope: test.scope, avoid: test.avoid, after: 10 * time.Second}
		test.s.slot = "a"
		got := r.judge(test.s, test.idle)
		if got.take != test.take || got.own != test.own || got.rank != test.rank || !strings.Contains(got.why, test.why) {
			t.Errorf("%s: got take %v, own %v, rank %d, %q, want %v, %v, %d, %q",
				test.name, got.take, got.own, got.rank, got.why, test.take, test.own, test.rank, test.why)
		}
	}
}

// While a volume is kept for the node that left it, the reason stays the same.
func TestReasonStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rules{node: "n1", after: time.Hour}
		s := sighting{slot: "a", tag: &claimTag{Epoch: 3, Owner: "n2", Nonce: "x", Phase: PhaseHeld}}
		first := r.judge(s, time.Second).why
		time.Sleep(time.Minute)
		if now := r.judge(s, time.Second+time.Minute).why; now != first {
			t.Errorf("first %q, a minute later %q", first, now)
		}
	})
}

func TestOfHost(t *testing.T) {
	abc := []string{"c", "a", "b"}
	for _, test := range []struct {
		name         string
		data, wanted []string
		avoid        map[string]string
		want         []string
		err          string
		none         bool
	}{
		{name: "first run", wanted: abc, want: []string{"a"}},
		{name: "a is served elsewhere", wanted: abc, avoid: map[string]string{"a": "n9"}, want: []string{"b"}},
		{name: "all are", wanted: abc, avoid: map[string]string{"a": "n7", "b": "n8", "c": "n9"}, err: "a: n7; b: n8; c: n9", none: true},
		{name: "its data, whatever is elsewhere", data: []string{"b"}, wanted: abc, avoid: map[string]string{"b": "n9"}, want: []string{"b"}},
		{name: "two volumes", data: []string{"a", "b"}, wanted: abc, err: "set volume.local.slot"},
		{name: "data of a slot that is gone", data: []string{"d"}, wanted: abc, err: "slot d", none: true},
	} {
		got, err := ofHost("/r", test.data, test.wanted, test.avoid)
		if !slices.Equal(got, test.want) || errors.Is(err, ErrNoneFree) != test.none {
			t.Errorf("%s: got %v, %v, want %v", test.name, got, err, test.want)
		}
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.err)
		}
	}
}
