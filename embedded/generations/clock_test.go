package generations

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// wristwatch is a store whose time differs from ours, and which may be slow.
type wristwatch struct {
	snapshot.Store
	behind, slow time.Duration
	puts         int
	at           map[string]time.Time
}

func (w *wristwatch) Put(ctx context.Context, name string, r io.Reader) error {
	time.Sleep(w.slow)
	w.puts++
	w.at[name] = time.Now().Add(-w.behind - w.slow/2).Truncate(time.Second)
	return w.Store.Put(ctx, name, r)
}

func (w *wristwatch) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	all, err := w.Store.List(ctx, prefix)
	for i := range all {
		if at, ok := w.at[all[i].Name]; ok {
			all[i].Modified = at
		}
	}
	return all, err
}

func TestClockAgainstTheStore(t *testing.T) {
	for name, tc := range map[string]struct {
		behind, slow time.Duration
		says         string
	}{
		"equal":                      {},
		"as far as it may be":        {behind: 5 * time.Second},
		"ahead":                      {behind: 31*time.Minute + 4*time.Second, says: "is 31m4s ahead of the backup store's"},
		"behind":                     {behind: -8 * time.Second, says: "is 8s behind the backup store's"},
		"less than a slow put tells": {behind: 10 * time.Second, slow: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wristwatch{Store: snapshot.NewDir(t.TempDir()), at: map[string]time.Time{}, behind: tc.behind, slow: tc.slow}
				r := New(w, "main", nil)
				ask := func() {
					t.Helper()
					if err := r.Meet(t.Context(), "n1", "nonce"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Millisecond)
					if _, err := r.Known(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if r.Clock() != nil {
					t.Error("known before anything was put")
				}
				ask()
				c := r.Clock()
				if got := strings.Join(health.Texts(ClockFinding(c)), ""); c == nil || !strings.Contains(got, tc.says) || (got == "") != (tc.says == "") {
					t.Fatalf("got %q, %+v; want %q", got, c, tc.says)
				}
				if d := c.Difference - tc.behind.Seconds(); d < -0.1 || d > 1.1 {
					t.Errorf("got %+v", c)
				}
				for range 59 { // it is measured again once an hour, or once a minute while it is off
					time.Sleep(10 * time.Second)
					ask()
				}
				if want := map[bool]int{false: 1, true: 10}[tc.says != ""]; tc.slow == 0 && w.puts != want {
					t.Errorf("put %d times within ten minutes, want %d", w.puts, want)
				}
				w.behind = 0
				time.Sleep(measureEvery)
				ask()
				if got := ClockFinding(r.Clock()); got != nil {
					t.Errorf("after the cure: %v", got)
				}
			})
		})
	}
}

// A beacon that contradicts the last measurement proves nothing, because another leader may have overwritten it. It is
// a reason to measure again at once.
func TestClockByTheBeacon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wristwatch{Store: snapshot.NewDir(t.TempDir()), at: map[string]time.Time{}}
		r := New(w, "main", nil)
		look := func(shine bool) {
			t.Helper()
			if shine {
				if err := r.Shine(t.Context(), coordinator.Beacon{Stand: plan.Stand{Node: "n1"}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Meet(t.Context(), "n1", "nonce"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			if _, err := r.Known(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		look(true)
		w.at[r.BeaconName()] = time.Now().Add(time.Minute)
		look(false)
		w.behind = time.Minute
		look(true)
		if got := ClockFinding(r.Clock()); got != nil {
			t.Errorf("by the beacon alone: %s", got)
		}
		look(false)
		if got := strings.Join(health.Texts(ClockFinding(r.Clock())), ""); !strings.Contains(got, "1m0s ahead") && !strings.Contains(got, "1m1s ahead") {
			t.Errorf("got %q", got)
		}
	})
}

// A clock that was set since the last measurement differs by as much at once. The next measurement, after a minute,
// finds that too.
func TestClockWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wristwatch{Store: snapshot.NewDir(t.TempDir()), at: map[string]time.Time{}}
		r := New(w, "main", nil)
		ask := func() {
			t.Helper()
			if err := r.Meet(t.Context(), "n1", "nonce"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			if _, err := r.Known(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ask()
		r.clock.wall = r.clock.wall.Add(-24 * time.Hour) // as if the clock had been set since
		if c := r.Clock(); !c.Off || c.Difference < 24*3600 || c.Difference > 24*3600+2 {
			t.Errorf("got %+v, want a day", c)
		}
		time.Sleep(measureAgain)
		w.behind = 24 * time.Hour
		ask()
		if c := r.Clock(); w.puts != 2 || !c.Off || c.Difference < 24*3600 || c.Difference > 24*3600+2 {
			t.Errorf("measured again, %d puts: got %+v, want a day", w.puts, c)
		}
	})
}

// What another process of the same name has put shows nothing of our clock, nor does an older listing.
func TestClockIsOurs(t *testing.T) {
	w := &wristwatch{Store: snapshot.NewDir(t.TempDir()), at: map[string]time.Time{}}
	r, twin := New(w, "main", nil), New(w, "main", nil)
	before, err := r.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Meet(t.Context(), "n1", "nonce"); err != nil {
		t.Fatal(err)
	}
	after, err := r.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after.asked = before.asked
	r.meetAll(t.Context(), after)
	if c := r.Clock(); c != nil {
		t.Errorf("by a listing that began before: %+v", c)
	}
	if err := twin.Meet(t.Context(), "n1", "another"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Known(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := r.Clock(); c != nil {
		t.Errorf("by a twin's nonce: %+v", c)
	}
}
