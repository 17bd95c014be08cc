package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestFoundings founds three slots with up to six disks, two for each slot. The only obstacle is what each holder sees:
// any other holders, in any earlier state. First come the executions of R1 that give two clusters under each weaker
// rule, then random ones.
func TestFoundings(t *testing.T) {
	for name, script := range executions {
		f := newFoundings(1)
		for _, line := range strings.Split(script, ";") {
			who, seen, _ := strings.Cut(strings.TrimSpace(line), ":")
			f.see(who, strings.Fields(seen))
		}
		if broken := f.check(); broken != "" {
			t.Fatalf("seed 0 (%s): I2: %s", name, broken)
		}
	}
	runs := uint64(1500)
	if testing.Short() {
		runs = 200
	}
	promises, commits, moves := 0, 0, 0
	for seed := uint64(1); seed <= runs; seed++ {
		f := newFoundings(seed)
		for range 50 {
			f.step()
		}
		for _, s := range f.seats {
			promises += len(s.ledger.Promises)
			moves += boolToInt(len(s.ledger.Promises) > 1)
			commits += boolToInt(s.ledger.Role == RoleFounder)
		}
		if broken := f.check(); broken != "" {
			t.Fatalf("seed %d (founding): I2: %s", seed, broken)
		}
	}
	t.Logf("%d foundings: %d promises, %d disks promised more than once, %d accepted", runs, promises, moves, commits)
	if moves == 0 || commits == 0 {
		t.Error("nothing happened")
	}
}

// executions: "who: whom it sees live, as they are now, or with ~ as it last saw them; ...".
var executions = map[string]string{
	// a1 and b1 have seen every promise. c1 has not; the slots a and b come back blank on other disks.
	"two disks replaced": "a1:; b1:; c1:; a2:; b2:; c1: a1 b1; a1: b1 c1; b1: a1 c1; a1: b1 c1; b1: a1 c1;" +
		"c1: a2 b2; a2: b2 c1; b2: a2 c1; a2: b2 c1; b2: a2 c1; c1: a2 b2; a2: b2 c1",
	// The same, one slot after the other: each charter keeps a majority of the one before it.
	"one disk replaced, then another": "a1:; b1:; c1:; a2:; b2:; c1: a1 b1; a1: b1 c1; b1: a1 c1; a1: b1 c1; b1: a1 c1;" +
		"c1: a2 ~b1; c1: a2 b2; a2: b2 c1; b2: a2 c1; a2: b2 c1; b2: a2 c1; c1: a2 b2; a2: b2 c1",
	// c1 and then b1 moved on with a2; the record that a1 has accepted must not move c1 back.
	"the old record comes late": "a1:; b1:; c1:; a2:; c1: a1 b1; b1: a1 c1; a1: b1 c1; a1: b1 c1;" +
		"c1: a2 ~b1; b1: a2 c1; a2: b1 c1; b1: a2 c1; a2: b1 c1; c1: a1",
}

func newFoundings(seed uint64) *foundings {
	f := &foundings{rng: rand.New(rand.NewPCG(seed, 3))}
	for _, d := range []string{"a1", "a2", "b1", "b2", "c1", "c2"} {
		f.seats = append(f.seats, &seatee{disk: d, epoch: 1 + f.rng.Uint64N(2), seen: make([]int, 6)})
	}
	f.spare = f.rng.IntN(3)
	return f
}

// see lets one holder see others as they are now, and decide.
func (f *foundings) see(who string, whom []string) {
	var live [6]bool
	me := 0
	for k, s := range f.seats {
		if s.disk == who {
			me = k
		}
	}
	for k, s := range f.seats {
		for _, w := range whom {
			if w == "~"+s.disk {
				live[k] = true
			}
			if w == s.disk {
				live[k], f.seats[me].seen[k] = true, len(s.history)
			}
		}
	}
	f.decide(me, live)
}

type foundings struct {
	rng   *rand.Rand
	seats []*seatee
	spare int // how many of the slots have a second disk
}

// seatee is one disk and its holder.
type seatee struct {
	disk    string
	epoch   uint64
	ledger  Ledger
	history []Facts // all it has said so far
	seen    []int   // how much of each other holder's history has arrived
}

// step lets one holder see something random.
func (f *foundings) step() {
	i := f.pick(f.rng.IntN(3))
	var live [6]bool
	for slot := range 3 {
		live[f.pick(slot)] = slot != i/2
	}
	for k, s := range f.seats {
		if f.rng.IntN(3) > 0 {
			f.seats[i].seen[k] += f.rng.IntN(len(s.history) - f.seats[i].seen[k] + 1)
		}
	}
	f.decide(i, live)
}

// decide carries out the i-th holder's decision, based on what it has seen.
func (f *foundings) decide(i int, live [6]bool) {
	me := f.seats[i]
	o := Observation{
		Node:   me.disk,
		Config: Config{Cluster: "main", Slots: []string{"a", "b", "c"}, PeerURL: "https://{slot}.main:2380"},
		Claim:  Claim{Held: true, Slot: me.disk[:1], Disk: me.disk, Epoch: me.epoch},
		Disk:   Disk{Ledger: me.ledger, HasLedger: len(me.ledger.Promises) > 0, Founder: 1},
		Store:  Store{ID: "none"},
	}
	for k, s := range f.seats {
		if k != i && me.seen[k] > 0 {
			o.Peers = append(o.Peers, Peer{Node: s.disk, Live: live[k], Facts: &s.history[me.seen[k]-1]})
		} else if k != i && live[k] {
			o.Peers = append(o.Peers, Peer{Node: s.disk, Live: true})
		}
	}
	a := Next(o)
	if a.Kind != Start {
		me.ledger = me.ledger.After(a, me.disk)
	}
	o.Disk.Ledger = me.ledger
	if n := len(me.history); n == 0 || a.Kind != Wait {
		me.history = append(me.history, o.Facts(nil))
	}
}

// pick chooses one of the disks of a slot.
func (f *foundings) pick(slot int) int {
	if slot <= f.spare {
		return 2*slot + f.rng.IntN(2)
	}
	return 2 * slot
}

// check looks for two charters that could both have a quorum of founders.
func (f *foundings) check() string {
	founders := map[string]int{}
	for _, s := range f.seats {
		if r := s.ledger.Record; r != nil && s.ledger.Role == RoleFounder {
			founders[r.ID]++
		}
	}
	quorums := 0
	for _, n := range founders {
		quorums += boolToInt(n >= 2)
	}
	if quorums > 1 {
		return fmt.Sprintf("%d charters have a majority of founders: %v", quorums, founders)
	}
	return ""
}

// Other nodes must not take the disk in the place of a missing one for blank either, until it has a record.
func TestMissingDiskIsNotOffered(t *testing.T) {
	o := Observation{Claim: Claim{Held: true, Slot: "a", Disk: "d1", Missing: "disk d9"}}
	if got := o.Facts(nil).Phase; got != PhaseWaiting {
		t.Errorf("blank: got phase %q, want %q", got, PhaseWaiting)
	}
	o.Disk.Ledger = Ledger{Record: &Record{ID: "r"}, Role: RoleReplacement}
	if got := o.Facts(nil).Phase; got != PhaseVacant {
		t.Errorf("with a record: got phase %q, want %q", got, PhaseVacant)
	}
}
