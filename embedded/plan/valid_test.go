package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// wholeCharter, wholeRestore and wholeChild are those of a cluster with three slots that a restore ends.
func wholeCharter() Charter {
	return Charter{Cluster: "main", Generation: 1, PeerURL: "https://{slot}.main:2380", Seats: []Seat{{Slot: "a", Disk: "d1", Epoch: 1}, {Slot: "b", Disk: "d2", Epoch: 1}, {Slot: "c", Disk: "d3", Epoch: 2}}}
}

func wholeRestore() Restore {
	return Restore{Cluster: "main", Generation: 2, Attempt: 1, ID: "00000000000000aa", Line: []string{wholeCharter().ID()}, Backup: "2026-07-01T00:15:03Z-000042",
		Digest: strings.Repeat("0f", 32), Revision: 4711, Bump: 1000, Slots: []string{"a", "b", "c"}, By: "root@n1", Lost: []string{"c"},
		Led: &Stand{Node: "n1", Slot: "a", Revision: 4800, Leader: true}, Overruled: []string{"d3"}}
}

func wholeRecovery() Restore {
	p := wholeRestore()
	p.Backup, p.Digest, p.Led, p.Survivor, p.Disk, p.Log = "", "", nil, "a", "d1", &LogEnd{Term: 2, Index: 31}
	return p
}

func wholeChild(p Restore) Record {
	c := wholeCharter()
	c.Generation = 2
	c.Seats[2] = Seat{Slot: "c", Member: 3}
	cause := Restored
	if p.Survivor != "" {
		c.Seats[1], cause = Seat{Slot: "b", Member: 2}, Recovered
	}
	return Record{Cluster: "main", Generation: 2, ID: p.ID, Line: p.Line, Cause: cause, Restore: &p, Charter: c}
}

func wholeMembers() []MemberInfo {
	return []MemberInfo{{ID: 1, Slot: "a", Started: true}, {ID: 2, Slot: "b", Started: true, Connected: true}, {ID: 9, Learner: true}}
}

func wholeSet() *SlotSet {
	return &SlotSet{Record: wholeCharter().ID(), Serial: 1, Slots: []string{"a", "b", "c"}, From: []string{"", "a", "b"}}
}

func wholeLedger() Ledger {
	r, p := FoundingRecord(wholeCharter()), wholeRestore()
	return Ledger{Promises: []Charter{wholeCharter()}, Record: &r, Role: RoleFounder, Started: "d1", Prepared: &p, Set: wholeSet(),
		Left: &Left{Proposal: p.ID, Members: wholeMembers(), Revision: 4711}, Aborted: []string{"00000000000000bb"}}
}

func wholeFacts() Facts {
	l := wholeLedger()
	return Facts{Version: 1, Slot: "a", Epoch: 1, Disk: "d1", Phase: PhaseData, Slots: []string{"a", "b", "c"}, PeerURL: "https://{slot}.main:2380", Promise: l.Promise(),
		Record: l.Record, Member: 1, CID: 7, Running: true, Leader: true, Clients: []string{"https://10.0.0.1:2379"}, Members: wholeMembers(), Removed: []uint64{4},
		Admitted: []Admission{{Slot: "c", Disk: "d4", ID: 9}}, Holders: map[string]string{"a": "n1"}, Store: "S", Nonce: "N", Restore: l.Prepared.ID, Prepared: l.Prepared.ID,
		Unable: "the disk is full", Consent: l.Prepared.ID, Left: l.Left, Log: &LogEnd{Term: 2, Index: 31}, Set: l.Set, Etcd: "3.7.3", Agreed: "3.7.0", Trusts: []string{"0123"}}
}

func wholeStore() Store {
	r, p := wholeChild(wholeRestore()), wholeRestore()
	p.Generation, p.ID, p.Line = 3, "00000000000000cc", []string{r.Line[0], r.ID}
	return Store{ID: "S", Record: &r, Restore: &p, Attempts: 1, Concluded: []Record{r}, Aborted: []Abort{{ID: "00000000000000bb", Why: "it has a leader", By: &Stand{Node: "n2"}}}, Nonce: "N", Met: []string{"n2"}}
}

// valid is a value with a Valid method.
type valid interface{ Valid() error }

// flaw breaks a valid value; says is what the error must contain.
type flaw[T valid] struct {
	name, says string
	break_     func(*T)
}

// checkFlaws checks that the valid value passes, and that the error of each flaw names its field.
func checkFlaws[T valid](t *testing.T, whole func() T, flaws []flaw[T]) {
	t.Helper()
	if err := whole().Valid(); err != nil {
		t.Errorf("whole: %v", err)
	}
	for _, f := range flaws {
		v := whole()
		f.break_(&v)
		if err := v.Valid(); err == nil || !strings.Contains(err.Error(), f.says) {
			t.Errorf("%s: got %v, want an error with %q", f.name, err, f.says)
		}
	}
}

func TestRecordValid(t *testing.T) {
	checkFlaws(t, func() Record { return FoundingRecord(wholeCharter()) }, []flaw[Record]{
		{"empty", "cause: must not be empty", func(r *Record) { *r = Record{} }},
		{"of a later version", "a newer holdfast wrote it", func(r *Record) { r.Cause = "merged" }},
		{"no cluster", "cluster: must not be empty", func(r *Record) { r.Cluster = "" }},
		{"another charter", "id: must be the hash of the charter", func(r *Record) { r.Charter.Seats[0].Epoch = 9 }},
		{"an ID that is a path", `id: must be 16 hexadecimal digits, got "../../etc/passwd"`, func(r *Record) { r.ID = "../../etc/passwd" }},
		{"a parent", "line: must have one entry", func(r *Record) { r.Line = []string{"00000000000000bb"} }},
		{"a restore", "restore: must not be there", func(r *Record) { p := wholeRestore(); r.Restore = &p }},
		{"generation 0", "line: must have one entry for each generation before 0", func(r *Record) { r.Generation = 0 }},
		{"another cluster's charter", "charter.cluster", func(r *Record) { r.Charter.Cluster = "other" }},
		{"another generation's charter", "charter.generation", func(r *Record) { r.Charter.Generation = 2 }},
		{"a seat without a disk", "charter.seats[1].disk", func(r *Record) { r.Charter.Seats[1].Disk = ""; r.ID = r.Charter.ID() }},
	})
	checkFlaws(t, func() Record { return wholeChild(wholeRestore()) }, []flaw[Record]{
		{"no restore", "restore: must be there", func(r *Record) { r.Restore = nil }},
		{"of another proposal", "restore.id", func(r *Record) { r.Restore.ID = "00000000000000bb" }},
		{"of another cluster", "restore.cluster", func(r *Record) { r.Restore.Cluster = "other" }},
		{"of other URLs", "restore.peer_url", func(r *Record) { r.Restore.PeerURL = "https://{slot}.other:2381" }},
		{"of another parent", "restore.line", func(r *Record) { r.Restore.Line = []string{"00000000000000bb"} }},
		{"no line", "line: must have one entry", func(r *Record) { r.Line = nil }},
		{"its own parent", "line[0]: must not be there twice", func(r *Record) { r.Line = []string{r.ID} }},
		{"a survivor", "restore.survivor", func(r *Record) { p := wholeRecovery(); r.Restore = &p }},
		{"too few disks", "charter.seats: must seat a majority of 3", func(r *Record) { r.Charter.Seats[1].Disk = "" }},
		{"a bad restore", "restore.digest", func(r *Record) { r.Restore.Digest = "" }},
	})
	checkFlaws(t, func() Record { return wholeChild(wholeRecovery()) }, []flaw[Record]{
		{"what crashed all nodes", "id: must be 16 hexadecimal digits", func(r *Record) { *r = Record{ID: "x", Cluster: "main", Generation: 2, Cause: Recovered} }},
		{"no restore", "restore: must be there", func(r *Record) { r.Restore = nil }},
		{"no survivor", "restore.survivor", func(r *Record) { p := wholeRestore(); r.Restore = &p }},
		{"the survivor has no seat", "charter.seats", func(r *Record) { r.Restore.Survivor = "d" }},
		{"the seat of another disk", "charter.seats", func(r *Record) { r.Restore.Disk = "d9" }},
	})
}

func TestCharterValid(t *testing.T) {
	checkFlaws(t, wholeCharter, []flaw[Charter]{
		{"no cluster", "cluster", func(c *Charter) { c.Cluster = "" }},
		{"no seats", "seats: must be 1–64, got 0", func(c *Charter) { c.Seats = nil }},
		{"generation 0", "generation: must be 1–", func(c *Charter) { c.Generation = 0 }},
		{"one URL for all", "peer_url: must contain {slot}", func(c *Charter) { c.PeerURL = "https://main:2380" }},
		{"no URL", "peer_url", func(c *Charter) { c.PeerURL = "" }},
		{"out of order", "seats[1].slot: must come after b", func(c *Charter) { c.Seats[0], c.Seats[1] = c.Seats[1], c.Seats[0] }},
		{"a slot twice", "seats[1].slot: must come after a", func(c *Charter) { c.Seats[1].Slot = "a" }},
		{"a disk twice", "seats[2].disk: must not have another seat", func(c *Charter) { c.Seats[2].Disk = "d1" }},
		{"a slot that is a path", "seats[0].slot", func(c *Charter) { c.Seats[0].Slot = "a/b" }},
		{"an epoch that nothing comes after", "seats[0].epoch", func(c *Charter) { c.Seats[0].Epoch = 1<<64 - 1 }},
		{"too many", "seats: must be 1–64, got 1000", func(c *Charter) { c.Seats = make([]Seat, 1000) }},
	})
}

func TestRestoreValid(t *testing.T) {
	flaws := []flaw[Restore]{
		{"no line", "line: must have one entry for each generation before 2, got", func(r *Restore) { r.Line = nil }},
		{"the origin of a backup", "origin: must be absent", func(r *Restore) { r.Origin = r.Line[0] }},
		{"no parent", "generation: must be 2 or more", func(r *Restore) { r.Generation, r.Line = 1, nil }},
		{"attempt 0", "attempt", func(r *Restore) { r.Attempt = 0 }},
		{"a negative revision", "revision: must be 0–", func(r *Restore) { r.Revision = -1 }},
		{"a negative bump", "bump: must be 0–", func(r *Restore) { r.Bump = -1 }},
		{"an overflow", "bump: must be 0–", func(r *Restore) { r.Bump = 1<<63 - 1 }},
		{"no ID", "id", func(r *Restore) { r.ID = "" }},
		{"slots out of order", "slots: must be in order, each once", func(r *Restore) { r.Slots = []string{"b", "a"} }},
		{"slots twice", "slots: must be in order, each once", func(r *Restore) { r.Slots = []string{"a", "a"} }},
		{"lost what is no slot", "lost[0]", func(r *Restore) { r.Lost = []string{""} }},
		{"shown nobody", "led.node", func(r *Restore) { r.Led = &Stand{} }},
		{"a negative time", "lasts", func(r *Restore) { r.Lasts = -1 }},
		{"a novel", "by: must be 0–4096", func(r *Restore) { r.By = strings.Repeat("x", 5000) }},
		{"neither", "backup: must be there, or a survivor", func(r *Restore) { r.Backup, r.Survivor = "", "" }},
		{"both", "backup: must be there, or a survivor", func(r *Restore) { r.Backup, r.Survivor = "b", "a" }},
	}
	checkFlaws(t, wholeRestore, append(slices.Clone(flaws), flaw[Restore]{"no digest", "digest: must be 64 hexadecimal digits", func(r *Restore) { r.Digest = "d" }}))
	checkFlaws(t, wholeRecovery, append(slices.Clone(flaws), flaw[Restore]{"no disk", "disk: must not be empty", func(r *Restore) { r.Disk = "" }}))
}

func TestPartsValid(t *testing.T) {
	checkFlaws(t, func() SlotSet { return *wholeSet() }, []flaw[SlotSet]{
		{"no record", "record", func(s *SlotSet) { s.Record = "" }},
		{"no serial", "serial: must be 1 or more", func(s *SlotSet) { s.Serial = 0 }},
		{"the last serial", "serial", func(s *SlotSet) { s.Serial = 1<<64 - 1 }},
		{"no slots", "slots: must be 1–64", func(s *SlotSet) { s.Slots = nil }},
		{"out of order", "slots: must be in order", func(s *SlotSet) { s.Slots = []string{"c", "a"} }},
		{"from out of order", "from: must be in order", func(s *SlotSet) { s.From = []string{"c", "a"} }},
	})
	checkFlaws(t, func() Consent { return Consent{wholeCharter().ID(), wholeRestore().ID, "root"} }, []flaw[Consent]{
		{"no generation", "record", func(c *Consent) { c.Record = "" }},
		{"no proposal", "proposal", func(c *Consent) { c.Proposal = "" }},
	})
	checkFlaws(t, func() Abort { return *wholeStore().aborted("00000000000000bb") }, []flaw[Abort]{
		{"no proposal", "id", func(a *Abort) { a.ID = "" }},
		{"by nobody", "by.node", func(a *Abort) { a.By = &Stand{} }},
	})
}

func TestLedgerValid(t *testing.T) {
	checkFlaws(t, func() Ledger { return Ledger{} }, nil)
	checkFlaws(t, wholeLedger, []flaw[Ledger]{
		{"started, and no record", "record: must be there beside", func(l *Ledger) { l.Record = nil }},
		{"left, and no record", "record: must be there beside", func(l *Ledger) { l.Record, l.Role, l.Started = nil, "", "" }},
		{"a bad record", "record.id", func(l *Ledger) { l.Record.ID = "x" }},
		{"no role", "role: must not be empty", func(l *Ledger) { l.Role = "" }},
		{"a role of a later version", "a newer holdfast wrote it", func(l *Ledger) { l.Role = "witness" }},
		{"a joiner without an ID", "join", func(l *Ledger) { l.Role = RoleJoiner }},
		{"a promise without disks", "promises[0].seats[0].disk", func(l *Ledger) { l.Promises[0].Seats[0].Disk = "" }},
		{"a promise of a later generation", "promises[0].generation", func(l *Ledger) { l.Promises[0].Generation = 2 }},
		{"a bad preparation", "prepared.line", func(l *Ledger) { l.Prepared.Line = nil }},
		{"left for nothing", "left.proposal", func(l *Ledger) { l.Left.Proposal = "" }},
		{"left a member without an ID", "left.members[0].id", func(l *Ledger) { l.Left.Members[0].ID = 0 }},
		{"a bad set", "set.serial", func(l *Ledger) { l.Set.Serial = 0 }},
		{"secured by nothing", "secured", func(l *Ledger) { l.Secured = &Secured{Changed: true} }},
		{"aborted what is no ID", "aborted[0]", func(l *Ledger) { l.Aborted[0] = "" }},
	})
}

func TestFactsValid(t *testing.T) {
	checkFlaws(t, func() Facts { return Facts{Version: 1, Slots: []string{"a"}, PeerURL: "x", Store: "S"} }, []flaw[Facts]{
		{"a record without a disk", "phase: must not be empty", func(f *Facts) { f.Record = wholeFacts().Record }},
	})
	checkFlaws(t, func() Facts { return Facts{Version: 1, Slot: "a", Disk: "d1", Phase: PhaseBlank} }, []flaw[Facts]{
		{"a blank disk with a record", "phase: must not be that of a disk with a record", func(f *Facts) { f.Record = wholeFacts().Record }},
		{"no disk", "disk: must not be empty", func(f *Facts) { f.Disk = "" }},
		{"no slot", "slot", func(f *Facts) { f.Slot = "" }},
	})
	checkFlaws(t, wholeFacts, []flaw[Facts]{
		{"version 2", "a newer holdfast wrote it", func(f *Facts) { f.Version = 2 }},
		{"no version", "version: must be 1 or more, got 0", func(f *Facts) { f.Version = 0 }},
		{"a phase of a later version", "a newer holdfast wrote it", func(f *Facts) { f.Phase = "adopting" }},
		{"data of no record", "record: must be there in phase data", func(f *Facts) { f.Record = nil }},
		{"a bad record", "record.restore", func(f *Facts) {
			f.Record.Cause, f.Record.Generation, f.Record.Line = Recovered, 2, []string{"00000000000000bb"}
			f.Record.Charter.Generation = 2
		}},
		{"a bad promise", "promise.seats", func(f *Facts) { f.Promise.Seats = nil }},
		{"a member without an ID", "members[0].id: must not be 0", func(f *Facts) { f.Members[0].ID = 0 }},
		{"a member twice", "members[1].id: must not be there twice", func(f *Facts) { f.Members[1].ID = 1 }},
		{"a member without a slot", "members[0].slot", func(f *Facts) { f.Members[0].Slot = "" }},
		{"64 KiB of slots", "slots: must be 0–64, got 9000", func(f *Facts) { f.Slots = make([]string, 9000) }},
		{"64 KiB of members", "members: must be 0–64, got 9000", func(f *Facts) { f.Members = make([]MemberInfo, 9000) }},
		{"admitted nobody", "admitted[0].id", func(f *Facts) { f.Admitted[0].ID = 0 }},
		{"removed nobody", "removed[0]", func(f *Facts) { f.Removed[0] = 0 }},
		{"an epoch that nothing comes after", "epoch", func(f *Facts) { f.Epoch = 1 << 63 }},
		{"a control character", "etcd: must be printable", func(f *Facts) { f.Etcd = "3.7\x1b[2J" }},
		{"held by nobody", "holders.a", func(f *Facts) { f.Holders["a"] = "" }},
		{"left for nothing", "left.proposal", func(f *Facts) { f.Left.Proposal = "" }},
		{"an ID that is none", "prepared", func(f *Facts) { f.Prepared = "x" }},
	})
	f := wholeFacts()
	f.Version = 2
	if err := f.Valid(); !errors.Is(err, ErrUnsupported) {
		t.Errorf("version 2: got %v, want ErrUnsupported", err)
	}
	f = wholeFacts()
	f.Etcd = strings.Repeat("\x00", 60<<10)
	if err := f.Valid(); err == nil || len(err.Error()) > 400 {
		t.Errorf("a hostile value: got an error of %d bytes, want one that is short", len(err.Error()))
	}
}

// TestFactsOfALongError: the reason why a node cannot prepare may be very long, and its facts stay valid.
func TestFactsOfALongError(t *testing.T) {
	o := Observation{Claim: Claim{Held: true, Slot: "a", Disk: "d1"}, Unable: strings.Repeat("x", 1<<20)}
	if err := o.Facts(nil).Valid(); err != nil {
		t.Error(err)
	}
}

func TestStoreValid(t *testing.T) {
	checkFlaws(t, func() Store { return Store{Unknown: "timeout", Record: &Record{}} }, nil)
	checkFlaws(t, func() Store { return Store{ID: "S"} }, []flaw[Store]{
		{"a proposal to end nothing", "restore.generation", func(s *Store) { p := wholeRestore(); s.Restore = &p }},
	})
	checkFlaws(t, wholeStore, []flaw[Store]{
		{"what crashed all nodes", "record.", func(s *Store) { s.Record = &Record{ID: "x", Generation: 2, Cause: Recovered} }},
		{"a proposal that skips one", "restore.generation", func(s *Store) { s.Restore.Generation, s.Restore.Line = 4, append(s.Restore.Line, "00000000000000dd") }},
		{"a bad proposal", "restore.id", func(s *Store) { s.Restore.ID = "" }},
		{"concluded without a proposal", "concluded[0].restore", func(s *Store) { s.Concluded[0] = FoundingRecord(wholeCharter()) }},
		{"concluded nonsense", "concluded[0].cause", func(s *Store) { s.Concluded[0] = Record{} }},
		{"aborted nothing", "aborted[0].id", func(s *Store) { s.Aborted[0].ID = "" }},
		{"fewer than no attempts", "attempts", func(s *Store) { s.Attempts = -1 }},
	})
}

// told is everything that comes from outside.
type told struct {
	Ledger Ledger
	Store  Store
	Facts  Facts
	Second Facts
}

func (w told) Valid() error {
	return cmp.Or(within("ledger", w.Ledger.Valid()), within("store", w.Store.Valid()),
		within("facts", w.Facts.Valid()), within("second", w.Second.Valid()))
}

func wholeTold() told {
	child := wholeChild(wholeRestore())
	second := wholeFacts()
	second.Slot, second.Disk, second.Record, second.Leader, second.Left = "b", "d2", &child, false, nil
	return told{wholeLedger(), wholeStore(), wholeFacts(), second}
}

// asked asks everything about it, of a node with a few other properties.
func (w told) asked(r *rand.Rand) {
	flip := func() bool { return r.IntN(2) == 0 }
	o := Observation{Node: "n1", Config: Config{Cluster: "main", Slots: []string{"a", "b", "c"}, PeerURL: "https://{slot}.main:2380", Etcd: "3.7.3"}, Claim: Claim{Held: true, Slot: "a", Disk: "d1", Epoch: 1},
		Disk:  Disk{Ledger: w.Ledger, HasLedger: true, WAL: flip(), Member: 1, ClusterID: 7, RecordCID: 7, Founder: 1, Founders: map[string]uint64{"a": 1, "b": 2, "c": 3}},
		Store: w.Store, Peers: []Peer{{Node: "n2", Live: true, Facts: &w.Facts}, {Node: "n3", Live: flip(), Facts: &w.Second}}, Alone: flip(), Leaderless: flip(), Blind: flip()}
	if flip() {
		o.Member = Member{Running: true, Ready: true, Status: Status{HasLead: flip(), Confirmed: true, Leader: flip()}, ID: 1, Members: w.Facts.Members, Set: w.Facts.Set}
	}
	if l := w.Facts.Log; flip() {
		o.Disk.Log = l
	}
	if p := w.Ledger.Prepared; p != nil {
		o.Disk.Built = p.ID
	}
	askEverything(o)
}

// TestWholeNeverPanics damages valid values a little, and asks about those that are still valid.
func TestWholeNeverPanics(t *testing.T) {
	seeds, passed := uint64(20_000), 0
	if testing.Short() {
		seeds = 4_000
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 21))
		w := clone(t, wholeTold())
		damage(r, reflect.ValueOf(&w).Elem())
		if w.Valid() == nil {
			passed++
			survives(t, seed, w, func() { w.asked(r) })
		}
	}
	if passed < int(seeds)/20 {
		t.Errorf("only %d of %d were whole", passed, seeds)
	}
}

// FuzzValid: no valid value makes a decision panic.
func FuzzValid(f *testing.F) {
	for _, w := range []told{{Facts: Facts{Version: 1}, Second: Facts{Version: 1}}, wholeTold()} {
		data, err := json.Marshal(w)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint64(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		var w told
		if json.Unmarshal(data, &w) == nil && w.Valid() == nil {
			w.asked(rand.New(rand.NewPCG(seed, 1)))
		}
	})
}
