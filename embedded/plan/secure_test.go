package plan

import (
	"maps"
	"testing"
)

// A learner begins with each member's URL as the leader lists it. If an older leader lists none, it is the record's.
func TestJoinBetweenSchemes(t *testing.T) {
	r := FoundingRecord(Charter{Cluster: "main", Generation: 1, PeerURL: plainURL, Seats: []Seat{{Slot: "a", Disk: "d1", Epoch: 1}, {Slot: "b", Disk: "d2", Epoch: 1}}})
	o := Observation{Node: "n2", Config: Config{Cluster: "main", Slots: []string{"a", "b"}, PeerURL: secureURL, FromHTTP: "2380"},
		Claim: Claim{Held: true, Slot: "b", Disk: "d9", Epoch: 1}, Disk: Disk{HasLedger: true, Ledger: Ledger{Record: &r, Role: RoleJoiner, Join: 9}},
		Peers: []Peer{{Node: "n1", Live: true, Facts: &Facts{Version: 1, Slot: "a", Disk: "d1", Phase: PhaseData, Record: &r, Member: 1, Running: true, Leader: true,
			Members: []MemberInfo{{ID: 1, Slot: "a", PeerURL: "https://a.main:2381"}, {ID: 9, Slot: "b", Learner: true}}}}}}
	want := map[string]string{"a": "https://a.main:2381", "b": "http://b.main:2380"}
	if a := Next(o); a.Kind != Start || !maps.Equal(a.Peers, want) {
		t.Errorf("got %s %v: %s; want to start with %v", a.Kind, a.Peers, a.Text(), want)
	}
}

// A disk's promise ends with its generation, because the next one has other URLs. An admission in the same one keeps
// it.
func TestSecuredEnds(t *testing.T) {
	r := FoundingRecord(Charter{Cluster: "main", Generation: 1, PeerURL: plainURL, Seats: []Seat{{Slot: "a", Disk: "d1", Epoch: 1}}})
	l := Ledger{Record: &r, Role: RoleFounder, Started: "d1", Secured: &Secured{PeerURL: secureURL}}
	next := r
	next.Generation, next.ID, next.Line = 2, "next", []string{r.ID}
	for _, a := range []Action{{Kind: Vacate, Record: &r}, {Kind: Accept, Record: &r, Member: 9}, {Kind: Note, Aborted: "q"}} {
		if got := l.After(a, "d1").Secured; got == nil {
			t.Errorf("%s: the disk forgot what it promised", a.Kind)
		}
	}
	for _, kind := range []Kind{Enter, SetAside} {
		if got := l.After(Action{Kind: kind, Record: &next}, "d1").Secured; got != nil {
			t.Errorf("%s into the next generation: got %+v, want nothing", kind, got)
		}
	}
}
