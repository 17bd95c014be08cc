package plan

import (
	"fmt"
	"strings"
)

// steady decides while etcd runs. Only the raft leader acts on the cluster; what it does goes through
// raft, one step at a time, and only while a majority of voters is with it.
func (o Observation) steady() Action {
	m := o.Member
	switch {
	case !m.Ready && m.Learner:
		return wait("etcd runs as a learner of slot %s and waits to hear from the leader", o.Claim.Slot)
	case !m.Ready || !m.HasLead:
		return wait("etcd runs and waits for a quorum%s", o.whoRuns(o.Disk.Ledger.Record))
	case m.Learner:
		return wait("catching up as a learner; the leader promotes slot %s when it is in sync", o.Claim.Slot)
	case !m.Leader:
		return wait("serving as a follower")
	}
	return o.lead()
}

// lead looks at one slot after the other and takes the first step that is possible.
func (o Observation) lead() Action {
	voters, healthy := 0, 0
	for _, m := range o.Member.Members {
		if !m.Learner {
			voters++
			if m.ID == o.Member.ID || m.Connected {
				healthy++
			}
		}
	}
	var notes []string
	for _, slot := range o.Disk.Ledger.Record.Charter.Slots() {
		if slot == o.Claim.Slot {
			continue
		}
		a, note := o.mend(slot, voters, healthy)
		if a != nil {
			return *a
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	if len(notes) > 0 {
		return wait("serving as the leader; %s", strings.Join(notes, "; "))
	}
	if voters == 1 {
		return wait("serving as the only member")
	}
	return wait("serving as the leader; all %d members are voters and connected", voters)
}

// mend returns the step that brings a slot closer to being a voter, or a note on what it lacks.
func (o Observation) mend(slot string, voters, healthy int) (*Action, string) {
	m, listed := o.listed(slot)
	h, note := o.holder(slot, m.ID)
	if h == nil {
		if listed && m.Connected {
			return nil, ""
		}
		return nil, note
	}
	f := h.Facts
	switch {
	case listed && m.Learner && f.Running && f.Member == m.ID:
		return &Action{Kind: Promote, Slot: slot, Member: m.ID, Why: fmt.Sprintf("learner %x of slot %s runs on %s: promoting it when it is in sync", m.ID, slot, h.Node)}, ""
	case f.Phase == PhaseVacant:
		return o.admit(slot, h, m, voters, healthy)
	case listed && m.Learner:
		return nil, fmt.Sprintf("slot %s (learner %x) has not started on %s yet", slot, m.ID, h.Node)
	case !listed:
		return nil, fmt.Sprintf("slot %s is not a member, and its disk on %s is %s", slot, h.Node, f.Phase)
	case !m.Connected:
		return nil, fmt.Sprintf("slot %s on %s is not connected", slot, h.Node)
	}
	return nil, ""
}

// admit replaces the member of a slot whose holder has no data, for that holder's disk only.
func (o Observation) admit(slot string, h *Peer, m MemberInfo, voters, healthy int) (*Action, string) {
	f := h.Facts
	if f.Record == nil || f.Record.ID != o.Disk.Ledger.Record.ID {
		return nil, fmt.Sprintf("slot %s on %s belongs to another cluster", slot, h.Node)
	}
	for _, ad := range o.Member.Admitted {
		if m.ID != 0 && m.Learner && ad.ID == m.ID && ad.Disk == f.Disk {
			return nil, fmt.Sprintf("slot %s is admitted as learner %x; waiting for %s to start it", slot, m.ID, h.Node)
		}
	}
	switch {
	case m.Connected:
		return nil, fmt.Sprintf("slot %s has no data on %s, yet member %x is connected: two holders?", slot, h.Node, m.ID)
	case healthy <= voters/2: // of all voters, hence also of those that are left after the removal
		return nil, fmt.Sprintf("slot %s waits to be admitted, but only %d of %d voters are connected", slot, healthy, voters)
	}
	return &Action{Kind: Replace, Node: h.Node, Slot: slot, Disk: f.Disk, Member: m.ID,
		Why: fmt.Sprintf("the disk of slot %s on %s has no member data: replacing the member by a learner", slot, h.Node)}, ""
}

// listed returns the member that has the slot's peer URL.
func (o Observation) listed(slot string) (MemberInfo, bool) {
	for _, m := range o.Member.Members {
		if m.Slot == slot {
			return m, true
		}
	}
	return MemberInfo{}, false
}

// holder returns the live holder of a slot: of two, the one that is the listed member, else the one that
// its rival waits for. Without any it says so.
func (o Observation) holder(slot string, member uint64) (*Peer, string) {
	var found *Peer
	for _, p := range o.live() {
		switch f := p.Facts; {
		case f == nil || f.Slot != slot:
		case f.Running && f.Member == member:
			return &p, ""
		case found == nil || stronger(*f, p.Node, *found.Facts, found.Node):
			found = &p
		}
	}
	if found == nil {
		return nil, fmt.Sprintf("slot %s has no live holder", slot)
	}
	return found, ""
}
