package plan

import (
	"slices"
	"strings"
	"testing"
)

// TestObject: which members abort an open proposal (R16, R18).
func TestObject(t *testing.T) {
	ours := FoundingRecord(Charter{Cluster: "main", Generation: 1, Seats: []Seat{{Slot: "a", Disk: "d1"}, {Slot: "b", Disk: "d2"}, {Slot: "c", Disk: "d3"}}})
	led := &Stand{Node: "n2"}
	remembers := func(o *Observation, led *Stand) {
		o.Disk.Ledger.Aborted, o.Store.Restore.Led, o.Store.Restore.Lost = []string{"r"}, led, []string{"b"}
	}
	for name, c := range map[string]struct {
		change func(*Observation)
		want   string // "": no objection
	}{
		"a leader, and it is called leaderless":    {func(o *Observation) { o.Store.Restore.Lost = nil }, "has a leader"},
		"a leader, and we are called lost":         {func(o *Observation) { o.Store.Restore.Led = led }, "slot a, which the proposal calls lost, serves"},
		"a leader, and it says so":                 {func(o *Observation) { o.Store.Restore.Led, o.Store.Restore.Lost = led, []string{"b"} }, ""},
		"a leader objects again":                   {func(o *Observation) { o.Store.Restore.Overruled = []string{"d1"} }, "has a leader"},
		"no leader, and we are called lost":        {func(o *Observation) { o.Member.HasLead = false }, "runs here without a leader"},
		"a leader that is only remembered":         {func(o *Observation) { o.Member.Confirmed = false }, "runs here without a leader"},
		"no leader, and it is said so":             {func(o *Observation) { o.Member.HasLead, o.Store.Restore.Lost = false, []string{"b"} }, ""},
		"no leader, and it is said that we had":    {func(o *Observation) { o.Member.HasLead, o.Store.Restore.Led = false, led }, ""},
		"our objection was overruled":              {func(o *Observation) { o.Member.HasLead, o.Store.Restore.Overruled = false, []string{"d1"} }, ""},
		"the objection of another was overruled":   {func(o *Observation) { o.Member.HasLead, o.Store.Restore.Overruled = false, []string{"d2"} }, "without a leader"},
		"it was aborted before":                    {func(o *Observation) { remembers(o, led) }, "it was aborted before"},
		"it was aborted before, and no leader":     {func(o *Observation) { remembers(o, nil); o.Member.HasLead = false }, "it was aborted before"},
		"another one was aborted before":           {func(o *Observation) { remembers(o, led); o.Store.Restore.ID = "s" }, ""},
		"etcd does not run, and it was aborted":    {func(o *Observation) { remembers(o, led); o.Member = Member{} }, ""},
		"etcd does not run":                        {func(o *Observation) { o.Member = Member{} }, ""},
		"a learner":                                {func(o *Observation) { o.Member.Learner = true }, ""},
		"the store does not answer":                {func(o *Observation) { o.Store.Unknown = "timeout" }, ""},
		"nothing is proposed":                      {func(o *Observation) { o.Store.Restore = nil }, ""},
		"it would end another generation":          {func(o *Observation) { o.Store.Restore.Line = []string{ours.ID, "q"} }, ""},
		"it would end nothing, as it is not whole": {func(o *Observation) { o.Store.Restore.Line = nil }, ""},
		"the disk is of no cluster":                {func(o *Observation) { o.Disk.Ledger.Record = nil }, ""},
	} {
		o := Observation{Node: "n1", Claim: Claim{Held: true, Slot: "a", Disk: "d1"}, Disk: Disk{WAL: true, Ledger: Ledger{Record: &ours}},
			Member: Member{Running: true, Ready: true, Status: Status{HasLead: true, Confirmed: true}},
			Store:  Store{ID: "S", Record: &ours, Restore: &Restore{ID: "r", Generation: 2, Line: []string{ours.ID}, Backup: "b1", Lost: []string{"a"}}}}
		c.change(&o)
		if why, ok := Object(o); ok != (c.want != "") || !strings.Contains(why, c.want) {
			t.Errorf("object: %s: got %q, want %q", name, why, c.want)
		}
	}
}

// TestWithdrawn: a leader withdraws its generation's consent to a proposal that its disk remembers as aborted, and no
// other.
func TestWithdrawn(t *testing.T) {
	r := Record{ID: "ours", Generation: 1}
	consented := Observation{
		Member: Member{Running: true, Status: Status{HasLead: true, Confirmed: true, Leader: true, Alarms: []Alarm{{NoSpace, ID(Mark("ours", "p"))}}}},
		Disk:   Disk{Ledger: Ledger{Record: &r, Aborted: []string{"p", "q"}}},
	}
	for name, tc := range map[string]struct {
		change func(*Observation)
		want   []string
	}{
		"aborted":              {func(*Observation) {}, []string{"p"}},
		"not aborted":          {func(o *Observation) { o.Disk.Ledger.Aborted = []string{"q"} }, nil},
		"another's consent":    {func(o *Observation) { o.Member.Alarms = []Alarm{{NoSpace, ID(Mark("other", "p"))}} }, nil},
		"a follower":           {func(o *Observation) { o.Member.Leader = false }, nil},
		"a leader no more":     {func(o *Observation) { o.Member.Confirmed = false }, nil},
		"a disk without a log": {func(o *Observation) { o.Disk.Ledger.Record = nil }, nil},
	} {
		o := consented
		tc.change(&o)
		if got := o.Withdrawn(); !slices.Equal(got, tc.want) {
			t.Errorf("withdrawn: %s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestConflicts: what is shown as a conflict (R17).
func TestConflicts(t *testing.T) {
	charter := Charter{Cluster: "main", Generation: 1, Seats: []Seat{{Slot: "a", Disk: "d1"}, {Slot: "b", Disk: "d2"}, {Slot: "c", Disk: "d3"}}}
	ours := FoundingRecord(charter)
	charter.Seats = []Seat{{Slot: "a", Disk: "o1"}}
	foreign := FoundingRecord(charter)
	next := func(id string, p *Restore) *Record {
		p.ID, p.Line, p.Backup = id, []string{ours.ID}, "b1"
		return &Record{Cluster: "main", Generation: 2, ID: id, Line: p.Line, Cause: Restored, Restore: p}
	}
	second, other, led := next("second", &Restore{}), next("other", &Restore{}), next("led", &Restore{Led: &Stand{Node: "n2"}})
	serves := Member{Running: true, Status: Status{HasLead: true, Confirmed: true}}
	peer := func(live bool, f Facts) []Peer { return []Peer{{Node: "n2", Live: live, Facts: &f}} }
	for name, c := range map[string]struct {
		change func(*Observation)
		want   []string // part of each
	}{
		"all agree":                      {func(o *Observation) { o.Peers = peer(true, Facts{Record: &ours, Store: "S"}) }, nil},
		"no record of ours":              {func(o *Observation) { o.Disk.Ledger.Record, o.Store.Record = nil, &foreign }, nil},
		"the store is another cluster's": {func(o *Observation) { o.Store.Record = &foreign }, []string{"belongs to another cluster"}},
		"and does not answer":            {func(o *Observation) { o.Store = Store{ID: "S", Unknown: "timeout", Record: &foreign} }, nil},
		"the store went another way":     {func(o *Observation) { o.Disk.Ledger.Record, o.Store.Record = second, other }, []string{"find out which is right"}},
		"a record that nothing proves":   {func(o *Observation) { o.Store.Record = second }, []string{"no proposal and outcome"}},
		"and we run without a leader": {func(o *Observation) { o.Member.Running, o.Store.Record = true, second },
			[]string{"no proposal and outcome that ended " + ours.Token() + "; if that is right, restart this node"}},
		"concluded, and we have no leader": {func(o *Observation) { o.Store.Record, o.Store.Concluded = second, []Record{*second} }, nil},
		"concluded, without our leader":    {func(o *Observation) { o.Member, o.Store.Record, o.Store.Concluded = serves, led, []Record{*led} }, []string{"has not consented"}},
		"concluded after it was aborted": {func(o *Observation) {
			o.Disk.Ledger.Aborted, o.Store.Record, o.Store.Concluded = []string{"second"}, second, []Record{*second}
		}, []string{"said before that it was aborted"}},
		"open again after it was aborted": {func(o *Observation) {
			o.Disk.Ledger.Aborted, o.Store.Restore = []string{"second"}, second.Restore
		}, []string{"as open, and said before that it was aborted"}},
		"and the store does not answer": {func(o *Observation) {
			o.Disk.Ledger.Aborted, o.Store = []string{"second"}, Store{Unknown: "timeout", Restore: second.Restore}
		}, nil},
		"a node of another cluster":               {func(o *Observation) { o.Peers = peer(true, Facts{Record: &foreign, Store: "T"}) }, []string{"is of another cluster of this name, " + foreign.Token() + ": keep it away"}},
		"one that is gone":                        {func(o *Observation) { o.Peers = peer(false, Facts{Record: &foreign}) }, []string{"`holdfast gossip forget n2`"}},
		"a node that went on, which nothing says": {func(o *Observation) { o.Peers = peer(true, Facts{Record: second}) }, []string{"which nothing proves"}},
		"a node that went on by another store": {
			func(o *Observation) { o.Peers = peer(true, Facts{Record: second, Store: "T"}) },
			[]string{"which nothing proves: it uses another backup store: set snapshot.store to the same place"}},
		"a node that went on, as the store says": {func(o *Observation) {
			o.Store.Record, o.Store.Concluded, o.Peers = second, []Record{*second}, peer(true, Facts{Record: second})
		}, nil},
		"a node that is behind": {func(o *Observation) {
			o.Disk.Ledger.Record, o.Store.Record, o.Peers = second, second, peer(true, Facts{Record: &ours})
		}, nil},
		"another store":       {func(o *Observation) { o.Peers = peer(true, Facts{Record: &ours, Store: "T"}) }, []string{"node n2 uses another backup store"}},
		"a copy of the store": {func(o *Observation) { o.Peers = peer(true, Facts{Record: &ours, Store: "S", Nonce: "v"}) }, []string{"node n2 uses another backup store"}},
		"what it put there is not read yet": {func(o *Observation) {
			o.Store.Late, o.Peers = []string{"n2"}, peer(true, Facts{Record: &ours, Store: "S", Nonce: "v"})
		}, nil},
		"another store, which is not read again": {func(o *Observation) {
			o.Store.Late, o.Peers = []string{"n2"}, peer(true, Facts{Record: &ours, Store: "T", Nonce: "v"})
		}, []string{"node n2 uses another backup store"}},
		"one store": {func(o *Observation) {
			o.Store.Met, o.Peers = []string{"n2"}, peer(true, Facts{Record: &ours, Store: "S", Nonce: "v"})
		}, nil},
		"ours does not answer": {func(o *Observation) {
			o.Store, o.Peers = Store{ID: "S", Unknown: "timeout"}, peer(true, Facts{Record: &ours, Store: "S", Nonce: "v"})
		}, nil},
		"ours never answered": {func(o *Observation) {
			o.Store, o.Peers = Store{Unknown: "timeout"}, peer(true, Facts{Record: &ours, Store: "S", Nonce: "v"})
		}, nil},
		"ours was another's before it failed": {func(o *Observation) {
			o.Store, o.Peers = Store{ID: "S", Unknown: "timeout"}, peer(true, Facts{Record: &ours, Store: "T"})
		}, []string{"node n2 uses another backup store"}},
	} {
		o := Observation{Node: "n1", Config: Config{Cluster: "main"}, Claim: Claim{Held: true, Slot: "a", Disk: "d1"}, Disk: Disk{WAL: true, Ledger: Ledger{Record: &ours}}, Store: Store{ID: "S", Record: &ours}}
		c.change(&o)
		got := o.Conflicts()
		if len(got) != len(c.want) || !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("conflicts: %s: got %q, want %q", name, got, c.want)
		}
	}
}

// While a restore is proposed, no backup is pruned: nodes still fetch the one that it names.
func TestKeepBackups(t *testing.T) {
	o := Observation{Store: Store{ID: "S"}}
	if got := o.KeepBackups(); got != "" {
		t.Errorf("usually: got %q", got)
	}
	o.Store.Restore = &Restore{ID: "r", Generation: 2, Backup: "b1"}
	if got := o.KeepBackups(); !strings.Contains(got, "restore of b1") {
		t.Errorf("during a restore: got %q", got)
	}
}
