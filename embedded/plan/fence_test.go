package plan

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
)

// oldSlot is one slot of a generation that is to end.
type oldSlot struct {
	listed, learner bool
	holder          bool // there is a live one
	heir            bool // with the member's own disk
	prepared, lost  bool
}

// oldKinds are the possible slots.
var oldKinds = []oldSlot{
	{listed: true, holder: true, heir: true, prepared: true},
	{listed: true, holder: true, heir: true, prepared: true, lost: true},
	{listed: true, holder: true, heir: true, prepared: true, learner: true},
	{listed: true, holder: true, heir: true, prepared: true, learner: true, lost: true},
	{listed: true, holder: true, prepared: true},
	{listed: true, holder: true, prepared: true, lost: true},
	{listed: true, lost: true},
	{holder: true, prepared: true, lost: true},
}

// ending is the kind of proposal: led; leaderless, and nobody has left; leaderless, and all that are here have left.
type ending int

const (
	led ending = iota
	leaderless
	deserted
)

// conclude lets a node without a disk judge them.
func conclude(slots []oldSlot, e ending) *Record {
	old := &Record{Cluster: "main", Generation: 1, ID: "p"}
	p := &Restore{ID: "r", Generation: 2, Line: []string{"p"}}
	if e == led {
		p.Led = &Stand{Node: "n1"}
	}
	var list []MemberInfo
	var peers []Peer
	for i, s := range slots {
		slot := string(rune('a' + i))
		old.Charter.Seats = append(old.Charter.Seats, Seat{Slot: slot})
		if s.lost {
			p.Lost = append(p.Lost, slot)
		}
		if s.listed {
			list = append(list, MemberInfo{ID: uint64(i) + 1, Slot: slot, Learner: s.learner})
		}
		f := &Facts{Slot: slot, Disk: "new " + slot, Record: old, Phase: PhaseVacant}
		if s.heir {
			f.Disk, f.Phase, f.Member, f.Running = "old "+slot, PhaseData, uint64(i)+1, true
		}
		if s.prepared {
			f.Prepared = "r"
		}
		if s.holder {
			peers = append(peers, Peer{Node: "n" + slot, Live: true, Facts: f})
		}
	}
	for _, p := range peers {
		switch f := p.Facts; {
		case f.Running && e == deserted:
			f.Running, f.Left = false, &Left{Proposal: "r", Members: list}
		case f.Running:
			f.Members = list
		}
	}
	r, _ := fencing(look(&Observation{Peers: peers, Store: Store{ID: "S", Record: old, Restore: p}})).conclusion(p)
	return r
}

// TestFence: whatever the old generation looks like, each majority of the seats leaves it without a majority. If it has
// no leader, it has no majority before any disk enters.
func TestFence(t *testing.T) {
	most, tried, concluded := 5, 0, make([]int, 3)
	if testing.Short() {
		most = 3
	}
	for n := 1; n <= most; n++ {
		slots := make([]oldSlot, n)
		for code := range 1 << (3 * n) {
			for i := range slots {
				slots[i] = oldKinds[code>>(3*i)&7]
			}
			tried++
			for _, e := range []ending{led, leaderless, deserted} {
				if r := conclude(slots, e); r != nil {
					concluded[e]++
					checkFence(t, slots, r, e)
				}
			}
		}
	}
	t.Logf("%d generations, %d concluded", tried, concluded)
	if slices.Contains(concluded, 0) {
		t.Errorf("nothing was ever concluded one of these ways: %d", concluded)
	}
}

func checkFence(t *testing.T, slots []oldSlot, r *Record, e ending) {
	t.Helper()
	known := slices.ContainsFunc(slots, func(s oldSlot) bool { return s.heir }) // the member list
	for q := range uint(1) << len(slots) {
		voters, alive, seated := 0, 0, bits.OnesCount(q) == len(slots)/2+1
		for i, s := range slots {
			disk, in := r.Charter.Seats[i].Disk, q>>i&1 == 1
			seated = seated && (!in || disk != "")
			if known && (!s.listed || s.learner) {
				continue
			}
			voters++
			entered := e == led && in && disk == fmt.Sprintf("old %c", 'a'+i)
			alive += boolean(!s.lost && !entered && !(e == deserted && s.heir))
		}
		if (seated || e != led) && voters > 0 && alive > voters/2 {
			t.Fatalf("I9: %+v: the seats %v, of which %b serve, leave %d of %d old voters", slots, r.Charter.Seats, q, alive, voters)
		}
	}
}

// A restore that leaves out too few voters' slots can be concluded, and with all of them in any case.
func TestHopeless(t *testing.T) {
	for name, tc := range map[string]struct{ slots, members, want string }{
		"all":             {"a,b,c", "a:1,b:2,c:3", ""},
		"of two":          {"a,b", "a:1,b:2", ""},
		"a learner":       {"a,b,c", "a:1,b:2,c:3,d:4*", ""},
		"it was promoted": {"a,b,c", "a:1,b:2,c:3,d:4", ""},
		"three of five":   {"a,b,c", "a:1,b:2,c:3,d:4,e:5", "with the slots a,b,c, and slots d, e have members as well"},
		"one of two":      {"a", "a:1,b:2", ""},
		"fewer by now":    {"a,b,c", "a:1", ""},
	} {
		r := reader{charters: map[string]Charter{}, restores: map[string]Restore{}}
		o, err := r.read(`charter X a=d1@1 b=d2@1 c=d3@1
restore R line=X backup=b1 led=n1 slots=` + tc.slots + `
claim a d1 epoch=2
disk record=X role=founder started=d1 wal=1 cid=X founder=1
member running ready leader members=` + tc.members + `
store id=S record=X restore=R
`)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Hopeless(o.Store.Restore); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("hopeless: %s: got %q, want %q", name, got, tc.want)
		}
	}
}
