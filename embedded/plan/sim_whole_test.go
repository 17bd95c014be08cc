package plan

import (
	"math/rand/v2"
	"testing"
)

// hardWholes are lives with everything at once that have broken an earlier version of the plan, or that break a mutant.
var hardWholes = []uint64{461, 363, 5098, 9069, 11170, 12493, 14158, 17667, 18374, 37069, 51781, 66256}

// wholeLife makes a life with everything that can happen to a cluster: its slots change while it is restored or
// recovered, and members are drained, stopped and upgraded meanwhile.
func wholeLife(seed uint64) life {
	r := rand.New(rand.NewPCG(seed, 5))
	l := life{
		slots: []int{1, 2, 3, 3, 3, 4, 5}[r.IntN(7)], host: r.IntN(4) == 0, store: storeShared, ticks: 400 + r.IntN(1600), wipes: r.IntN(5),
		old: true, restores: true, resizes: r.IntN(4) > 0, busy: r.IntN(2) == 0, bleak: r.IntN(3) == 0, automatic: r.IntN(3) == 0,
		drains: r.IntN(5) == 0, calm: r.IntN(3) == 0,
	}
	l.versions = r.IntN(3) == 0
	l.eager = l.resizes && r.IntN(3) > 0
	l.nodes = max(l.slots, 3) + r.IntN(3)
	return l
}

func TestWholeSimulation(t *testing.T) {
	s := sweepLives(t, 1000, 40, hardWholes, of(wholeLife))
	came(t, s, s.events, "concluded a restore", "concluded a recovery", "resized to 2", "removed one that serves",
		"removed one that is lost", "drained", "paused", "exchanged", "agreed on another minor", "an older etcd panicked")
	s.well(t, 8)
}
