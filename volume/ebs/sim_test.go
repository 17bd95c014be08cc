package ebs

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/integration/tier"
)

// simWhole is the number of lives of a whole simulation. CI lives a share of them each day.
const simWhole = 4000

var (
	simSeed  = flag.Uint64("sim.seed", 0, "live only this life, and print it")
	simLives = flag.Uint64("sim.lives", 0, "number of lives; 0: as many as the test needs")
)

// simTally counts what happened, so that a simulation in which nothing happens does not pass.
type simTally struct{ events map[string]int }

func (t *simTally) event(name string) { t.events[name]++ }

// zombieLast is when no request that was sent before can be in progress any more.
const zombieLast = 15*time.Minute + time.Second

// recovery is how long it may take after the last fault until all is well: the longest time that a node waits for its
// own detach, plus some attempts.
const recovery = zombie + 10*time.Minute

// simulate runs one life in its own bubble and returns what broke.
func simulate(t *testing.T, seed uint64, l life, trace func(string, ...any)) (broken string, tally *simTally) {
	tally = &simTally{map[string]int{}}
	synctest.Test(t, func(*testing.T) {
		w := newSimWorld(seed, l, tally, trace)
		w.live()
		broken = w.broken
	})
	return broken, tally
}

func (w *simWorld) live() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found()
	w.faulty = true
	for time.Since(w.began) < w.life.faults && w.broken == "" {
		w.sleep(w.between(0, 2*w.life.every))
		w.event()
	}
	w.heal()
	w.recover(recovery)
	if w.life.long && w.broken == "" {
		w.sleep(zombieLast)
		w.recover(5 * time.Minute)
	}
	w.finish()
}

// finish ends every process.
func (w *simWorld) finish() {
	w.over = true
	for _, n := range w.nodes {
		if n.proc != nil {
			w.kill(n.proc, "the life is over")
		}
	}
	w.sleep(time.Minute)
}

// recover waits until all is well.
func (w *simWorld) recover(limit time.Duration) {
	since := time.Now()
	for w.broken == "" {
		why := w.missing()
		if why == "" {
			w.note("all is well after %s", time.Since(since))
			return
		}
		if time.Since(since) > limit {
			w.fail("L1: no faults for %s, yet %s%s", limit, why, w.describe())
		}
		w.sleep(time.Second)
	}
}

func (w *simWorld) sleep(d time.Duration) {
	w.mu.Unlock()
	defer w.mu.Lock()
	time.Sleep(d)
}

// simHard are lives that have broken an earlier version of the protocol.
func simHard(t *testing.T) (seeds []uint64) {
	f, err := os.Open("testdata/seeds")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, _, _ := strings.Cut(lines.Text(), " "); text != "" && text != "#" {
			seed, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

func TestSimulation(t *testing.T) {
	if seed := *simSeed; seed != 0 {
		broken, tally := simulate(t, seed, simLife(seed), t.Logf)
		simReport(t, tally.events)
		if broken != "" {
			t.Fatalf("seed %d: %s", seed, broken)
		}
		return
	}
	lives, shares := uint64(simWhole), 3
	if testing.Short() {
		lives, shares = 200, 1
	}
	if n, err := strconv.ParseUint(os.Getenv("HOLDFAST_SIM_SEEDS"), 10, 64); err == nil { // the soak
		lives, shares = n, 1
	}
	if *simLives != 0 {
		lives, shares = *simLives, 1
	}
	var others []uint64
	for seed := uint64(1); seed <= lives; seed++ {
		others = append(others, seed)
	}
	seeds := append(simHard(t), tier.Share(t, shares, others)...)
	var mu sync.Mutex
	all := map[string]int{}
	var next atomic.Int64
	var bad atomic.Bool
	t.Run("lives", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				sum := map[string]int{}
				for n := next.Add(1); n <= int64(len(seeds)) && !bad.Load(); n = next.Add(1) {
					seed := seeds[n-1]
					broken, tally := simulate(t, seed, simLife(seed), nil)
					if broken != "" {
						bad.Store(true)
						simExplain(t, seed, broken)
					}
					for name, count := range tally.events {
						sum[name] += count
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for name, count := range sum {
					all[name] += count
				}
			})
		}
	})
	simReport(t, all)
	if testing.Short() || *simLives != 0 || t.Failed() {
		return
	}
	for _, name := range []string{
		"claim", "format", "mismatch", "release", "lost", "fence", "seize",
		"Attach in use", "Attach name", "Attach uncertain", "Detach not now", "Tag denied", "attachment stuck", "attachment taken back",
		"crash at a step", "pause at a step", "answer lost", "request lost", "request late",
	} {
		if all[name] == 0 {
			t.Errorf("no life ever came to %q", name)
		}
	}
}

// simExplain repeats a life that has broken something, and prints its last part.
func simExplain(t *testing.T, seed uint64, broken string) {
	var lines []string
	again, _ := simulate(t, seed, simLife(seed), func(f string, args ...any) { lines = append(lines, fmt.Sprintf(f, args...)) })
	if first, _, _ := strings.Cut(again, "\n"); !strings.HasPrefix(broken, first) || first == "" {
		lines = append(lines, "it does not repeat; the second time: "+again)
	}
	if n := len(lines); n > 150 {
		lines = lines[n-150:]
	}
	t.Errorf("seed %d (%+v): %s\n%s\nrepeat it with: go test ./volume/ebs -run TestSimulation -v -sim.seed %d", seed, simLife(seed), broken, strings.Join(lines, "\n"), seed)
}

func simReport(t *testing.T, counts map[string]int) {
	t.Helper()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%9d %s", counts[name], name))
	}
	t.Logf("what happened:\n%s", strings.Join(lines, "\n"))
}
