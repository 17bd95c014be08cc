package headroom

import (
	"math"
	"testing"
)

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		name        string
		limit, want int64
	}{
		{"a container of 256 MiB", 256 << 20, 8 << 20},
		{"a machine of 1 GiB", 1 << 30, 32 << 20},
		{"a machine of 2 GiB", 2 << 30, 64 << 20},
		{"a large machine", 256 << 30, 64 << 20},
		{"no limit known", math.MaxInt64, 64 << 20},
		{"nothing", 0, 0},
		{"less than nothing", -1, 0},
	} {
		if got := budgetOf(c.limit); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name               string
		live, rate, budget int64
		want               int
	}{
		{"a small heap under load gets the whole budget", 16 * mib, 100 * mib, 64 * mib, 400},
		{"a large heap keeps Go's factor", 1024 * mib, 100 * mib, 64 * mib, 100},
		{"an idle node keeps Go's factor", 16 * mib, 1 * mib, 64 * mib, 100},
		{"between them it is what five seconds allocate", 10 * mib, 4 * mib, 64 * mib, 200},
		{"a small machine gives less", 16 * mib, 100 * mib, 24 * mib, 150},
		{"no budget", 16 * mib, 100 * mib, 0, 100},
		{"a tiny heap", mib, 100 * mib, 64 * mib, 2000},
		{"nothing is known before the first collection", 0, 100 * mib, 64 * mib, 100},
		{"no overflow", 1, math.MaxInt64, math.MaxInt64, 2000},
	} {
		if got := percentOf(c.live, c.rate, c.budget); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// What may be garbage is never more than the budget, unless Go's own rule allows it, and never less than that.
func FuzzPercent(f *testing.F) {
	f.Add(int64(16<<20), int64(100<<20), int64(64<<20))
	f.Fuzz(func(t *testing.T, live, rate, budget int64) {
		live, rate, budget = live&(1<<50-1), rate&(1<<50-1), budget&(1<<50-1)
		got := percentOf(live, rate, budget)
		if got < 100 || got > 2000 {
			t.Fatalf("got %d, want 100 to 2000", got)
		}
		if garbage := float64(live) * float64(got) / 100; got > 100 && garbage > math.Min(5*float64(rate), float64(budget)) {
			t.Errorf("%d %% of %d is %.0f, more than the budget %d or five times the rate %d", got, live, garbage, budget, rate)
		}
	})
}
