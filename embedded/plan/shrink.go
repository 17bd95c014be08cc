package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// quorum is what the leader knows about the voters and about a join in progress.
type quorum struct {
	voters, healthy int
	away            []string // slots of voters that are not connected
	learner         *MemberInfo
}

// unconnected names the voters that are away.
func (q quorum) unconnected() string {
	if len(q.away) == 1 {
		return fmt.Sprintf("slot %s is not connected", q.away[0])
	}
	return fmt.Sprintf("slots %s are not connected", strings.Join(q.away, ", "))
}

func (o steady) quorum() quorum {
	var q quorum
	for i, m := range o.Member.Members {
		switch {
		case m.Learner:
			q.learner = &o.Member.Members[i]
		case m.ID == o.Member.ID || m.Connected:
			q.voters, q.healthy = q.voters+1, q.healthy+1
		default:
			q.voters, q.away = q.voters+1, append(q.away, m.Slot)
		}
	}
	slices.Sort(q.away)
	return q
}

// steps returns what the leader can do for the member list, the most urgent first. Each changes one thing, and leaves
// the cluster at least as strong. First a lost member is replaced, or removed if it is not wanted. Then the cluster
// grows. Only then does it give up members that serve. A Wait among them says what prevents a step.
func (o steady) steps() []Action {
	q, wanted := o.quorum(), o.slots(o.Disk.Ledger.Record)
	all := []Action{resizing(o).agree(), o.removeLearner(q)}
	mend := func(listed bool) {
		for _, slot := range o.untried(wanted) {
			if _, is := o.listed(slot); is == listed && slot != o.Claim.Slot {
				all = append(all, o.advance(slot, q))
			}
		}
	}
	mend(true)
	all = append(all, o.removeLost(q, wanted))
	mend(false)
	return append(all, o.removeServing(q, wanted))
}

// untried moves slots whose learner was removed to the end, so that the same failed join does not always come next.
func (o steady) untried(slots []string) []string {
	undone := func(slot string) int {
		m, _ := o.listed(slot)
		return boolean(slices.ContainsFunc(o.Member.Admitted, func(ad Admission) bool { return ad.Slot == slot && ad.ID != m.ID }))
	}
	sorted := slices.Clone(slots)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(undone(a), undone(b)) })
	return sorted
}

// removeLearner removes a learner that cannot finish joining. It has no vote, so only its copy of the data is lost.
// Only one join can be in progress, so a live learner that never catches up would keep all others out.
func (o steady) removeLearner(q quorum) Action {
	m := q.learner
	if m == nil || q.healthy <= q.voters/2 {
		return Action{}
	}
	remove := func(why string) Action {
		return Action{Kind: Remove, Slot: m.Slot, Member: m.ID,
			Why: fmt.Sprintf("learner %x of slot %s %s: removing it", m.ID, m.Slot, why)}
	}
	if !slices.Contains(o.slots(o.Disk.Ledger.Record), m.Slot) {
		return remove("is not wanted any more")
	}
	h, _ := o.holder(m.Slot, m.ID)
	switch {
	case m.Stuck && !o.Early && o.waiting(m.Slot) != "":
		return remove("has made no progress for minutes, and slot " + o.waiting(m.Slot) + " waits to join")
	case m.Connected || h != nil || o.Early:
		return Action{}
	case !m.Started:
		return remove("never started and has no live holder")
	case o.waiting(m.Slot) != "":
		return remove("has no live holder, and slot " + o.waiting(m.Slot) + " waits to join")
	}
	return Action{}
}

// waiting returns a wanted slot other than this one whose holder waits to be admitted.
func (o steady) waiting(but string) string {
	for _, s := range o.wantedSlots() {
		if s.slot != but && s.holder != nil && s.holder.Facts.Phase == PhaseVacant {
			return s.slot
		}
	}
	return ""
}

// nameOf names a member by its slot, or by its ID if it was added by hand and belongs to none.
func nameOf(m MemberInfo) string {
	if m.Slot == "" {
		return fmt.Sprintf("member %x", m.ID)
	}
	return "slot " + m.Slot
}

// unwantedVoters are the voters other than this one whose slots the cluster does not want, by slot.
func (o steady) unwantedVoters(wanted []string) []MemberInfo {
	var out []MemberInfo
	for _, m := range o.Member.Members {
		if !m.Learner && m.ID != o.Member.ID && !slices.Contains(wanted, m.Slot) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b MemberInfo) int { return cmp.Compare(a.Slot, b.Slot) })
	return out
}

// removeLost removes a lost member whose slot is not wanted. The quorum gets smaller, and no serving member is touched.
func (o steady) removeLost(q quorum, wanted []string) Action {
	for _, m := range o.unwantedVoters(wanted) {
		switch {
		case m.Connected:
		case q.learner != nil:
			return wait("not removing %s: learner %x of slot %s is under way", nameOf(m), q.learner.ID, q.learner.Slot)
		case q.healthy <= q.voters/2: // of all voters, hence also of the remaining ones
			return wait("not removing %s: only %d of %d voters are connected", nameOf(m), q.healthy, q.voters)
		default:
			return Action{Kind: Remove, Slot: m.Slot, Member: m.ID,
				Why: fmt.Sprintf("%s is not among the slots of the cluster (%s) and not connected: removing it", nameOf(m),
					strings.Join(wanted, ","))}
		}
	}
	return Action{}
}

// removeServing removes a serving member whose slot is not wanted. The leader goes last: it hands over to a member that
// stays, which then removes it. All members that stay must be connected and in sync, so that the smaller cluster is at
// full strength at once. Being connected is not enough, because a member that keeps restarting is connected for
// moments.
func (o steady) removeServing(q quorum, wanted []string) Action {
	out := o.unwantedVoters(wanted)
	if len(out) == 0 && (slices.Contains(wanted, o.Claim.Slot) || q.voters < 2) {
		return Action{}
	}
	slot, name := o.Claim.Slot, "slot "+o.Claim.Slot
	if len(out) > 0 {
		slot, name = out[0].Slot, nameOf(out[0])
	}
	refuse := func(format string, args ...any) Action {
		return wait("not removing %s: %s", name, fmt.Sprintf(format, args...))
	}
	for _, keep := range wanted {
		if m, ok := o.listed(keep); !ok || m.Learner {
			return refuse("slot %s, which is to stay, is no voter yet", keep)
		}
	}
	switch {
	case q.learner != nil:
		return refuse("learner %x of slot %s is under way", q.learner.ID, q.learner.Slot)
	case o.Member.Lock != nil:
		return refuse("slot %s holds the disruption lock (%s)", o.Member.Lock.Slot, o.Member.Lock.Purpose)
	case len(q.away) > 0:
		return refuse("%s", q.unconnected())
	case o.lagging(wanted) != "":
		return refuse("slot %s is not in sync", o.lagging(wanted))
	case len(out) > 0:
		return Action{Kind: Remove, Slot: slot, Member: out[0].ID,
			Why: fmt.Sprintf("%s is not among the slots of the cluster (%s): removing it", name, strings.Join(wanted, ","))}
	}
	return Action{Kind: HandOver, Slot: slot,
		Why: fmt.Sprintf("slot %s, which leads, is no longer in the cluster (%s): handing over, so that "+
			"the next leader removes it", slot, strings.Join(wanted, ","))}
}

// lagging names a slot that is to stay but whose member is not in sync, "" for none.
func (o steady) lagging(wanted []string) string {
	for _, m := range o.Member.Members {
		if m.ID != o.Member.ID && slices.Contains(wanted, m.Slot) && !o.Member.InSync(m) {
			return m.Slot
		}
	}
	return ""
}
