package plan

import (
	"cmp"
	"fmt"
	"strings"
)

// upkeep asks what is due for a member's database, and what prevents it.
type upkeep view

// Upkeep is the operator's configuration of upkeep.
type Upkeep struct {
	// FreePercent and FreeBytes: a database is fragmented if at least this share and this many bytes of its file are
	// free. At 0 percent it is never defragmented, except to cure NOSPACE.
	FreePercent int
	FreeBytes   int64
	// FullPercent of the quota is the watermark: NOSPACE is disarmed only when every database is smaller.
	FullPercent int
	// Cure: NOSPACE is cured without an operator.
	Cure bool
}

// Judgement is how a member judges its own database.
type Judgement struct {
	Fragmented bool `json:"fragmented,omitempty"` // worth a defragmentation
	Full       bool `json:"full,omitempty"`       // at or above the watermark, upkeep.full-percent of the quota
}

// Judge judges a member's database. before is the last judgement: a database stays fragmented until half of either
// limit is reached, so that the gossip does not change with every page. tried: it was defragmented since NOSPACE was
// raised.
//
// Bytes in use are an upper bound, because a nearly empty page counts as full. So a full database is worth one
// defragmentation, whatever it shows as free.
func (u Upkeep) Judge(before Judgement, m Member, tried bool) Judgement {
	s := m.Space
	free := s.Size - s.InUse
	j := Judgement{Full: s.Quota > 0 && s.Size >= u.watermark(s)}
	if m.Alarmed(NoSpace) && u.Cure { // a database that is not full does not prevent the cure
		j.Fragmented = j.Full && (!tried || u.Roomy(s) || free >= s.Quota/20)
		return j
	}
	least, percent := u.FreeBytes, int64(u.FreePercent)
	if m.Voters() == 1 { // clients get no answers meanwhile, so it must be worth twice as much
		least, percent = 2*least, (100+percent)/2
	}
	if before.Fragmented {
		least, percent = least/2, percent/2
	}
	j.Fragmented = u.FreePercent > 0 && free > 0 && free >= least && free*100 >= percent*s.Size
	return j
}

func (u Upkeep) watermark(s Space) int64 { return s.Quota / 100 * int64(u.FullPercent) }

// Roomy reports whether the database would be below the watermark if it were defragmented.
func (u Upkeep) Roomy(s Space) bool { return s.InUse < u.watermark(s) }

// Voters counts the members that vote.
func (m Member) Voters() int { return len(Voters(m.Members)) }

// due is what a serving member does for its own database under the disruption lock, and what the leader does about
// NOSPACE. A Wait says what that waits for.
func (o upkeep) due() Action {
	switch m := o.Member; {
	case o.Orders.Differs && !o.Claim.Short:
		return o.giveUpData()
	case m.Alarmed(Corrupt):
		return o.corrupt()
	case m.Alarmed(NoSpace):
		return o.cure()
	case o.Claim.Short:
		return o.raise()
	case m.Stale:
		return reloading(o).stale()
	case m.Fragmented:
		return o.defragment()
	}
	return Action{}
}

// halted says why the nodes must not change members on their own now: an operator has paused that, the members run
// different etcd versions, or another program runs some of them. "" if nothing prevents it.
func (o upkeep) halted() string { return cmp.Or(o.paused(), o.mixed(), adopting(o).mixed()) }

// corrupt explains the alarm CORRUPT, which holdfast never disarms.
func (o upkeep) corrupt() Action {
	var who []string
	for _, m := range o.Member.Members {
		if o.Member.blames(m.ID) {
			h, _ := o.holder(m.Slot, m.ID)
			switch {
			case m.ID == o.Member.ID:
				who = append(who, fmt.Sprintf("slot %s on %s (member %x)", m.Slot, o.Node, m.ID))
			case h != nil:
				who = append(who, fmt.Sprintf("slot %s on %s (member %x)", m.Slot, h.Node, m.ID))
			default:
				who = append(who, fmt.Sprintf("slot %s (member %x)", m.Slot, m.ID))
			}
		}
	}
	const by = "etcd refuses everything until the alarm is disarmed by hand, and the nodes change nothing " +
		"else on their own; see docs/upkeep.md"
	disarm, rejoin := Command("etcdctl alarm disarm"), Command("rejoin")
	const cure = "run %s on the node that differs from the majority, which %s names, and %s when it serves again; %s"
	status := Command("status")
	switch {
	case len(who) == 0 && o.Member.blames(0):
		return wait("alarm CORRUPT: the members' data differ, and etcd could not tell whose is right: "+cure, rejoin, status,
			disarm, by)
	case len(who) == 0:
		return wait("alarm CORRUPT: the member it names no longer exists: run %s when all others serve; %s", disarm, by)
	}
	return wait("alarm CORRUPT: etcd blames %s: "+cure, strings.Join(who, " and "), rejoin, status, disarm, by)
}

// Differed is the reason of a [SetAside] of data that differs from the other members' data.
const Differed = "differs"

// giveUpData gives up this member's data, which an operator says differs from that of a majority of all voters, so that
// the leader replaces the member. All others must serve, because this one is away until it has their data. If CORRUPT
// names another member, or none, it is raised for this one first: under CORRUPT the leader replaces only the member
// that the alarm names.
func (o upkeep) giveUpData() Action {
	m, slot := o.Member, o.Claim.Slot
	obstacle := o.obstacle()
	switch {
	case obstacle != "":
	case m.Voters() < 3:
		obstacle = fmt.Sprintf("with %d voters, none is a majority without the other", m.Voters())
	case !m.Alarmed(Corrupt): // under CORRUPT nobody can take or return the lock
		obstacle = o.lockedBy()
	}
	switch {
	case obstacle != "":
		return wait("the data of slot %s differs from the others' and is to be set aside; that waits: %s", slot, obstacle)
	case m.Alarmed(Corrupt) && !m.blames(m.ID):
		return Action{Kind: Raise, Alarm: Corrupt,
			Why: fmt.Sprintf("the operator says that the data of slot %s is what differs: making the alarm CORRUPT "+
				"name it", slot)}
	}
	return Action{Kind: SetAside, Record: o.Disk.Ledger.Record, Member: m.ID, Reason: Differed,
		Why: fmt.Sprintf("the operator gives up the data of slot %s, which differs from what a majority of the members "+
			"has: it is set aside, and the slot joins again", slot)}
}

// replacesCorrupt reports whether an action replaces a corrupt member.
func (o upkeep) replacesCorrupt(a Action) bool {
	// A slot without a member, or with a learner, is being replaced: nothing else can have begun since the alarm was
	// raised.
	return a.Kind == Promote || a.Kind == Replace && (a.Member == 0 || o.Member.blames(a.Member))
}

// defragment lets the members defragment one after the other: the followers in the order of their slots, then the
// leader. The disruption lock ensures that only one does so at a time.
func (o upkeep) defragment() Action {
	const waits = "the database is fragmented; the defragmentation waits: %s"
	if obstacle := cmp.Or(o.obstacle(), o.lockedBy(), o.resting()); obstacle != "" {
		return wait(waits, obstacle)
	}
	if before := o.before(fragmented); before != "" {
		return wait(waits, "slot "+before+" comes first")
	}
	return Action{Kind: Defrag, Why: fmt.Sprintf("the database of slot %s is fragmented: defragmenting it",
		o.Claim.Slot)}
}

// cure cures NOSPACE: the leader compacts the history; then the members defragment, one at a time and with the leader's
// permission, because taking the disruption lock is a write and so is refused; then the leader disarms the alarm, if
// every database is below the watermark. While a volume is too full, it only reports that. All clients wait for the
// cure, so it does not rest after a successful step: a compaction needs a new revision, and a defragmentation something
// to gain.
func (o upkeep) cure() Action {
	if note := o.shortage(); note != "" {
		return wait("%s", note)
	}
	out := "alarm NOSPACE: a database or a volume had no room, and the cluster takes no writes; "
	if len(o.full()) == 0 { // or a volume had no room
		out = "alarm NOSPACE: the cluster takes no writes; "
	}
	if !o.Config.Upkeep.Cure {
		return wait("%supkeep.cure-nospace is off: compact, defragment and disarm by hand", out)
	}
	if obstacle := cmp.Or(o.obstacle(), o.lockedBy()); obstacle != "" {
		return wait("%sthe cure waits: %s", out, obstacle)
	}
	step := o.cureStep()
	if step.Kind != Disarm {
		step.Why = out + step.Why
	}
	return step
}

// cureStep is the next step of the cure, or says what it lacks.
func (o upkeep) cureStep() Action {
	m, before, full := o.Member, o.before(fragmented), o.full()
	// A hand-over fails some client requests. While a follower is full with the same data, it would be pointless.
	ours := m.Fragmented && (!m.Leader || len(full) == 1)
	switch {
	case m.Leader && len(full) == 0:
		return Action{Kind: Disarm,
			Why: "every database is below the watermark and every volume has room: disarming the alarm NOSPACE"}
	case m.Leader && o.uncompacted():
		return Action{Kind: Compact, Revision: m.Revision, Why: "compacting the history"}
	case len(full) > 0 && o.uncompacted(): // before that, a defragmentation gains little and takes as long
		return wait("the leader compacts the history first")
	case before != "":
		return wait("slot %s is to be defragmented", before)
	case ours && o.resting() != "":
		return wait("the cure waits: %s", o.resting())
	case ours && m.Leader && m.Voters() > 1:
		return Action{Kind: HandOver, Why: "only the leader is left to be defragmented: handing over"}
	case ours:
		return Action{Kind: Defrag, Why: fmt.Sprintf("defragmenting slot %s", o.Claim.Slot)}
	case len(full) == 0:
		return wait("the leader disarms it")
	case len(o.gaining(full)) > 0:
		return wait("slot %s is to be defragmented", o.gaining(full)[0])
	case o.Compacted: // the databases show it a little later, and then the gossip
		return wait("the result of the compaction will show in a moment")
	}
	return wait("the database is full of live data (slots %s): delete keys or raise "+
		"etcd.quota-backend-bytes", strings.Join(full, ", "))
}

// uncompacted reports whether there is history to compact before anything is defragmented. All of it is compacted: a
// thousand revisions of large values may be all there is to gain, and under the alarm nothing is written that a watcher
// could miss. If deletions keep coming, they are compacted together, and the members defragment in between.
func (o upkeep) uncompacted() bool {
	return !o.Compacted && o.Member.Revision > o.Member.Compacted
}

// Permit is the leader's answer to a member that asks whether it may defragment although the lock cannot be taken. ""
// means yes: every other member says right now that it neither defragments nor asks. A member says so from before it
// asks until it is done. So if two members ask, one is seen by the other's leader, even if two members believe that
// they lead.
func (obs Observation) Permit() (refusal string) {
	o := upkeep(look(&obs))
	m := o.Member
	switch {
	case !m.Running || !m.HasLead || !m.Leader:
		return "this member does not lead"
	case !m.Alarmed(NoSpace) || m.Alarmed(Corrupt) || !o.Config.Upkeep.Cure:
		return "NOSPACE is not being cured"
	}
	return cmp.Or(proposals(o).frozen(), o.halted(), o.away(), o.lockedBy())
}

// Hindrance says why a member that holds the disruption lock must not defragment now, "" if nothing prevents it. seen
// is what the leader has just reported ([Facts.Seen]), nil if it has not.
func (obs Observation) Hindrance(seen []MemberInfo) string {
	o := upkeep(look(&obs))
	return cmp.Or(unconnected(seen), o.obstacle(), o.lockedBy(), o.resting())
}

// unconnected names a member that the leader does not reach, by the leader's report.
func unconnected(seen []MemberInfo) string {
	if seen == nil {
		return "the leader has not said which members are connected to it"
	}
	for _, m := range seen {
		if !m.Connected {
			return fmt.Sprintf("slot %s is not connected", m.Slot)
		}
	}
	return ""
}

// obstacle says what prevents upkeep now that would keep a member from its work.
func (o upkeep) obstacle() string { return cmp.Or(proposals(o).frozen(), o.halted(), o.absent()) }

// defragging says which other member is defragmenting, according to the gossip.
func (o upkeep) defragging() string {
	if slots := o.others(func(f *Facts) bool { return f.Defragging }); len(slots) > 0 {
		return fmt.Sprintf("slot %s is being defragmented", slots[0])
	}
	return ""
}

// others lists the other slots whose holders say something.
func (o upkeep) others(says func(*Facts) bool) (slots []string) {
	for _, s := range o.wantedSlots() {
		if !s.ours && s.holder != nil && says(s.holder.Facts) {
			slots = append(slots, s.slot)
		}
	}
	return slots
}

// absent says which member does not serve. A member that defragments or restarts answers no clients, so all others
// must.
func (o upkeep) absent() string { return cmp.Or(o.away(), o.defragging()) }

// away is absent, except that it ignores members that defragment.
func (o upkeep) away() string {
	m := o.Member
	for _, i := range m.Members {
		switch {
		case i.Learner:
			return fmt.Sprintf("slot %s is a learner", i.Slot)
		case m.Leader && !i.Connected && i.ID != m.ID:
			return fmt.Sprintf("slot %s is not connected", i.Slot)
		}
	}
	for _, s := range o.wantedSlots() {
		switch h := s.holder; {
		case s.ours:
		case !s.listed:
			return fmt.Sprintf("slot %s is not a member", s.slot)
		case h == nil:
			return s.note
		case !h.Facts.Running || h.Facts.Member != s.member.ID:
			return fmt.Sprintf("slot %s does not serve on %s", s.slot, h.Node)
		}
	}
	return ""
}

// resting says why this member itself waits: a defragmentation never disturbs a backup.
func (o upkeep) resting() string {
	if o.Member.Snapshot && o.Member.Fragmented {
		return "a backup is being read"
	}
	return o.Resting
}

func fragmented(f *Facts) bool { return f.Fragmented }

// before names a slot that has the same to do and goes first: of two followers the lower slot, and any follower before
// the leader. "" for none.
func (o upkeep) before(same func(*Facts) bool) string {
	first := o.others(func(f *Facts) bool {
		return same(f) && (o.Member.Leader || !f.Leader && f.Slot < o.Claim.Slot)
	})
	return strings.Join(first[:min(1, len(first))], "")
}

// gaining lists the other slots whose holders say that a defragmentation is worth it; the leader's only if no other
// database is full.
func (o upkeep) gaining(full []string) []string {
	return o.others(func(f *Facts) bool { return f.Fragmented && (!f.Leader || len(full) == 1) })
}

// full lists the slots whose database is at or above the watermark, as their holders say.
func (o upkeep) full() []string {
	var full []string
	for _, s := range o.wantedSlots() {
		h := s.holder
		if s.ours && o.Member.Full || !s.ours && (h == nil || h.Facts.Full) {
			full = append(full, s.slot)
		}
	}
	return full
}
