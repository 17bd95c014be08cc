package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// recovering does what an open recovery needs of a node that has nothing else to do (R4, R5). Only the survivor
// prepares, and only it concludes: it alone founds the new generation, and all other slots join it.
func (o Observation) recovering(p *Restore, a Action) Action {
	if why := o.needless(p); why != "" {
		return Action{Kind: Abort, Restore: p, Why: fmt.Sprintf("%s: aborting the %s", why, p.Title())}
	}
	switch {
	case o.Claim.Disk != p.Disk:
		return wait("%s; %s", a.Why, o.progress(p))
	case !o.prepared(p.ID):
		return o.prepare(p)
	}
	r, missing := o.recovered(p)
	if r == nil {
		return wait("%s; %s; %s", a.Why, o.progress(p), missing)
	}
	return Action{Kind: Conclude, Record: r, Why: fmt.Sprintf("%s: the cluster goes on as %s, which cannot be taken back", o.progress(p), r.Token())}
}

// needless says why a recovery rests on what is not true any more: the cluster has a leader, or a voter that was declared
// lost is here after all. A cluster that was only slow is never torn down.
func (o Observation) needless(p *Restore) string {
	if r := o.Disk.Ledger.Record; o.Member.Running && o.Member.HasLead && r != nil && r.ID == p.Parent() {
		return "the cluster has a leader again, so that a recovery is not needed"
	}
	for _, slot := range p.Lost {
		if h := o.occupant(slot); h != nil && h.facts.Phase == PhaseData && h.facts.Record.ID == p.Parent() {
			return fmt.Sprintf("slot %s was declared lost, and node %s is here with its data", slot, h.node)
		}
	}
	return ""
}

// recovered makes the record that ends a generation without a majority, or says what is missing.
func (o Observation) recovered(p *Restore) (*Record, string) {
	s := o.Survey()
	chosen, refusal := s.Choose(p.Lost, p.Survivor)
	switch {
	case refusal != "":
		return nil, refusal + "; if that does not end, abort it with `holdfast recover --abort`"
	case chosen.Disk != p.Disk:
		return nil, fmt.Sprintf("the disk of slot %s is not the one that the recovery was proposed for", p.Survivor)
	}
	old := o.Store.Record
	c := Charter{Cluster: old.Charter.Cluster, Generation: p.Generation, PeerURL: old.Charter.PeerURL}
	for _, v := range s.Slots {
		made := Seat{Slot: v.Slot, Member: v.Member}
		if v.Slot == p.Survivor {
			made.Disk, made.Epoch = o.Claim.Disk, o.Claim.Epoch
		}
		c.Seats = append(c.Seats, made)
	}
	return &Record{Cluster: old.Cluster, Generation: p.Generation, ID: p.ID, Line: p.Line, Cause: Recovered, Restore: p, Charter: c}, ""
}

// carryOn decides for the survivor once it has entered the generation that it alone founds. What it has prepared is worth
// something only if its log has not grown since: etcd went on running until then.
func (o Observation) carryOn() Action {
	r, d := o.Disk.Ledger.Record, o.Disk
	whole := o.prepared(r.ID) && d.Ledger.Prepared.Log != nil
	switch {
	case whole && (!d.WAL || d.Log != nil && *d.Log == *d.Ledger.Prepared.Log):
		return o.swap(r)
	case !d.WAL:
		return wait("slot %s was to go on as %s with its own data, and that is gone from the disk: bring it back, or go on with a backup: `holdfast restore latest --lost %s`",
			o.Claim.Slot, r.Token(), strings.Join(r.Charter.Slots(), ","))
	case d.Log == nil:
		return wait("slot %s goes on as %s, and looks where its log ends", o.Claim.Slot, r.Token())
	}
	return o.prepare(r.Restore)
}

// recovery is what a member without a leader does where no recovery is proposed yet: it sees to it that the store knows
// the generation, and proposes by itself where that is wanted and the loss is proven.
func (o Observation) recovery(a Action) Action {
	m, s := o.Member, o.Store
	if !m.Running || m.HasLead || m.Learner || o.Disk.Log == nil {
		return a
	}
	if step, _ := o.mirror(); step != nil {
		return *step
	}
	known, _ := o.latest()
	if s.Unknown != "" {
		return wait("%s; a recovery needs the backup store, which does not answer: %s", a.Why, s.Unknown)
	}
	if s.Record == nil || s.Restore != nil || known == nil || known.ID != s.Record.ID {
		return a
	}
	survey := o.Survey()
	lost := survey.Missing(nil)
	chosen, refusal := survey.Choose(lost, "")
	if slices.ContainsFunc(survey.Slots, func(v Survivor) bool { return v.Dropped && v.Disk == o.Claim.Disk }) && refusal != "" {
		return wait("%s; %s", a.Why, refusal)
	}
	if refusal != "" || len(lost) == 0 {
		return a
	}
	way := fmt.Sprintf("if the disks of %s are gone for good, run `holdfast recover --lost %s`, which goes on from slot %s", strings.Join(lost, ", "), strings.Join(lost, ","), chosen.Slot)
	unproven := survey.Missing(survey.gone())
	switch {
	case !o.Config.Recovery:
		return wait("%s; %s", a.Why, way)
	case len(unproven) > 0:
		return wait("%s; recovery is automatic, and waits: it is not proven that what %s held is gone; %s", a.Why, strings.Join(unproven, ", "), way)
	case o.paused() != "":
		return wait("%s; recovery is automatic, and waits: %s; %s", a.Why, o.paused(), way)
	case chosen.Disk != o.Claim.Disk:
		return wait("%s; recovery is automatic: node %s, whose log is the most advanced, proposes it", a.Why, chosen.Node)
	}
	return Action{Kind: Propose, Request: &Request{By: "cluster.recovery: automatic", Lost: lost, Survivor: chosen.Slot, Disk: chosen.Disk, Log: chosen.Log},
		Why: fmt.Sprintf("the disks of %s are here and have lost their data, so that the majority is gone for good: proposing to go on from slot %s", strings.Join(lost, ", "), chosen.Slot)}
}

// Survivor is what is known of one slot of a cluster that may have lost its majority.
type Survivor struct {
	Slot   string `json:"slot"`
	Node   string `json:"node,omitempty"` // the live holder
	Disk   string `json:"disk,omitempty"`
	Member uint64 `json:"member,omitempty"` // as the members here list it
	Voter  bool   `json:"voter"`
	Here   bool   `json:"here"` // its holder has the member's own data, and has shown where the log ends
	Runs   bool   `json:"runs"`
	Idle   bool   `json:"idle"` // its holder has data of this generation, and no etcd runs there that shows where the log ends
	Gone   bool   `json:"gone"` // its holder has the very disk of the voter, and nothing of its data is left on it
	Best   bool   `json:"best"` // its log is the most advanced of all that run and whose slots are wanted
	// Dropped: the cluster has agreed on slots without this one, so that its member may have been removed by now, and its
	// data be old. Who was removed last may be the one to whom nobody can tell.
	Dropped bool    `json:"dropped,omitempty"`
	Log     *LogEnd `json:"log,omitempty"`
}

// Survey is what there is to recover a cluster from.
type Survey struct {
	Slots    []Survivor `json:"slots"`
	Obstacle string     `json:"obstacle,omitempty"` // why nothing can be recovered, whatever is declared lost

	lists [][]MemberInfo
}

// Survey looks for what is left of the newest generation. Of two logs the more advanced is the one whose last entry has
// the higher term, then the higher index: it has every entry that was committed and that the other has (R4).
func (o Observation) Survey() Survey {
	known, conflict := o.latest()
	if conflict != "" || known == nil {
		return Survey{Obstacle: cmp.Or(conflict, "no disk here knows the cluster")}
	}
	s := Survey{lists: o.lists(known), Obstacle: o.led(known)}
	if len(s.lists) == 0 && s.Obstacle == "" {
		s.Obstacle = "no member of " + known.Token() + " runs here (yet), so that nobody knows its members: `holdfast status` says what each node waits for"
	}
	if n := o.stranger(); n != "" {
		s.Obstacle = fmt.Sprintf("node %s uses another backup store, so that not all would see the recovery: stop the others and name their slots in --lost, or configure one store for all", n)
	}
	for _, slot := range s.slots(o.slots(known)) {
		v := o.survivor(known, slot, s.lists)
		v.Dropped = !slices.Contains(o.slots(known), slot)
		s.Slots = append(s.Slots, v)
	}
	best := -1
	for i, v := range s.Slots {
		if v.Voter && v.Here && v.Runs && !v.Dropped && (best < 0 || v.Log.after(*s.Slots[best].Log)) {
			best = i
		}
	}
	if best >= 0 {
		s.Slots[best].Best = true
	}
	return s
}

// after reports whether a log is more advanced than another.
func (l LogEnd) after(m LogEnd) bool { return l.Term > m.Term || l.Term == m.Term && l.Index > m.Index }

// led says which node shows that the generation has a leader, or had one until a moment ago: a member tells where its
// log ends only when it has been without a leader for a while.
func (o Observation) led(r *Record) string {
	shows := func(node string, f Facts) string {
		switch {
		case f.Record == nil || f.Record.ID != r.ID || !f.Running:
			return ""
		case f.Leader:
			return fmt.Sprintf("the cluster has a quorum, and node %s leads it: a recovery is not needed", node)
		case f.Log == nil:
			return fmt.Sprintf("node %s follows a leader, or has until a moment ago: a recovery is not needed, or it is too early: ask again in some seconds", node)
		}
		return ""
	}
	if o.Member.HasLead {
		return "the cluster has a quorum: a recovery is not needed"
	}
	why := shows(o.Node, o.Facts(nil))
	for _, p := range o.live() {
		switch {
		case why != "":
		case p.Facts == nil:
			why = fmt.Sprintf("node %s has not said yet what it holds", p.Node)
		default:
			why = shows(p.Node, *p.Facts)
		}
	}
	return why
}

// slots adds to the wanted slots those that any list has a member of.
func (s Survey) slots(wanted []string) []string {
	all := slices.Clone(wanted)
	for _, list := range s.lists {
		for _, m := range list {
			all = append(all, m.Slot)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// survivor looks at one slot. A learner that was promoted is a voter, whoever has not heard of it.
func (o Observation) survivor(r *Record, slot string, lists [][]MemberInfo) Survivor {
	v, disputed := Survivor{Slot: slot}, false
	for _, list := range lists {
		for _, m := range list {
			if m.Slot == slot {
				disputed = disputed || v.Member != 0 && v.Member != m.ID
				v.Member, v.Voter = m.ID, v.Voter || !m.Learner
			}
		}
	}
	h := o.occupant(slot)
	if h == nil {
		return v
	}
	f := h.facts
	v.Node, v.Disk, v.Log = h.node, f.Disk, f.Log
	v.Idle = f.Phase == PhaseData && f.Record != nil && f.Record.ID == r.ID && !f.Running
	if disputed || v.Member == 0 || f.Record == nil || f.Record.ID != r.ID || o.removedBy(v.Member) != "" {
		return v
	}
	seat, _ := r.Charter.Seat(slot)
	founded := seat.Disk == f.Disk && o.Disk.Founders[slot] == v.Member
	v.Here, v.Runs = f.Member == v.Member && f.Log != nil, f.Running
	v.Gone = f.Phase == PhaseVacant && (founded || f.Join == v.Member)
	return v
}

// gone are the slots whose voters are proven to be gone. That a volume is not found, or that the slot has another disk
// now, proves nothing.
func (s Survey) gone() []string {
	var gone []string
	for _, v := range s.Slots {
		if v.Voter && v.Gone {
			gone = append(gone, v.Slot)
		}
	}
	return gone
}

// Missing returns the slots whose voters are neither here with their data nor declared lost.
func (s Survey) Missing(lost []string) []string {
	var missing []string
	for _, v := range s.Slots {
		if v.Voter && !v.Here && !slices.Contains(lost, v.Slot) {
			missing = append(missing, v.Slot)
		}
	}
	return missing
}

// Declare returns the slots that would have to be declared lost in all, sorted, and why Choose would refuse even then.
func (s Survey) Declare(lost []string, survivor string) (all []string, refusal string) {
	all = slices.Concat(lost, s.Missing(lost))
	slices.Sort(all)
	_, refusal = s.Choose(all, survivor)
	return slices.Compact(all), refusal
}

// Choose returns the slot to go on from, "" for the most advanced, or why that must not be. Let V be the old voters and L
// those declared lost. The survivor leaves the old generation for good, so that is dead when what is left is no majority:
//
//	|V| - |L| - 1 < |V|/2+1
//
// Beyond that, every voter that is not in L has to be here and to have shown its log: else the one that is not might
// hold what was acknowledged, and the survivor not.
func (s Survey) Choose(lost []string, survivor string) (chosen Survivor, refusal string) {
	var slots []string
	for _, v := range s.Slots {
		slots = append(slots, v.Slot)
		if v.Best && survivor == "" || v.Slot == survivor {
			chosen = v
		}
	}
	missing := s.Missing(lost)
	switch i := slices.IndexFunc(lost, func(slot string) bool { return !slices.Contains(slots, slot) }); {
	case s.Obstacle != "":
		return chosen, s.Obstacle
	case i >= 0:
		return chosen, fmt.Sprintf("the cluster has no slot %s (it has %s)", lost[i], strings.Join(slots, ", "))
	case survivor != "" && !slices.Contains(slots, survivor):
		return chosen, fmt.Sprintf("the cluster has no slot %s (it has %s)", survivor, strings.Join(slots, ", "))
	case chosen.Slot == "" && slices.ContainsFunc(s.Slots, func(v Survivor) bool { return v.Dropped && v.Voter && v.Runs && v.Here }):
		return chosen, "no voter of a slot that the cluster wants runs here with its own data; another may have been removed before, so that its data is old: to go on from it all the same, name it with --survivor"
	case chosen.Slot == "":
		return chosen, "no voter of the cluster runs here with its own data"
	case !chosen.Voter || !chosen.Here || !chosen.Runs:
		return chosen, fmt.Sprintf("slot %s cannot be gone on from: its voter does not run here with its own data", chosen.Slot)
	}
	for _, v := range s.Slots {
		switch {
		case slices.Contains(lost, v.Slot) && v.Idle && !v.Here:
			return chosen, fmt.Sprintf("slot %s is here on %s with its data, and etcd does not run there: start it, by `holdfast undrain` if it is drained; to go on without it, stop that node first", v.Slot, v.Node)
		case slices.Contains(lost, v.Slot) && v.Here:
			return chosen, fmt.Sprintf("slot %s is here on %s with its data, so it is not lost; to go on without it, stop that node first", v.Slot, v.Node)
		case v.Voter && v.Here && v.Log.after(*chosen.Log):
			return chosen, fmt.Sprintf("slot %s on %s has a more advanced log (term %d, index %d) than slot %s (term %d, index %d)",
				v.Slot, v.Node, v.Log.Term, v.Log.Index, chosen.Slot, chosen.Log.Term, chosen.Log.Index)
		}
	}
	if len(missing) > 0 {
		return chosen, fmt.Sprintf("%s not here with the data of its voter: bring it back, or, if it is gone for good, declare it with --lost %s",
			they(missing, "is", "are"), strings.Join(append(slices.Clone(lost), missing...), ","))
	}
	if idle := s.idle(); idle != "" {
		return chosen, idle
	}
	if !s.dead(lost, chosen.Slot) {
		return chosen, fmt.Sprintf("the members that are here could have a majority without slot %s: not their disks are lost, but something keeps them from each other; look at `holdfast status`", chosen.Slot)
	}
	return chosen, ""
}

// idle says which members are here, do not run, and would give the cluster its majority back.
func (s Survey) idle() string {
	voters, here := 0, 0
	var idle []string
	for _, v := range s.Slots {
		voters, here = voters+boolean(v.Voter), here+boolean(v.Voter && v.Here)
		if v.Voter && v.Here && !v.Runs {
			idle = append(idle, fmt.Sprintf("slot %s on %s", v.Slot, v.Node))
		}
	}
	if here <= voters/2 || idle == nil {
		return ""
	}
	return fmt.Sprintf("a majority is here, and %s does not run: start that, with `holdfast undrain` there if it was drained", strings.Join(idle, ", "))
}

// dead reports whether no list of the old generation's members leaves a majority without the lost and the survivor.
func (s Survey) dead(lost []string, survivor string) bool {
	for _, list := range s.lists {
		voters, left := 0, 0
		for _, m := range list {
			voters += boolean(!m.Learner)
			left += boolean(!m.Learner && m.Slot != survivor && !slices.Contains(lost, m.Slot))
		}
		if left >= voters/2+1 {
			return false
		}
	}
	return true
}
