package health

import (
	"slices"

	"holdfast/embedded/plan"
)

// isForeign reports whether no node was ever heard to run the member of a slot in an adopted cluster, so that another
// program runs it, or nobody. A lost node that held the slot is reported as lost instead. Once all members were seen to
// be ours, none is foreign.
func (s judged) isForeign(slot string) bool {
	return s.Record != nil && s.Record.Cause == plan.Adopted && slices.Contains(s.Record.Charter.Slots(), slot) &&
		!slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool {
			return n.Volume != nil && n.Volume.Slot == slot || n.Checkup != nil && n.Checkup.Taken
		})
}

// returning reports whether the cluster goes back to the program from which it was taken over.
func (s judged) returning() bool {
	return s.Paused != nil && s.Paused.Return && s.Record != nil && s.Record.Cause == plan.Adopted
}

// isReleased reports whether the member of a slot may have been given back: the cluster goes back, and no live node
// holds the slot, or only a drained one.
func (s judged) isReleased(slot string) bool {
	n := s.holder(slot)
	return s.returning() && slices.Contains(s.Record.Charter.Slots(), slot) &&
		(n == nil || n.Reached && n.State == "drained")
}

// elsewhere reports whether another program runs the member of a slot, because raft is connected to it.
func (s judged) elsewhere(slot string) bool {
	return (s.isForeign(slot) || s.isReleased(slot)) && s.near(slot)
}

// near reports whether raft messages flow from any node to the voter of a slot. It does not rely on the leader, which
// may also be a member that another program runs, and which then reports nothing here.
func (s judged) near(slot string) bool {
	return slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool {
		c := n.Checkup
		return n.Reached && n.Etcd != nil && c != nil && slices.ContainsFunc(c.Members, func(m plan.MemberInfo) bool {
			return m.Slot == slot && !m.Learner && c.reaches(m)
		})
	})
}

// judgeForeign judges a slot that holdfast does not run yet.
func (s judged) judgeForeign(out *findings, slot string) {
	subject := "slot " + slot
	if s.near(slot) {
		out.add(SlotForeign, subject,
			"slot %s is not taken over: another program runs its member, and raft is connected to it, so it counts", slot)
		return
	}
	out.add(SlotForeign, subject, "slot %s is not taken over: no holdfast node has ever run its member", slot)
	out.add(SlotDown, subject, "slot %s is not taken over, and raft is not connected to its member", slot).
		then("Start etcd or its manager there again, or take that machine over. If it runs, check that its name " +
			"resolves to the right address here (docs/migrate.md).")
}

// judgeReleased judges a slot that holdfast no longer runs.
func (s judged) judgeReleased(out *findings, slot string) {
	subject := "slot " + slot
	if s.near(slot) {
		out.add(SlotReleased, subject,
			"slot %s was given back: another program runs its member, and raft is connected to it, so it counts", slot)
		return
	}
	out.add(SlotDown, subject,
		"slot %s is run by no node while the cluster goes back, and raft is not connected to its member", slot).
		then("If it was released, start etcd or its manager on that machine, and wait until its member serves. To take " +
			"it back, start holdfast there, or run `holdfast undrain` where it still runs.")
}
