package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// surveying asks what is left of a cluster that may have lost its majority.
type surveying view

// Survivor is what is known about one slot of a cluster that may have lost its majority.
type Survivor struct {
	Slot   string `json:"slot"`
	Node   string `json:"node,omitempty"` // the live holder
	Disk   string `json:"disk,omitempty"`
	Member uint64 `json:"member,omitempty"` // as the members here list it
	Voter  bool   `json:"voter"`
	Here   bool   `json:"here"` // its holder has the member's own data, and has shown where the log ends
	Runs   bool   `json:"runs"` // or it has left the generation, and runs no more
	Left   bool   `json:"left,omitempty"`
	// Idle: its holder has a disk of this generation, or one that it cannot use, and no etcd runs there to show where the
	// log ends.
	Idle bool `json:"idle"`
	Gone bool `json:"gone"` // its holder has the voter's own disk, which holds none of its data any more
	Best bool `json:"best"` // its log is the most advanced of all that run and whose slots are wanted
	// Dropped: the cluster has agreed on slots without this one. So its member may have been removed, and its data may be
	// old. A removed member may be the last to learn of its removal.
	Dropped bool    `json:"dropped,omitempty"`
	Log     *LogEnd `json:"log,omitempty"`
}

// Survey is what a cluster could be recovered from.
type Survey struct {
	Record   *Record    `json:"record"` // the generation that would end
	Slots    []Survivor `json:"slots"`
	Obstacle string     `json:"obstacle,omitempty"` // why nothing can be recovered, whatever is declared lost
	Soon     bool       `json:"soon,omitempty"`     // whether the obstacle passes when the store was read once more

	lists [][]MemberInfo
}

// Survey looks for what is left of this disk's generation, or of the newest if the disk has none. Of two logs, the more
// advanced has the higher term in its last entry, then the higher index. It has every committed entry that the other
// has (R4).
func (obs Observation) Survey() Survey { return surveying(look(&obs)).survey() }

// survey is Survey, for the views.
func (o surveying) survey() Survey {
	known, conflict := o.Disk.Ledger.Record, ""
	if known == nil {
		known, conflict = o.latest()
	}
	if conflict != "" || known == nil {
		return Survey{Obstacle: cmp.Or(conflict, "no disk here knows the cluster")}
	}
	s := Survey{Record: known, lists: o.lists(known), Obstacle: cmp.Or(o.over(), o.led(known))}
	if len(s.lists) == 0 && s.Obstacle == "" {
		s.Obstacle = "no member of " + known.Token() + " runs here (yet), so its members are unknown: " +
			Command("status").String() + " says what each node waits for"
	}
	if n := o.otherStore(); n != "" {
		s.Soon = o.presumed().otherStore() == ""
		s.Obstacle = n + "; or stop the nodes with another store, and name their slots in --lost"
	}
	for _, slot := range s.slots(o.slots(known)) {
		v := o.survivor(known, slot, s.lists)
		v.Dropped = !slices.Contains(o.slots(known), slot)
		v.Voter = v.Voter || o.unheardOf(known, slot, s.lists)
		s.Slots = append(s.Slots, v)
	}
	best := -1
	for i, v := range s.Slots {
		if v.Voter && v.Here && v.Runs && !v.Dropped && (best < 0 || v.beyond(s.Slots[best])) {
			best = i
		}
	}
	if best >= 0 {
		s.Slots[best].Best = true
	}
	return s
}

// over says that the generation of the disk here has ended, "" if it has not. Its survivors are none of the next
// generation, from which a recovery would continue.
func (o surveying) over() string {
	mine := o.Disk.Ledger.Record
	if mine == nil {
		return ""
	}
	next, _, pending := succession(o).ended()
	if next == nil {
		return pending
	}
	return fmt.Sprintf("%s has ended, and the cluster continues as %s: no recovery continues from the data of slot %s; "+
		"%s says what this node waits for", mine.Token(), next.Token(), o.Claim.Slot, Command("status"))
}

// unheardOf reports whether a newly agreed slot may have a voter that no list here has: the members here may not have
// heard that it was added.
func (o surveying) unheardOf(r *Record, slot string, lists [][]MemberInfo) bool {
	set := o.accepted(r)
	if set == nil || !slices.Contains(set.Slots, slot) || slices.Contains(set.From, slot) {
		return false
	}
	return !slices.ContainsFunc(lists, func(list []MemberInfo) bool {
		return slices.ContainsFunc(list, func(m MemberInfo) bool { return m.Slot == slot })
	})
}

// survivor judges one slot. A promoted learner is a voter, even for members that have not heard of the promotion.
func (o surveying) survivor(r *Record, slot string, lists [][]MemberInfo) Survivor {
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
	ours := f.of(r) && (f.Phase == PhaseData || f.Phase == PhaseFounder)
	v.Idle = (ours || f.Phase == PhaseWaiting) && !f.Running && f.Left == nil
	if disputed || v.Member == 0 || !f.of(r) || o.removedBy(v.Member) != "" {
		return v
	}
	v.Here, v.Runs = f.Member == v.Member && f.Log != nil, f.Running || f.Left != nil
	v.Left, v.Gone = f.Left != nil, fencing(o).emptied(r, f, v.Member)
	return v
}

// led says which node shows that the generation has a leader, or had one until a moment ago. It never claims a quorum:
// right after a loss, a leader has not noticed it yet, and others have not heard. A member reports where its log ends
// only after it has been without a leader for a while.
func (o surveying) led(r *Record) string {
	shows := func(node string, f Facts) string {
		does := ""
		switch {
		case !f.of(r) || !f.Running:
			return ""
		case f.Leader:
			does = "leads the cluster"
		case f.Log == nil:
			does = "follows a leader"
		default:
			return ""
		}
		return fmt.Sprintf("node %s %s, or did until a moment ago: a recovery is not needed, or it is too early: ask again "+
			"in some seconds", node, does)
	}
	me := o.facts(nil)
	if o.Member.Led() {
		me.Log = nil
	}
	why := shows(o.Node, me)
	for _, p := range o.live() {
		switch {
		case why != "":
		case p.Facts == nil:
			why = p.silence()
		default:
			why = shows(p.Node, *p.Facts)
		}
	}
	return why
}

// slots adds the slots of all listed members to the wanted ones.
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

// after reports whether a log is more advanced than another.
func (l LogEnd) after(m LogEnd) bool { return l.Term > m.Term || l.Term == m.Term && l.Index > m.Index }

// beyond reports whether a survivor's log is more advanced than another's.
func (v Survivor) beyond(w Survivor) bool {
	return v.Log != nil && w.Log != nil && v.Log.after(*w.Log)
}

// ahead says that the log of a slot on a node is more advanced than that of another slot.
func ahead(slot, node string, log LogEnd, other string, its LogEnd) string {
	return fmt.Sprintf("slot %s on %s has a more advanced log (term %d, index %d) than slot %s (term %d, index %d)", slot,
		node, log.Term, log.Index, other, its.Term, its.Index)
}

// gone returns the slots whose voters are proven gone. A missing volume, or another disk in the slot, proves nothing.
func (s Survey) gone() []string {
	var gone []string
	for _, v := range s.Slots {
		if v.Voter && v.Gone {
			gone = append(gone, v.Slot)
		}
	}
	return gone
}

// Majority reports whether more than half of the listed voters are here with their data: they may elect a leader at any
// moment.
func (s Survey) Majority() bool {
	voters, here := 0, 0
	for _, v := range s.Slots {
		listed := v.Voter && v.Member != 0
		voters, here = voters+boolean(listed), here+boolean(listed && v.Here)
	}
	return here > voters/2
}

// here names the voters that are here with their data, and run or do not.
func (s Survey) here(run bool) string {
	var all []string
	for _, v := range s.Slots {
		if v.Voter && v.Here && v.Runs == run {
			all = append(all, fmt.Sprintf("slot %s on %s", v.Slot, v.Node))
		}
	}
	return strings.Join(all, ", ")
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

// Declare returns all slots that would have to be declared lost, sorted, and why Choose would refuse even then.
func (s Survey) Declare(lost []string, survivor string) (all []string, refusal string) {
	all = slices.Concat(lost, s.Missing(lost))
	slices.Sort(all)
	_, refusal = s.Choose(all, survivor)
	return slices.Compact(all), refusal
}

// Choose returns the slot to continue from, or why that is not allowed. survivor names the slot; "" asks for the most
// advanced. Every voter that is not declared lost must be here with a known log, and none may be more advanced: it
// might hold acknowledged entries that the survivor lacks. Choose does not judge whether the old generation has ended
// (see deserted).
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
	case chosen.Slot == "" && slices.ContainsFunc(s.Slots,
		func(v Survivor) bool { return v.Dropped && v.Voter && v.Runs && v.Here }):
		return chosen, "no voter of a slot that the cluster wants runs here with its own data; another may have been " +
			"removed before, so its data is old: to continue from it all the same, name it with --survivor"
	case chosen.Slot == "":
		return chosen, "no voter of the cluster runs here with its own data"
	case !chosen.Voter || !chosen.Here || !chosen.Runs || chosen.Log == nil:
		return chosen, fmt.Sprintf("no recovery can continue from slot %s: its voter does not run here with its own data",
			chosen.Slot)
	}
	if kept := s.kept(lost); kept.Text != "" {
		return chosen, kept.Text
	}
	for _, v := range s.Slots {
		switch {
		case slices.Contains(lost, v.Slot) && v.Here && !v.Left:
			return chosen, fmt.Sprintf("slot %s is here on %s with its data, so it is not lost; to continue "+
				"without it, stop that node first", v.Slot, v.Node)
		case v.Voter && v.Here && v.beyond(chosen) && !slices.Contains(lost, v.Slot):
			return chosen, ahead(v.Slot, v.Node, *v.Log, chosen.Slot, *chosen.Log)
		}
	}
	if len(missing) > 0 {
		return chosen, fmt.Sprintf("%s: bring the disks back, or, if they are gone for good, declare them with --lost %s",
			they(missing, "is not here with its voter's data", "are not here with their voters' data"),
			strings.Join(append(slices.Clone(lost), missing...), ","))
	}
	if idle := s.idle(); idle != "" {
		return chosen, idle
	}
	return chosen, ""
}

// ChooseAlone is Choose without a store to arbitrate: then every other voter has to be named lost (R16).
func (s Survey) ChooseAlone(lost []string, survivor string) (chosen Survivor, refusal string) {
	chosen, refusal = s.Choose(lost, survivor)
	for _, v := range s.Slots {
		if refusal == "" && v.Voter && v.Slot != chosen.Slot && !slices.Contains(lost, v.Slot) {
			refusal = fmt.Sprintf("without the backup store nobody arbitrates, so every other voter must be "+
				"named: slot %s is not in --lost", v.Slot)
		}
	}
	return chosen, refusal
}

// kept names live nodes that hold a slot that is called lost, and do not run its member: something keeps them.
func (s Survey) kept(lost []string) Said {
	var kept []string
	for _, v := range s.Slots {
		if slices.Contains(lost, v.Slot) && v.Idle && !v.Here {
			kept = append(kept, v.Slot+" on "+v.Node)
		}
	}
	if kept == nil {
		return Said{}
	}
	return say("%s: %s says what keeps etcd there (%s if it is drained); to continue without it, stop that node first",
		they(kept, "is here and does not run", "are here and do not run"), Command("status"), Command("undrain"))
}

// idle names members that are here but do not run, if they would give the cluster its majority back.
func (s Survey) idle() string {
	idle := s.here(false)
	if !s.Majority() || idle == "" {
		return ""
	}
	return fmt.Sprintf("a majority is here, and %s does not run: %s says what keeps etcd there (%s if it is drained)",
		idle, Command("status"), Command("undrain"))
}
