package plan

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// small draws strings and numbers from a few, so that values coincide.
var (
	slot   = rapid.SampledFrom([]string{"", "a", "b", "c"})
	name   = rapid.SampledFrom([]string{"", "n1", "n2", "n3", "d1", "d2"})
	number = rapid.Uint64Range(0, 4)
)

func charters(t *rapid.T) Charter {
	return Charter{Cluster: "main", Generation: number.Draw(t, "generation"), PeerURL: rapid.SampledFrom([]string{"", "x{slot}", "http://{slot}.x:1"}).Draw(t, "url"),
		Seats: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Seat {
			return Seat{Slot: slot.Draw(t, "slot"), Disk: name.Draw(t, "disk"), Epoch: number.Draw(t, "epoch")}
		}), 0, 4).Draw(t, "seats")}
}

func records(t *rapid.T) *Record {
	if rapid.Bool().Draw(t, "none") {
		return nil
	}
	r := FoundingRecord(charters(t))
	r.Line = rapid.SampledFrom([][]string{nil, {r.ID}, {"p"}, {"p", "q"}}).Draw(t, "line")
	if len(r.Line) > 0 {
		r.ID, r.Cause, r.Restore = rapid.SampledFrom([]string{"q", "r"}).Draw(t, "id"), Restored, restores(t)
	} else if rapid.Bool().Draw(t, "parent") {
		r.ID = "p"
	}
	return &r
}

func restores(t *rapid.T) *Restore {
	if rapid.IntRange(0, 2).Draw(t, "none") == 0 {
		return nil
	}
	return &Restore{Cluster: "main", Generation: number.Draw(t, "generation"), Attempt: 1, ID: rapid.SampledFrom([]string{"q", "r"}).Draw(t, "id"), Line: rapid.SampledFrom([][]string{nil, {"p"}, {"p", "q"}}).Draw(t, "line"),
		Backup: "b1", Lost: rapid.SliceOfN(slot, 0, 3).Draw(t, "lost"), Led: rapid.SampledFrom([]*Stand{nil, {Node: "n2"}}).Draw(t, "led"),
		Overruled: rapid.SliceOfN(name, 0, 2).Draw(t, "overruled"), Survivor: rapid.SampledFrom([]string{"", "", "a"}).Draw(t, "survivor"), Disk: name.Draw(t, "disk"), Log: logs(t)}
}

func logs(t *rapid.T) *LogEnd {
	if rapid.Bool().Draw(t, "no log") {
		return nil
	}
	return &LogEnd{number.Draw(t, "term"), number.Draw(t, "index")}
}

func lefts(t *rapid.T) *Left {
	if rapid.IntRange(0, 3).Draw(t, "stays") != 0 {
		return nil
	}
	return &Left{Proposal: rapid.SampledFrom([]string{"q", "r"}).Draw(t, "left for"), Members: rapid.SliceOfN(rapid.Custom(memberInfo), 0, 3).Draw(t, "left behind"), Revision: int64(number.Draw(t, "revision"))}
}

func aborts(t *rapid.T) Abort {
	return Abort{ID: rapid.SampledFrom([]string{"", "q", "r"}).Draw(t, "aborted"), Why: "because"}
}

// ends draws the parts of an observation about how generations end.
func ends(t *rapid.T, o *Observation) {
	some := func() bool { return rapid.IntRange(0, 3).Draw(t, "some") == 0 }
	for range rapid.IntRange(0, 2).Draw(t, "concluded") {
		if r := records(t); r != nil {
			o.Store.Concluded = append(o.Store.Concluded, *r)
		}
	}
	o.Store.Aborted, o.Store.Met = rapid.SliceOfN(rapid.Custom(aborts), 0, 2).Draw(t, "aborts"), rapid.SliceOfN(name, 0, 2).Draw(t, "met")
	o.Disk.Ledger.Left, o.Disk.Ledger.Aborted = lefts(t), rapid.SampledFrom([][]string{nil, {"q"}, {"q", "r"}}).Draw(t, "noted")
	o.Disk.Log = logs(t)
	o.Member.Confirmed, o.Alone, o.Blind, o.Starting, o.Orders.Join, o.Orders.Differs = some(), some(), some(), some(), some(), some()
	if some() {
		o.Member.Consent = &Consent{Record: rapid.SampledFrom([]string{"p", "q", "r"}).Draw(t, "ends"), Proposal: rapid.SampledFrom([]string{"q", "r"}).Draw(t, "consents to")}
	}
}

func memberInfo(t *rapid.T) MemberInfo {
	return MemberInfo{ID: number.Draw(t, "id"), Slot: slot.Draw(t, "slot"), Learner: rapid.Bool().Draw(t, "learner"), Connected: rapid.Bool().Draw(t, "connected"),
		PeerURL: rapid.SampledFrom([]string{"", "http://a.x:1", "https://a.x:2", "https://b.x:2"}).Draw(t, "member's url")}
}

func admission(t *rapid.T) Admission {
	return Admission{Slot: slot.Draw(t, "slot"), Disk: name.Draw(t, "disk"), ID: number.Draw(t, "id")}
}

func peers(t *rapid.T) Peer {
	p := Peer{Node: name.Draw(t, "node"), Live: rapid.Bool().Draw(t, "live")}
	if rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
		return p
	}
	f := Facts{Version: 1, Slot: slot.Draw(t, "slot"), Epoch: number.Draw(t, "epoch"), Disk: name.Draw(t, "disk"), Record: records(t),
		Phase: rapid.SampledFrom([]Phase{PhaseNone, PhaseWaiting, PhaseBlank, PhaseFounder, PhaseJoiner, PhaseVacant, PhaseData}).Draw(t, "phase"),
		Slots: rapid.SliceOfN(slot, 0, 3).Draw(t, "slots"), Member: number.Draw(t, "member"), CID: number.Draw(t, "cid"),
		Running: rapid.Bool().Draw(t, "running"), Leader: rapid.Bool().Draw(t, "leader"), Members: rapid.SliceOfN(rapid.Custom(memberInfo), 0, 3).Draw(t, "members"),
		Removed: rapid.SliceOfN(number, 0, 2).Draw(t, "removed"), Admitted: rapid.SliceOfN(rapid.Custom(admission), 0, 2).Draw(t, "admitted"), Store: name.Draw(t, "store"),
		Fragmented: rapid.Bool().Draw(t, "fragmented"), Full: rapid.Bool().Draw(t, "full"), Short: rapid.Bool().Draw(t, "short"), Defragging: rapid.Bool().Draw(t, "defragging")}
	if rapid.Bool().Draw(t, "promised") {
		c := charters(t)
		f.Promise = &c
	}
	f.Restore, f.Prepared, f.Unable = rapid.SampledFrom([]string{"", "q"}).Draw(t, "restore"), rapid.SampledFrom([]string{"", "q", "r"}).Draw(t, "prepared"), rapid.SampledFrom([]string{"", "disk full"}).Draw(t, "unable")
	f.Left, f.Consent, f.Confirmed, f.Log = lefts(t), rapid.SampledFrom([]string{"", "q"}).Draw(t, "consent"), rapid.Bool().Draw(t, "confirmed"), logs(t)
	f.Nonce, f.Join = rapid.SampledFrom([]string{"", "", "v"}).Draw(t, "nonce"), number.Draw(t, "join")
	p.Facts = &f
	return p
}

// A leader whose disk stalls may have been replaced long ago.
func TestFactsOfStalledLeader(t *testing.T) {
	o := Observation{Claim: Claim{Held: true, Slot: "a"}, Member: Member{Running: true, Status: Status{Leader: true}}}
	if !o.Facts(nil).Leader {
		t.Error("a leader does not say so")
	}
	if o.Member.Stalled = true; o.Facts(nil).Leader {
		t.Error("stalled: it tells others that it leads")
	}
}

func observations(t *rapid.T) Observation {
	flip := func() bool { return rapid.Bool().Draw(t, "flip") }
	some := func() bool { return rapid.IntRange(0, 9).Draw(t, "some") == 0 }
	o := Observation{Node: "n1", Peers: rapid.SliceOfN(rapid.Custom(peers), 0, 5).Draw(t, "peers"), Orders: Orders{Abandon: some(), New: some()},
		Config: Config{Cluster: "main", Slots: rapid.SliceOfN(slot, 0, 4).Draw(t, "wanted"), PeerURL: rapid.SampledFrom([]string{"x{slot}", "https://{slot}.x:2"}).Draw(t, "own url"), FromHTTP: rapid.SampledFrom([]string{"", "1", "3"}).Draw(t, "from http"), Never: some(), Yields: flip()},
		Claim:  Claim{Held: !some(), Slot: slot.Draw(t, "slot"), Disk: name.Draw(t, "disk"), Epoch: number.Draw(t, "epoch")},
		Disk: Disk{HasLedger: flip(), WAL: flip(), Member: number.Draw(t, "member"), ClusterID: number.Draw(t, "cid"), Founder: number.Draw(t, "founder"), RecordCID: number.Draw(t, "rcid"),
			Ledger: Ledger{Promises: rapid.SliceOfN(rapid.Custom(charters), 0, 3).Draw(t, "promises"), Record: records(t), Join: number.Draw(t, "join"),
				Role: rapid.SampledFrom([]Role{RoleNone, RoleFounder, RoleJoiner, RoleReplacement, "x"}).Draw(t, "role"), Started: name.Draw(t, "started")}},
		Member: Member{Running: some(), Ready: flip(), Status: Status{Leader: flip(), HasLead: flip(), Learner: flip()}, ID: number.Draw(t, "id"), Removed: some(),
			Members: rapid.SliceOfN(rapid.Custom(memberInfo), 0, 4).Draw(t, "members"), Admitted: rapid.SliceOfN(rapid.Custom(admission), 0, 2).Draw(t, "admitted")},
		Store: Store{ID: name.Draw(t, "store"), Record: records(t), CID: number.Draw(t, "scid"), Restore: restores(t)},
	}
	if some() {
		o.Disk.Ledger.Secured = &Secured{"https://{slot}.x:2", flip()}
	}
	o.Disk.Ledger.Prepared, o.Disk.Built, o.Config.Automatic = restores(t), rapid.SampledFrom([]string{"", "q", "r"}).Draw(t, "built"), flip()
	o.Config.Upkeep.Cure, o.Compacted, o.Member.Fragmented, o.Member.Full = flip(), flip(), flip(), flip()
	o.Claim.Short, o.Claim.Room = flip(), Room{Free: int64(number.Draw(t, "free")), Size: int64(number.Draw(t, "size"))}
	o.Member.Revision, o.Member.Compacted = int64(number.Draw(t, "revision")), int64(number.Draw(t, "compacted"))
	o.Member.Alarms = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Alarm {
		return Alarm{rapid.SampledFrom([]string{NoSpace, NoSpace, Corrupt}).Draw(t, "alarm"), ID(number.Draw(t, "of"))}
	}), 0, 2).Draw(t, "alarms")
	if some() {
		o.Unable = "disk full"
	}
	if some() {
		o.Store.Requests = []Request{{Command: "c1", Problem: rapid.SampledFrom([]string{"", "no such backup"}).Draw(t, "problem"), Over: flip()}}
		o.Config.Foreign = flip()
	}
	if some() {
		o.Store.Unknown = "timeout"
	}
	ends(t, &o)
	return o
}

// needs lists the fields of an action that a kind must have, and may have.
var needs = map[Kind]struct{ must, may []string }{
	Wait:     {},
	Acquire:  {may: []string{"Avoid", "Known"}},
	Yield:    {may: []string{"Slot"}},
	Repair:   {must: []string{"Record"}, may: []string{"Member"}},
	SetAside: {must: []string{"Record"}, may: []string{"Node", "Member", "Reason"}},
	Promise:  {must: []string{"Charter"}},
	Commit:   {must: []string{"Record"}, may: []string{"Mirror"}},
	Vacate:   {must: []string{"Record"}},
	Accept:   {must: []string{"Record"}, may: []string{"Member", "Secured"}},
	Start:    {must: []string{"Record", "Peers"}, may: []string{"Member", "Join"}},
	Replace:  {may: []string{"Node", "Slot", "Disk", "Member", "PeerURL"}},
	Promote:  {may: []string{"Slot", "Member"}},
	Renounce: {may: []string{"Mirror"}},
	Mirror:   {must: []string{"Record"}},
	Propose:  {must: []string{"Request"}},
	Dismiss:  {must: []string{"Request"}},
	Prepare:  {must: []string{"Restore"}},
	Discard:  {},
	Conclude: {must: []string{"Record"}},
	Enter:    {must: []string{"Record"}},
	Swap:     {must: []string{"Record"}},
	Leave:    {must: []string{"Left"}},
	Stay:     {must: []string{"Aborted"}},
	Note:     {may: []string{"Set", "Aborted", "Secured"}},
	Update:   {must: []string{"PeerURL"}, may: []string{"Slot", "Member"}},
	Resize:   {must: []string{"Set"}},
	Remove:   {may: []string{"Slot", "Member"}},
	HandOver: {may: []string{"Slot"}},
	Retire:   {},
	Defrag:   {},
	Reload:   {},
	Compact:  {must: []string{"Revision"}},
	Disarm:   {},
	Raise:    {must: []string{"Alarm"}},
}

// checkNext asks twice: the answers are the same, the observation is untouched, and the fields are those of the kind.
func checkNext(t interface {
	Fatalf(format string, args ...any)
}, o Observation) {
	before, err := json.Marshal(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	a := Next(o)
	if b := Next(o); !reflect.DeepEqual(a, b) {
		t.Fatalf("two answers: %+v and %+v", a, b)
	}
	Holders(o)
	Object(o)
	o.Conflicts()
	o.Survey().Declare(nil, "")
	if a.Kind == Note && boolToInt(a.Set != nil)+boolToInt(a.Aborted != "")+boolToInt(a.Secured != nil) != 1 {
		t.Fatalf("a note of nothing, or of two things: %+v", a)
	}
	if after, _ := json.Marshal(o); string(before) != string(after) {
		t.Fatalf("observation was changed from %s to %s", before, after)
	}
	n, known := needs[a.Kind]
	if !known || a.Why == "" {
		t.Fatalf("unknown kind or no reason: %+v", a)
	}
	for _, c := range a.Commands {
		if !strings.Contains(a.Text(), c.String()) {
			t.Fatalf("the command %s is not in the text: %+v", c, a)
		}
	}
	v := reflect.ValueOf(a)
	for i := range v.NumField() {
		field := v.Type().Field(i).Name
		switch {
		case slices.Contains([]string{"Kind", "Why", "Obstacles", "Commands"}, field):
		case slices.Contains(n.must, field) && v.Field(i).IsZero():
			t.Fatalf("%s lacks %s: %+v", a.Kind, field, a)
		case !v.Field(i).IsZero() && !slices.Contains(n.must, field) && !slices.Contains(n.may, field):
			t.Fatalf("%s has %s: %+v", a.Kind, field, a)
		}
	}
}

func TestNextIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkNext(t, rapid.Custom(observations).Draw(t, "observation")) })
}

func FuzzNext(f *testing.F) {
	f.Add([]byte(`{"Node":"n1","Claim":{"Held":true,"Slot":"a","Disk":"d1"},"Config":{"Slots":["a"]},"Store":{"ID":"S"}}`))
	f.Add([]byte(`{"Claim":{"Held":true},"Member":{"Running":true,"Ready":true,"HasLead":true,"Leader":true},"Disk":{"WAL":true,"Ledger":{"record":{}}},"Peers":[{"Live":true,"Facts":{}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o Observation
		if json.Unmarshal(data, &o) == nil {
			checkNext(t, o)
		}
	})
}
