package plan

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "live only this life, and print it")
	simLives = flag.Uint64("sim.lives", 0, "number of lives; 0: as many as the test needs")
)

// hardSeeds are lives that have broken an earlier version of the plan, or that break a mutant.
var hardSeeds = []uint64{7310, 4688, 15195, 2196, 18355, 23660, 24263, 24936, 44305, 58413, 901, 981, 1007, 1293, 1744, 1892, 2044, 121, 125, 221, 280, 733, 1053, 3285, 2229, 2500}

// tally counts what happened, so that a simulation in which nothing happens does not pass.
type tally struct {
	decisions int
	kinds     map[Kind]int
	waits     map[string]int
	events    map[string]int
}

func newTally() *tally {
	return &tally{kinds: map[Kind]int{}, waits: map[string]int{}, events: map[string]int{}}
}

func (t *tally) count(a Action) {
	t.decisions++
	t.kinds[a.Kind]++
	if a.Kind == Wait {
		for _, w := range waits {
			if strings.Contains(a.Text(), w) {
				t.waits[w]++
			}
		}
	}
}

func (t *tally) event(name string) { t.events[name]++ }

// waits are the sentences that the simulation must have produced.
var waits = []string{
	"has no live holder", "both hold slot", "has not said yet", "does not answer",
	"waiting for the promise of", "a majority of its disks is not here", "backup store knows the cluster",
	"comes first", "does not start; stop one", "two clusters claim the name", "of a cluster that nobody here knows",
	"waits for a quorum", "learner of slot", "catching up", "serving as a follower", "serving as the leader: all 3 members",
	"it waits to see its leader", "no leader is seen", "to admit it as a learner", "waits to see a leader",
	"has not started on", "is not connected", "are needed", "could still have a majority elsewhere", "is a founder of",
	"waits to be replaced; paused by",
}

func random(seed uint64) life {
	r := rand.New(rand.NewPCG(seed, 1))
	l := life{
		slots: []int{1, 2, 3, 3, 3, 3, 3, 4, 5, 5}[r.IntN(10)],
		host:  r.IntN(3) == 0,
		store: storeMode(r.IntN(3)),
		ticks: 100 + r.IntN(1500),
		wipes: []int{0, 0, 0, 1, 1, 1, 2, 3}[r.IntN(8)],
		calm:  r.IntN(3) == 0,
		old:   r.IntN(2) == 0,
	}
	if r.IntN(2) == 0 { // a short life that founds three slots
		l.slots, l.old, l.calm, l.ticks, l.wipes = 3, false, true, 60+r.IntN(240), r.IntN(3)
	}
	if r.IntN(3) == 0 { // a life with restores
		l.store, l.old, l.busy = storeShared, true, true
		l.ticks, l.wipes = 400+r.IntN(1500), r.IntN(4)
	}
	if l.store == storeShared {
		l.restores, l.automatic = l.busy || r.IntN(4) > 0, r.IntN(3) == 0
	}
	l.nodes = l.slots + r.IntN(3)
	if l.old && l.store == storeShared && r.IntN(3) == 0 {
		l.drills, l.kind = 1+r.IntN(3), drillKind(r.IntN(3))
	}
	if l.slots > 1 && r.IntN(5) == 0 { // a life with lost majorities
		l.store, l.old, l.busy, l.restores, l.bleak = storeShared, true, true, true, true
		l.ticks, l.wipes = 300+r.IntN(900), l.slots-1
	}
	return l
}

func (l life) String() string {
	return fmt.Sprintf("%d slots, %d nodes, host=%v, store=%d, %d ticks, %d wipes, calm=%v, restores=%v, automatic=%v, bleak=%v, drills=%d/%d, resizes=%v, drains=%v, versions=%v", l.slots, l.nodes, l.host, l.store, l.ticks, l.wipes, l.calm, l.restores, l.automatic, l.bleak, l.drills, l.kind, l.resizes, l.drains, l.versions)
}

// live simulates the life, and returns how it ended and what was violated.
func (l life) live(seed uint64, t *tally, trace func(string, ...any)) (end, broken string) {
	w := newWorld(seed, l, t)
	w.trace = trace
	if l.old {
		if _, ok := w.recover(); ok {
			t.event("healthy before the faults")
		}
		w.drill()
	}
	for range l.ticks {
		w.tick()
		if w.broken != "" {
			return "", w.broken
		}
	}
	w.note("faults end")
	if w.secures {
		w.wave = both
	}
	_, ok := w.recover()
	if ok && w.secures {
		w.note("http ends")
		w.wave = secure
		_, ok = w.recover()
	}
	switch why := w.excuse(); {
	case w.broken != "":
		return "", w.broken
	case ok:
		return "healthy", ""
	case why != "":
		return why, ""
	}
	return "", "liveness: no faults any more, yet not all slots are healthy voters: " + w.describe()
}

// describe lists what every node waits for.
func (w *world) describe() string {
	var b strings.Builder
	for _, n := range w.boxes {
		o := n.observe()
		a := Next(o)
		fmt.Fprintf(&b, "\n  %s %s %s: %s: %s", n.name, o.Claim.Slot, o.Claim.Disk, a.Kind, a.Text())
	}
	return b.String()
}

func TestSimulation(t *testing.T) {
	s := sweepLives(t, 4000, 300, hardSeeds, of(random))
	came(t, s, s.kinds, Wait, Acquire, Yield, Repair, SetAside, Promise, Commit, Vacate, Accept, Start, Replace, Promote,
		Mirror, Propose, Prepare, Discard, Conclude, Leave, Stay, Enter, Swap)
	came(t, s, s.waits, waits...)
	s.well(t, 9)
	if s.whole && s.decisions < 250*s.lives {
		t.Errorf("%d decisions in %d lives, want 250 a life", s.decisions, s.lives)
	}
}

func report[K ~string](t *testing.T, what string, counts map[K]int) {
	t.Helper()
	var lines []string
	for k, n := range counts {
		lines = append(lines, fmt.Sprintf("%9d %s", n, k))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	t.Logf("%s:\n%s", what, strings.Join(lines, "\n"))
}
