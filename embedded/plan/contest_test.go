package plan

import (
	"slices"
	"testing"
)

// TestObstacle asks a node that, by the gossip, holds the same disk by a lower claim and does not run its member.
func TestObstacle(t *testing.T) {
	r := FoundingRecord(Charter{Cluster: "main", Generation: 1, PeerURL: "http://{slot}:2380",
		Seats: []Seat{{Slot: "a", Disk: "A"}}})
	holds := func(disk string, epoch uint64, running bool) *Facts {
		return &Facts{Version: 1, Slot: "a", Disk: disk, Epoch: epoch, Phase: PhaseData, Record: &r, Member: 1,
			Running: running, Lock: "lock"}
	}
	same, another := holds("A", 1, false), holds("C", 9, true)
	another.Member, another.Slot = 2, "c"
	next := holds("A", 3, true)
	next.Record = &Record{Cluster: "main", Generation: 2, ID: "next"}
	for name, tc := range map[string]struct {
		heard  *Facts
		answer Answer
		want   bool
	}{
		"it runs the member":             {same, Answer{Facts: holds("A", 1, true)}, false},
		"it runs, and we have its lock":  {same, Answer{Facts: holds("A", 0, true)}, false},
		"it comes first":                 {same, Answer{Facts: holds("A", 3, false)}, false},
		"it gives way":                   {same, Answer{Facts: holds("A", 1, false)}, true},
		"it does not hear us":            {same, Answer{Facts: holds("A", 1, false), Deaf: true}, false},
		"it holds nothing, hears us not": {same, Answer{Facts: &Facts{Version: 1}, Deaf: true}, true},
		"it holds the data elsewhere":    {nil, Answer{Facts: holds("B", 3, false)}, false},
		"it is of another generation":    {nil, Answer{Facts: next}, true},
		"nobody listens there":           {same, Answer{Gone: true}, true},
		"it is silent":                   {same, Answer{}, false},
		"a standby is silent":            {&Facts{Version: 1}, Answer{}, true},
		"another member's is silent":     {another, Answer{}, true},
		"it has ours, not another's now": {another, Answer{Facts: holds("A", 3, false)}, false},
		"it has what it was heard to":    {another, Answer{Facts: another}, true},
		"who has said nothing is silent": {nil, Answer{}, true},
	} {
		o := Observation{Node: "n2", Claim: Claim{Held: true, Slot: "a", Disk: "A", Epoch: 2, Lock: "lock"},
			Disk:  Disk{WAL: true, Member: 1, HasLedger: true, Ledger: Ledger{Record: &r, Role: RoleFounder, Started: "A"}},
			Peers: []Peer{{Node: "n1", Live: true, Facts: tc.heard}}}
		if got := new(Contest).Obstacle(o, map[string]Answer{"n1": tc.answer}); got == "" != tc.want {
			t.Errorf("first: %s: it starts, %t, want %t (%s)", name, got == "", tc.want, got)
		}
		o.Twin = "10.0.0.9"
		if new(Contest).Obstacle(o, map[string]Answer{"n1": tc.answer}) == "" {
			t.Errorf("first: %s: it comes first although a twin has been heard since", name)
		}
	}
}

// TestContest: a node that asks about the same disk while a member asks makes that member ask again, even if the node
// is not heard yet. A node that asks about another disk delays nobody.
func TestContest(t *testing.T) {
	var c Contest
	mine, data, other := Contender{Disk: "A", Member: 1}, Contender{Disk: "B", Member: 1}, Contender{Disk: "C", Member: 2}
	sees := func(peers ...Peer) *Observation {
		return &Observation{Claim: Claim{Held: true, Disk: "A"}, Disk: Disk{Member: 1}, Peers: peers}
	}
	heard, unheard := sees(Peer{Node: "n1", Live: true, Facts: &Facts{Disk: "C"}}), sees()
	begins := func(obs *Observation, asked int, want bool) {
		t.Helper()
		if got := len(c.Whom(obs)); got != asked {
			t.Errorf("contest: %d are asked, want %d", got, asked)
		}
		if got := c.Begin(); got != want {
			t.Errorf("contest: it begins, %t, want %t", got, want)
		}
		c.End()
	}
	begins(heard, 1, true)
	for _, about := range []Contender{mine, data} {
		if c.Asked("n1", about) {
			t.Error("contest: it has begun before it began")
		}
		begins(unheard, 0, false)
		begins(heard, 1, true)
		c.Asked("n1", about)
		begins(heard, 1, true)
		if c.Whom(heard); c.Asked("n1", about) || c.Begin() {
			t.Error("contest: it begins although it was asked meanwhile")
		}
		if c.Whom(heard); !c.Begin() || !c.Asked("n1", about) {
			t.Error("contest: it has begun and does not say so")
		}
		c.End()
	}
	c.Forget("n1")
	silent := map[string]Answer{"n1": {}}
	unsaid := sees(Peer{Node: "n1", Live: true})
	if c.Whom(unsaid); c.Obstacle(*unsaid, silent) != "" {
		t.Error("contest: one that has said nothing and asked nothing holds it up by its silence")
	}
	c.Asked("n1", data)
	if c.Whom(unsaid); c.Obstacle(*unsaid, silent) == "" {
		t.Error("contest: it begins beside one that has asked for the same and is silent now")
	}
	ours := sees(Peer{Node: "n1", Live: true, Facts: &Facts{Disk: "A", Record: &Record{ID: "next"}}},
		Peer{Node: "n2", Facts: &Facts{Disk: "A"}})
	ours.Disk.Ledger.Record = &Record{ID: "ours"}
	if got := new(Contest).Whom(ours); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("contest: %v are asked, want the one that lives", got)
	}
	if got := new(Contest).Obstacle(*ours, silent); got != "" {
		t.Errorf("contest: a silent holder of another generation holds it up: %s", got)
	}
	c.Forget("n1")
	if c.Whom(heard); c.Asked("n1", other) || !c.Begin() {
		t.Error("contest: a question about another disk holds it up")
	}
	begins(heard, 1, true)
	begins(unheard, 0, true)
}
