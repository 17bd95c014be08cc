package plan

import (
	"fmt"
	"slices"
	"testing"

	"holdfast/integration/tier"
)

// sweep is the result of many simulated lives.
type sweep struct {
	*tally
	ends  map[string]int
	lives int
	one   bool // only the life of -sim.seed
	whole bool // as many as the test wants: something must have happened in them
}

// sweepLives simulates a life for each seed: the hard ones, and count others, or half of them in CI, few in a short
// test, or as many as -sim.lives. With -sim.seed it simulates and prints only that life. It ends the test at the first
// violation.
func sweepLives(t *testing.T, count, few uint64, hard []uint64,
	live func(seed uint64, tally *tally, trace func(string, ...any)) (end, broken string)) sweep {
	t.Helper()
	t.Parallel()
	s := sweep{tally: newTally(), ends: map[string]int{}, whole: *simLives == 0 && *simSeed == 0 && !testing.Short()}
	var trace func(string, ...any)
	seeds := slices.Clone(hard)
	switch {
	case *simSeed != 0:
		s.one, seeds, trace, count = true, []uint64{*simSeed}, t.Logf, 0
	case *simLives != 0:
		count = *simLives
	case testing.Short():
		count = few
	case !tier.All():
		count /= 2
	}
	for seed := uint64(1); seed <= count; seed++ {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		end, broken := live(seed, s.tally, trace)
		if broken != "" {
			t.Fatalf("seed %d: %s", seed, broken)
		}
		s.ends[end]++
	}
	s.lives = len(seeds)
	t.Logf("%d decisions in %d lives", s.decisions, s.lives)
	report(t, "end", s.ends)
	report(t, "action", s.kinds)
	report(t, "wait", s.waits)
	report(t, "event", s.events)
	return s
}

// of lives the lives that describe makes from seeds.
func of(describe func(seed uint64) life) func(uint64, *tally, func(string, ...any)) (end, broken string) {
	return func(seed uint64, tally *tally, trace func(string, ...any)) (end, broken string) {
		l := describe(seed)
		if end, broken = l.live(seed, tally, trace); broken != "" {
			broken = fmt.Sprintf("(%s): %s", l, broken)
		}
		return end, broken
	}
}

// came checks that each of these happened in some life.
func came[K comparable](t *testing.T, s sweep, counted map[K]int, all ...K) {
	t.Helper()
	for _, k := range all {
		if s.whole && counted[k] == 0 {
			t.Errorf("no life ever came to %v", k)
		}
	}
}

// well checks that at least so many of ten lives ended well.
func (s sweep) well(t *testing.T, ofTen int) {
	t.Helper()
	if !s.one && s.ends["healthy"] < s.lives*ofTen/10 {
		t.Errorf("only %d of %d lives ended well", s.ends["healthy"], s.lives)
	}
}
