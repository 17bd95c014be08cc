package plan

import "testing"

// TestQuiet: how far the members have come changes with every write. The gossip only shows it for members that are
// away; the leader's direct answer shows it for all.
func TestQuiet(t *testing.T) {
	o := Observation{
		Claim: Claim{Held: true, Slot: "a", Disk: "d1"},
		Member: Member{Running: true, Status: Status{HasLead: true, Leader: true}, ID: 1, Leads: 4,
			Members: []MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b", Connected: true, Acked: 7}, {ID: 3, Slot: "c", Acked: 5}}},
	}
	asked := o.Facts(nil)
	told := asked.Quiet()
	for i, want := range []struct{ asked, told uint64 }{{0, 0}, {7, 0}, {5, 5}} {
		if got := asked.Members[i].Acked; got != want.asked {
			t.Errorf("asked directly of member %d: got %d, want %d", i+1, got, want.asked)
		}
		if got := told.Members[i].Acked; got != want.told {
			t.Errorf("told everybody of member %d: got %d, want %d", i+1, got, want.told)
		}
	}
	if asked.Term != 4 || told.Term != 4 {
		t.Errorf("got terms %d and %d, want 4", asked.Term, told.Term)
	}
}
