package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A cluster that another program runs is taken over, machine by machine, and given back (R22).

// alienID is the cluster ID of the cluster that is taken over.
const alienID = 0xa11e

// settle puts every slot's data on its machine, in a cluster that another program founded and runs.
func (w *world) settle() {
	from := Origin{Program: EtcdManager, Path: "data/t", Token: "t", Cluster: alienID}
	for i, slot := range w.goal {
		from.Members = append(from.Members, Elder{ID: uint64(i + 1), Name: slot, PeerURL: PeerURL(simPeerURL, slot), Slot: slot})
	}
	c := w.clusterOf(AdoptedRecord("main", simPeerURL, from))
	w.alien = c
	for i, slot := range w.goal {
		d := w.disks[0][i]
		if w.host {
			d = w.format(slot)
			w.disks[i][i] = d
		}
		d.data = &data{c: c, id: uint64(i + 1), ran: true, alien: true, list: slices.Clone(c.members)}
		c.booted = append(c.booted, d.data.id)
		n := w.boxes[i]
		n.crash()
		n.alien, n.own = true, d
		n.boot()
	}
}

// simPeerURL is the pattern of every node in the simulation.
const simPeerURL = "https://{slot}.main:2380"

// bootAlien starts the other program on its own disk, or leaves the machine to holdfast if there is none.
func (n *node) bootAlien() {
	d := n.own
	if d.gone || d.holder != nil || d.data == nil || d.data.c != n.w.alien || slices.Contains(d.data.c.removed, d.data.id) {
		n.alien = false
		return
	}
	n.disk, d.holder, n.up, n.views = d, n, true, make([]heard, len(n.w.boxes))
	n.proc = &proc{data: d.data, members: slices.Clone(d.data.list)}
	n.w.note("%s runs another program on %s", n.name, d.uuid)
	n.w.started(n)
}

// hand gives a machine from one program to the other. holdfast gives it back only while other machines are not taken
// over: a node may have noted the end of the takeover otherwise, and an operator pauses the cluster first.
func (w *world) hand() {
	n := w.someNode()
	if n.alien {
		n.crash()
		n.alien = false
		n.boot()
		w.tally.event("taken over")
		return
	}
	d := n.disk
	if len(w.aliens()) == 0 || d == nil || d.data == nil || d.data.c != w.alien || d.ledger.Left != nil || n.removed || len(n.todo) > 0 ||
		d.ledger.Record != nil && d.ledger.Record.ID != w.alien.record.ID || w.followed(w.alien.record) || !w.chance(30) {
		return
	}
	n.crash()
	n.alien, n.own = true, d
	n.boot()
	w.tally.event("given back")
}

// bury makes the operator remove, with etcdctl, the other program's members whose data is lost: while that program runs
// some members, no node removes any.
func (w *world) bury() {
	c := w.alien
	if c.leader == nil {
		return
	}
	for _, m := range slices.Clone(c.members) {
		kept := slices.ContainsFunc(w.here(), func(d *disk) bool { return d.data != nil && d.data.c == c && d.data.id == m.ID })
		_, elder := Origin{Members: c.record.Adopted.Members}.elder(m.ID)
		if elder && !kept && c.remove(w, c.leader, m.ID) {
			w.tally.event("removed by the operator")
			w.note("the operator removes %x", m.ID)
		}
	}
}

// origin is what a disk says about the other program's cluster, nil if it has no data of it.
func (n *node) origin() *Origin {
	d := n.disk
	if d.data == nil || !d.data.alien {
		return nil
	}
	from := &Origin{Program: EtcdManager, Path: "data/t", Token: "t", Cluster: alienID, Member: d.data.id, Version: "3.6.0"}
	for _, m := range d.data.list {
		from.Members = append(from.Members, Elder{ID: m.ID, Name: m.Slot, PeerURL: PeerURL(simPeerURL, m.Slot), Slot: m.Slot,
			Learner: m.Learner})
	}
	return from
}

// aliens are the slots of voters that the other program runs, or would run once its machine is back.
func (w *world) aliens() []string {
	var slots []string
	for _, n := range w.boxes {
		if n.alien && n.own.data != nil && !n.own.gone && (n.own.holder == nil || n.own.holder == n) && w.alien.find(n.own.data.id) != nil {
			slots = append(slots, n.own.slot)
		}
	}
	return slots
}

// judgeAdoption: no member is changed while the other program runs some, and the note that it runs none is true.
func (w *world) judgeAdoption(n *node, o Observation, a Action) {
	if w.alien == nil {
		return
	}
	if r := o.Disk.Ledger.Record; r == nil || r.ID != w.alien.record.ID || len(w.aliens()) == 0 {
		return
	}
	switch a.Kind {
	case Replace, Resize, Remove, Defrag, HandOver:
		w.fail("A2: %s decides to %s while slots %v are not taken over", n.name, a.Kind, w.aliens())
	}
}

// confirmed directly asks every member's node whether the takeover is over, as the coordinator does: a machine may have
// been given back since.
func (n *node) confirmed(a Action) bool {
	w := n.w
	if !a.Ask {
		return true
	}
	for _, m := range n.proc.members {
		r := w.alien.runner(w, m.ID)
		if !m.Learner && (r == nil || r.alien || !w.reach(n, r)) {
			return false
		}
	}
	if slots := w.aliens(); len(slots) > 0 {
		w.fail("A1: %s notes that the takeover is over, and slots %v are not taken over", n.name, slots)
	}
	return true
}

// concludingBeside: no restore ends a cluster whose voters another program runs, unless they were named lost.
func (w *world) concludingBeside(r Record) {
	if w.alien == nil || r.Parent() != w.alien.record.ID || r.Cause != Restored {
		return
	}
	for _, slot := range w.aliens() {
		if !slices.Contains(r.Restore.Lost, slot) {
			w.fail("A3: %s ends the cluster, of which slot %s is not taken over", r.Token(), slot)
		}
	}
}

// surviving counts the disks of a founding that are not lost. The record of an adopted cluster names none.
func (w *world) surviving(c *cluster) int {
	if c != w.alien {
		return w.present(c.record.Charter)
	}
	return len(slices.DeleteFunc(w.here(), func(d *disk) bool { return d.data == nil || d.data.c != c }))
}

// robbed reports whether the only voter of the other program's cluster was lost before it was taken over. No node knows
// that cluster, so the operator cannot restore it; its mark in the store vetoes a founding (R22). Nothing else excuses
// a blank disk there: no other cluster, no record in a store or on a disk.
func (w *world) robbed() bool {
	c := w.alien
	if c == nil || w.store != storeShared || len(w.goal) != 1 || len(c.members) != 1 || len(w.clusters) != 1 {
		return false
	}
	known := func(d *disk) bool { return d.data != nil || d.ledger.Record != nil || len(d.ledger.Promises) > 0 }
	if w.stores[0].record != nil || slices.ContainsFunc(w.here(), known) {
		return false
	}
	return slices.ContainsFunc(w.lost, func(d *disk) bool {
		return d.data != nil && d.data.c == c && d.data.alien && d.data.id == c.members[0].ID && d.ledger.Record == nil
	})
}

func adoptions(seed uint64) life {
	r := rand.New(rand.NewPCG(seed, 22))
	l := life{slots: []int{1, 3, 3, 3, 5}[r.IntN(5)], host: r.IntN(2) == 0, store: storeMode(r.IntN(3)), adopts: true,
		ticks: 100 + r.IntN(900), wipes: []int{0, 0, 1, 1, 2}[r.IntN(5)], calm: r.IntN(3) == 0}
	if l.store == storeShared {
		l.restores, l.busy, l.bleak = r.IntN(3) > 0, r.IntN(2) == 0, r.IntN(4) == 0
	}
	l.nodes = l.slots + r.IntN(2)
	return l
}

func TestAdoptionSimulation(t *testing.T) {
	s := sweepLives(t, 700, 60, []uint64{273, 1248}, of(adoptions))
	came(t, s, s.kinds, Adopt, Note, Replace, Promote, Start, Conclude, Mirror)
	came(t, s, s.events, "taken over", "given back", "ledger lost")
	s.well(t, 8)
}

// TestAdoptedAlike: every node makes the same record of a cluster, whichever members its disk lists.
func TestAdoptedAlike(t *testing.T) {
	from := wholeOrigin()
	one := AdoptedRecord("main", simPeerURL, from)
	from.Members = slices.Clone(from.Members)
	from.Members[2].ID = 9 // replaced meanwhile
	two := AdoptedRecord("main", simPeerURL, from)
	if one.ID != two.ID {
		t.Errorf("got %s and %s of one cluster", one.ID, two.ID)
	}
	for name, other := range map[string]Record{
		"another name":    AdoptedRecord("other", simPeerURL, from),
		"another pattern": AdoptedRecord("main", "http://{slot}.main:2380", from),
		"another cluster": AdoptedRecord("main", simPeerURL, Origin{Cluster: 8, Members: from.Members}),
	} {
		if other.ID == one.ID {
			t.Errorf("%s: got the same ID %s", name, one.ID)
		}
		if err := other.Valid(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// cid is the ID of a record's cluster.
func (r Record) cid() uint64 {
	if r.Adopted != nil {
		return r.Adopted.Cluster
	}
	return hash(r.Token())
}

func wholeOrigin() Origin {
	from := Origin{Program: EtcdManager, Path: "data/t", Token: "t", Cluster: 7, Member: 1, Version: "3.6.0"}
	for i, slot := range []string{"a", "b", "c"} {
		from.Members = append(from.Members, Elder{ID: uint64(i + 1), Name: "etcd-" + slot, PeerURL: PeerURL(simPeerURL, slot), Slot: slot})
	}
	return from
}

func wholeAdopted() Record { return AdoptedRecord("main", simPeerURL, wholeOrigin()) }

func TestAdoptedValid(t *testing.T) {
	checkFlaws(t, wholeAdopted, []flaw[Record]{
		{"of a founding", "adopted", func(r *Record) { r.Cause = Founding }},
		{"nothing adopted", "adopted", func(r *Record) { r.Adopted = nil }},
		{"later", "generation", func(r *Record) {
			r.Generation, r.Charter.Generation, r.Line = 2, 2, []string{"00000000000000aa"}
		}},
		{"a proposal", "restore", func(r *Record) { p := wholeRestore(); r.Restore = &p }},
		{"no cluster", "adopted.cluster_id", func(r *Record) { r.Adopted.Cluster = 0 }},
		{"another's ID", "id", func(r *Record) { r.Adopted.Cluster = 8 }},
		{"a member without a seat", "adopted.members", func(r *Record) { r.Charter.Seats = r.Charter.Seats[:2] }},
		{"no member ID", "adopted.members[0].id", func(r *Record) { r.Adopted.Members[0].ID = 0 }},
		{"twice", "adopted.members[1].id", func(r *Record) { r.Adopted.Members[1].ID, r.Charter.Seats[1].Member = 1, 1 }},
		{"a learner", "adopted.members[2].learner", func(r *Record) { r.Adopted.Members[2].Learner = true }},
		{"a seat with a disk", "adopted.members[1].slot", func(r *Record) { r.Charter.Seats[1].Disk = "d" }},
		{"program", "adopted.program", func(r *Record) { r.Adopted.Program = "consul" }},
		{"token", "adopted.token", func(r *Record) { r.Adopted.Token = "\x00" }},
	})
}

// TestSight: if another program's member leads, a member decides by its own connections whether it may go down.
func TestSight(t *testing.T) {
	r := wholeAdopted()
	o := Observation{Node: "n1", Config: Config{Cluster: "main", Slots: []string{"a", "b", "c"}, PeerURL: simPeerURL},
		Claim: Claim{Held: true, Slot: "a", Disk: "d1"}, Store: Store{ID: "S", Record: &r},
		Disk: Disk{Ledger: Ledger{Record: &r, Role: RoleJoiner, Join: 1, Started: "d1"}, WAL: true, Member: 1, ClusterID: 7, RecordCID: 7},
		Member: Member{Running: true, Ready: true, Status: Status{HasLead: true, Confirmed: true}, ID: 1, Near: []uint64{2, 3}, Members: []MemberInfo{
			{ID: 1, Slot: "a", Started: true}, {ID: 2, Slot: "b", Started: true}, {ID: 3, Slot: "c", Started: true}}}}
	for name, c := range map[string]struct {
		change func(*Observation)
		risk   bool
	}{
		"all are near":         {func(*Observation) {}, false},
		"one is not":           {func(o *Observation) { o.Member.Near = []uint64{2} }, true},
		"no read is answered":  {func(o *Observation) { o.Member.Confirmed = false }, true},
		"the takeover is over": {func(o *Observation) { o.Disk.Ledger.Taken = r.ID }, true},
		"it is on its way back": {func(o *Observation) {
			o.Disk.Ledger.Taken, o.Member.Paused = r.ID, &Pause{By: "op"}
		}, false},
		"on its way back one is not near": {func(o *Observation) {
			o.Disk.Ledger.Taken, o.Member.Paused, o.Member.Near = r.ID, &Pause{By: "op"}, []uint64{2}
		}, true},
		"another cluster is paused": {func(o *Observation) {
			own := r
			own.Cause, own.Adopted = Founding, nil
			o.Disk.Ledger.Record, o.Store.Record, o.Member.Paused = &own, &own, &Pause{By: "op"}
		}, true},
		"it is on its way back after a restore": {func(o *Observation) {
			next := restored(r)
			o.Disk.Ledger.Record, o.Store.Record, o.Member.Paused = &next, &next, &Pause{By: "op", Return: true}
		}, false},
		"it is paused after a restore": {func(o *Observation) {
			next := restored(r)
			o.Disk.Ledger.Record, o.Store.Record, o.Member.Paused = &next, &next, &Pause{By: "op"}
		}, true},
		"a node leads and is mute": {func(o *Observation) { o.Peers = []Peer{leading(&r)} }, true},
	} {
		o := o
		c.change(&o)
		if risk := o.Disruption(nil); (risk != "") != c.risk {
			t.Errorf("%s: got %q", name, risk)
		}
	}
}

// restored is the record of the generation after a restore. It does not say that the cluster was adopted.
func restored(r Record) Record {
	return Record{Cluster: r.Cluster, Generation: 2, ID: "00000000000000bb", Line: []string{r.ID}, Cause: Restored,
		Charter: r.Charter}
}

func leading(r *Record) Peer {
	return Peer{Node: "n2", Live: true, Facts: &Facts{Version: 1, Slot: "b", Disk: "d2", Phase: PhaseData, Record: r, Member: 2, Running: true, Leader: true}}
}

// TestAdoptedSeen: which program runs which member, and what waits for that.
func TestAdoptedSeen(t *testing.T) {
	r := wholeAdopted()
	runs := func(slot string, id uint64, live bool) Peer {
		return Peer{Node: "n" + slot, Live: live, Facts: &Facts{Version: 1, Slot: slot, Disk: "d" + slot, Phase: PhaseData, Record: &r, Member: id, Running: true}}
	}
	o := Observation{Claim: Claim{Held: true, Slot: "a", Disk: "d1"}, Store: Store{Record: &r},
		Disk: Disk{Ledger: Ledger{Record: &r, Role: RoleJoiner, Join: 1, Started: "d1"}, WAL: true, Member: 1}}
	for name, c := range map[string]struct {
		peers []Peer
		want  []string
	}{
		"alone":                             {nil, []string{"b", "c"}},
		"one more":                          {[]Peer{runs("b", 2, true)}, []string{"c"}},
		"one that was seen":                 {[]Peer{runs("b", 2, false)}, []string{"c"}},
		"another in a slot":                 {[]Peer{runs("b", 5, true)}, []string{"b", "c"}},
		"all":                               {[]Peer{runs("b", 2, true), runs("c", 3, true)}, nil},
		"one that another program runs now": {[]Peer{runs("b", 2, true), runs("c", 3, false)}, []string{"c"}},
	} {
		o := o
		o.Peers = c.peers
		if name == "one that another program runs now" {
			o.Member = Member{Running: true, Near: []uint64{2, 3}}
		}
		if got := o.Foreign(); !slices.Equal(got, c.want) {
			t.Errorf("adopt_test: %s: got %v, want %v", name, got, c.want)
		}
		if o.Mixed() == "" {
			t.Errorf("adopt_test: %s: not mixed although nobody has noted that it is over", name)
		}
	}
	noted := o
	noted.Disk.Ledger.Taken = r.ID
	if !noted.Facts(nil).Taken || o.Facts(nil).Taken {
		t.Error("adopt_test: what the disk has noted is not what is told")
	}
	foreign := o
	foreign.Disk = Disk{Origin: new(Origin)}
	if got := foreign.Facts(nil); got.Phase != PhaseWaiting || !got.Foreign || o.Facts(nil).Foreign {
		t.Errorf("adopt_test: foreign data: got phase %q, foreign %t", got.Phase, got.Foreign)
	}
	o.Peers = []Peer{runs("b", 2, true)}
	o.Peers[0].Facts.Taken = true
	if got := o.Mixed(); got != "" {
		t.Errorf("adopt_test: noted by another: got %q", got)
	}
	o.Peers[0].Live = false
	if o.Mixed() == "" {
		t.Error("adopt_test: what a lost node has noted counts")
	}
	command := Request{Command: "c1", Backup: "b"}
	o.Config.Foreign, o.Peers = true, nil
	if got := o.Refusal(command); got.Text == "" {
		t.Error("adopt_test: the restore of another program is carried out while mixed")
	}
}

// TestReturning: a cluster that goes back is mixed again, whatever was noted before, until an operator resumes it.
func TestReturning(t *testing.T) {
	r := wholeAdopted()
	runs := func(slot string, id uint64, live bool) Peer {
		return Peer{Node: "n" + slot, Live: live, Facts: &Facts{Version: 1, Slot: slot, Disk: "d" + slot, Phase: PhaseData, Record: &r, Member: id, Running: live, Taken: true}}
	}
	o := Observation{Node: "na", Config: Config{Cluster: "main", Slots: []string{"a", "b", "c"}, PeerURL: simPeerURL, Foreign: true, Etcd: "3.7.3"},
		Claim: Claim{Held: true, Slot: "a", Disk: "d1"}, Store: Store{ID: "S", Record: &r}, Peers: []Peer{runs("b", 2, true), runs("c", 3, false)},
		Disk: Disk{Ledger: Ledger{Record: &r, Role: RoleJoiner, Join: 1, Started: "d1", Taken: r.ID}, WAL: true, Member: 1, ClusterID: 7, RecordCID: 7},
		Member: Member{Running: true, Ready: true, Status: Status{HasLead: true, Leader: true, Confirmed: true, ClusterVersion: "3.6.0"}, ID: 1, Paused: &Pause{By: "op", Return: true},
			Members: []MemberInfo{{ID: 1, Slot: "a", Started: true, Connected: true}, {ID: 2, Slot: "b", Started: true, Connected: true}, {ID: 3, Slot: "c", Started: true, Connected: true}}}}
	if got := o.Foreign(); !slices.Equal(got, []string{"c"}) || o.Mixed() == "" {
		t.Errorf("adopt_test: given back: foreign %v, mixed %q", got, o.Mixed())
	}
	if got := o.Refusal(Request{Command: "c1", Backup: "b1"}); got.Text == "" {
		t.Error("adopt_test: given back: a restore of the other program is carried out")
	}
	if a := Next(o); a.Kind != Note || !a.Return || o.Disk.Ledger.After(a, "d1").Taken != "" {
		t.Errorf("adopt_test: given back: what was noted stays: %s %s", a.Kind, a.Text())
	}
	o.Disk.Ledger.Taken = ""
	if a := Next(o); a.Kind == Note {
		t.Errorf("adopt_test: given back: it notes %s", a.Text())
	}
	all := o
	all.Peers = []Peer{runs("b", 2, true), runs("c", 3, true)}
	for i := range all.Peers {
		f := *all.Peers[i].Facts
		f.Taken, all.Peers[i].Facts = false, &f
	}
	if a := Next(all); a.Kind == Note {
		t.Errorf("adopt_test: about to be given back: it notes %s", a.Text())
	}
	back := o.Member.Paused
	o.Member.Paused = &Pause{By: "op"} // for another reason
	if got := o.Foreign(); len(got) > 0 && o.Member.Returning() {
		t.Errorf("adopt_test: paused: foreign %v", got)
	}
	next := restored(r)
	later := o
	later.Disk.Ledger.Record, later.Store.Record = &next, &next
	later.Peers = []Peer{runs("b", 2, true), runs("c", 3, false)}
	for i := range later.Peers {
		later.Peers[i].Facts.Record = &next
	}
	if later.Foreign() != nil || later.Mixed() != "" {
		t.Errorf("adopt_test: paused after a restore: foreign %v, mixed %q", later.Foreign(), later.Mixed())
	}
	later.Member.Paused = back
	if got := later.Foreign(); !slices.Equal(got, []string{"c"}) || later.Mixed() == "" {
		t.Errorf("adopt_test: given back after a restore: foreign %v, mixed %q", got, later.Mixed())
	}
	later.Peers[0].Facts.Running = false
	if got := later.Foreign(); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("adopt_test: released, and its node has not ended: foreign %v", got)
	}
	o.Disk.Ledger.Taken = r.ID
	if o.Mixed() != "" {
		t.Errorf("adopt_test: paused: mixed: %s", o.Mixed())
	}
}

// TestForbidden: a leader aborts a restore that would leave behind members that another program runs. It allows a
// recovery, and a restore that names them lost.
func TestForbidden(t *testing.T) {
	r := wholeAdopted()
	p := Restore{Cluster: "main", Generation: 2, Attempt: 1, ID: "00000000000000aa", Line: []string{r.ID}, Backup: "b1",
		Led: &Stand{Node: "n1", Leader: true}}
	o := Observation{Claim: Claim{Held: true, Slot: "a", Disk: "d1"}, Store: Store{ID: "S", Record: &r},
		Disk:   Disk{Ledger: Ledger{Record: &r, Role: RoleJoiner, Join: 1, Started: "d1"}, WAL: true, Member: 1},
		Member: Member{Running: true, Status: Status{HasLead: true, Confirmed: true}, ID: 1, Members: []MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}, {ID: 3, Slot: "c"}}}}
	for name, c := range map[string]struct {
		change func(*Restore)
		abort  bool
	}{
		"while mixed":    {func(*Restore) {}, true},
		"one named lost": {func(p *Restore) { p.Lost = []string{"c"} }, true},
		"all named lost": {func(p *Restore) { p.Lost = []string{"b", "c"} }, false},
		"a recovery":     {func(p *Restore) { p.Backup, p.Survivor, p.Disk = "", "a", "d1" }, false},
	} {
		p := p
		c.change(&p)
		o.Store.Restore = &p
		if why, got := Object(o); got != c.abort {
			t.Errorf("adopt_test: %s: got %v (%s)", name, got, why)
		}
	}
}
