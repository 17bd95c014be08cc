package plan

import "testing"

// TestHoldersNameFounders: a node that has promised the accepted founding answers for its slot before it announces that
// it has accepted it, too. A node with another promise, disk or record does not.
func TestHoldersNameFounders(t *testing.T) {
	c := Charter{Cluster: "main", Generation: 1, PeerURL: simPeerURL, Seats: []Seat{{Slot: "a", Disk: "d1", Epoch: 1}, {Slot: "b", Disk: "d2", Epoch: 1}}}
	r := FoundingRecord(c)
	other := c
	other.Seats = []Seat{{Slot: "a", Disk: "d1", Epoch: 2}, {Slot: "b", Disk: "d2", Epoch: 1}}
	elsewhere := FoundingRecord(other)
	for name, tc := range map[string]struct {
		facts Facts
		want  string
	}{
		"promised":        {Facts{Slot: "b", Disk: "d2", Phase: PhaseBlank, Promise: &c}, "n2"},
		"another promise": {Facts{Slot: "b", Disk: "d2", Phase: PhaseBlank, Promise: &other}, ""},
		"another disk":    {Facts{Slot: "b", Disk: "d9", Phase: PhaseBlank, Promise: &c}, ""},
		"nothing":         {Facts{Slot: "b", Disk: "d2", Phase: PhaseBlank}, ""},
		"another record":  {Facts{Slot: "b", Disk: "d2", Phase: PhaseData, Promise: &c, Record: &elsewhere}, ""},
	} {
		o := Observation{Node: "n1", Claim: Claim{Held: true, Slot: "a", Disk: "d1", Epoch: 1},
			Disk:  Disk{Ledger: Ledger{Record: &r, Role: RoleFounder, Promises: []Charter{c}}},
			Peers: []Peer{{Node: "n2", Live: true, Facts: &tc.facts}}}
		if got := Holders(o); got["b"] != tc.want || got["a"] != "n1" {
			t.Errorf("holders: %s: got %v, want b to be %q", name, got, tc.want)
		}
	}
}
