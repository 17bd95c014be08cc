package plan

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	const mib = 1 << 20
	u := Upkeep{FreePercent: 50, FreeBytes: 100 * mib, FullPercent: 90, Cure: true}
	three := []MemberInfo{{ID: 1}, {ID: 2}, {ID: 3}}
	for _, c := range []struct {
		name        string
		size, inUse int64 // MiB, of 1000
		alarm       bool
		members     []MemberInfo
		before      bool
		tried       bool
		want        Judgement
	}{
		{"much is free", 300, 150, false, three, false, false, Judgement{Fragmented: true}},
		{"not enough of it", 300, 151, false, three, false, false, Judgement{}},
		{"not enough bytes", 150, 51, false, three, false, false, Judgement{}},
		{"still fragmented", 300, 220, false, three, true, false, Judgement{Fragmented: true}},
		{"no more", 300, 230, false, three, true, false, Judgement{}},
		{"the only member", 300, 100, false, three[:1], false, false, Judgement{}},
		{"the only member, twice over", 300, 75, false, three[:1], false, false, Judgement{Fragmented: true}},
		{"a learner is no member that serves", 300, 100, false, []MemberInfo{{ID: 1}, {ID: 2, Learner: true}}, false, false, Judgement{}},
		{"full", 900, 899, false, three, false, false, Judgement{Full: true}},
		{"full, and nothing shows as free", 950, 950, true, three, false, false, Judgement{Fragmented: true, Full: true}},
		{"full, and it was of no use", 950, 950, true, three, true, true, Judgement{Full: true}},
		{"full, and something was deleted since", 950, 899, true, three, false, true, Judgement{Fragmented: true, Full: true}},
		{"full, and much was deleted since", 1000, 949, true, three, false, true, Judgement{Fragmented: true, Full: true}},
		{"full, and little was deleted since", 1000, 951, true, three, false, true, Judgement{Full: true}},
		{"not full, and much was deleted since", 899, 500, true, three, false, true, Judgement{}},
		{"below the watermark", 899, 880, true, three, false, false, Judgement{}},
	} {
		m := Member{Members: c.members, Status: Status{Space: Space{Size: c.size * mib, InUse: c.inUse * mib, Quota: 1000 * mib}}}
		if c.alarm {
			m.Alarms = []Alarm{{Name: NoSpace}}
		}
		if got := u.Judge(Judgement{Fragmented: c.before}, m, c.tried); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	small := Upkeep{FreePercent: 50, FreeBytes: 32 * mib, FullPercent: 90} // the defaults, and what k3s-io/k3s #13911 tells of
	if j := small.Judge(Judgement{}, Member{Members: three, Status: Status{Space: Space{Size: 91e6, InUse: 28e6, Quota: 2 << 30}}}, false); !j.Fragmented {
		t.Error("63 of 91 MB are free, and it is not fragmented")
	}
	off := Upkeep{FullPercent: 90}
	if j := off.Judge(Judgement{Fragmented: true}, Member{Members: three, Status: Status{Space: Space{Size: 100, Quota: 1000}}}, false); j.Fragmented {
		t.Error("0 percent: it is fragmented all the same")
	}
	if j := off.Judge(Judgement{}, Member{Status: Status{Alarms: []Alarm{{Name: NoSpace}}, Space: Space{Size: 950, InUse: 10, Quota: 1000}}, Members: three}, false); j.Fragmented {
		t.Error("without cure: it is to be defragmented, which nobody may")
	}
}

func TestPermit(t *testing.T) {
	record := FoundingRecord(Charter{Cluster: "main", Generation: 1, Seats: []Seat{{Slot: "a", Disk: "d1"}, {Slot: "b", Disk: "d2"}}})
	fit := func() Observation {
		return Observation{Node: "n1", Config: Config{Upkeep: Upkeep{Cure: true}}, Claim: Claim{Held: true, Slot: "a"},
			Disk:   Disk{Ledger: Ledger{Record: &record}},
			Member: Member{Running: true, Status: Status{HasLead: true, Leader: true, Alarms: []Alarm{{Name: NoSpace}}}, ID: 1, Members: []MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b", Connected: true}}},
			Peers:  []Peer{{Node: "n2", Live: true, Facts: &Facts{Slot: "b", Running: true, Member: 2, Fragmented: true}}}}
	}
	if refusal := fit().Permit(); refusal != "" {
		t.Fatalf("refused: %s", refusal)
	}
	for refusal, spoil := range map[string]func(*Observation){
		"does not lead":              func(o *Observation) { o.Member.Leader = false },
		"not being cured":            func(o *Observation) { o.Member.Alarms = nil },
		"being cured":                func(o *Observation) { o.Member.Alarms = []Alarm{{Name: NoSpace}, {Name: Corrupt}} },
		"NOSPACE is not being cured": func(o *Observation) { o.Config.Upkeep.Cure = false },
		"disruption lock":            func(o *Observation) { o.Member.Lock = &Lock{Slot: "c", Node: "n3"} },
		"is not connected":           func(o *Observation) { o.Member.Members[1].Connected = false },
		"does not serve":             func(o *Observation) { o.Peers[0].Facts.Running = false },
	} {
		o := fit()
		spoil(&o)
		if got := o.Permit(); !strings.Contains(got, refusal) {
			t.Errorf("the answer is %q, want %q", got, refusal)
		}
	}
}

// A member that rests, such as one whose volume has no room for a defragmentation, comes before nobody.
func TestRestingComesBeforeNobody(t *testing.T) {
	record := FoundingRecord(Charter{Cluster: "main", Generation: 1,
		Seats: []Seat{{Slot: "a", Disk: "d1"}, {Slot: "b", Disk: "d2"}}})
	of := func(slot string, leads bool) Observation {
		return Observation{Claim: Claim{Held: true, Slot: slot}, Disk: Disk{Ledger: Ledger{Record: &record}},
			Member: Member{Running: true, Ready: true, Judgement: Judgement{Fragmented: true}, ID: uint64(slot[0]),
				Status:  Status{HasLead: true, Confirmed: true, Leader: leads},
				Members: []MemberInfo{{ID: 'a', Slot: "a", Connected: true}, {ID: 'b', Slot: "b"}}}}
	}
	for resting, want := range map[string]Kind{"": Wait, "the last attempt failed": Defrag} {
		o, leader := of("a", false), of("b", true)
		o.Resting, o.Disk.Member = resting, 'a'
		f := o.Facts(nil)
		leader.Peers = []Peer{{Node: "n1", Live: true, Facts: &f}}
		if a := Next(leader); a.Kind != want {
			t.Errorf("resting: %q: got %s: %s, want %s", resting, a.Kind, a.Text(), want)
		}
		if o.Member.Alarms = []Alarm{{Name: NoSpace}}; !o.Facts(nil).Fragmented {
			t.Errorf("resting: %q: nobody waits for it under NOSPACE", resting)
		}
	}
}
