package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"holdfast/embedded/plan"
)

// TakeoverPhase is how far the takeover of another program's cluster is.
type TakeoverPhase string

const (
	TakeoverNone      TakeoverPhase = "none"      // holdfast has founded or restored the cluster, or no node here knows one
	TakeoverMixed     TakeoverPhase = "mixed"     // another program runs voters, or some were not yet seen to run here
	TakeoverOver      TakeoverPhase = "over"      // every voter was seen to run here
	TakeoverReturning TakeoverPhase = "returning" // an operator gives it back with `holdfast takeover release`
)

// Takeover is what a node says of a takeover (R22).
type Takeover struct {
	Phase   TakeoverPhase    `json:"phase"`
	Cluster plan.ID          `json:"cluster,omitzero"` // etcd's
	Members []TakeoverMember `json:"members"`
	Foreign []string         `json:"foreign"`           // slots of voters that no node was ever seen to run
	Frozen  string           `json:"frozen,omitempty"`  // what is not done until the takeover is over, and why
	Waiting []string         `json:"waiting,omitempty"` // nodes that do not take their member over, each with the reason
	Next    string           `json:"next,omitempty"`    // what an operator should do next
}

// TakeoverMember is a voter and the node that runs it.
type TakeoverMember struct {
	Slot      string  `json:"slot"`
	Member    plan.ID `json:"member"`
	Node      string  `json:"node,omitempty"`
	Ours      bool    `json:"ours"`               // an answering node runs it
	Connected bool    `json:"connected"`          // raft messages flow to it, or it answers itself
	Leader    bool    `json:"leader,omitempty"`   // according to the node whose member has the newest term
	Version   string  `json:"version,omitempty"`  // of its etcd, if a node runs it
	Released  bool    `json:"released,omitempty"` // a node holds its disk and does not run it
	Why       string  `json:"why,omitempty"`      // the reason, if that node is live
	Unknown   bool    `json:"unknown,omitempty"`  // no member that runs here says yet what raft is connected to
}

// AssessTakeover judges how far a takeover is. record is the asked node's, and foreign and frozen come from its plan.
func AssessTakeover(s ClusterStatus, record *plan.Record, foreign []string, frozen string) Takeover {
	t := Takeover{Phase: TakeoverNone, Members: []TakeoverMember{}, Foreign: append([]string{}, foreign...),
		Frozen: frozen}
	for _, n := range s.Nodes {
		switch {
		case !n.Live || n.Record != nil:
		case n.Volume != nil:
			t.Waiting = append(t.Waiting, fmt.Sprintf("%s (slot %s): %s", n.Node, n.Volume.Slot, n.Why))
		case record == nil || frozen != "": // a volume is not claimed while another program still uses its data
			t.Waiting = append(t.Waiting, fmt.Sprintf("%s (no volume): %s", n.Node, n.Why))
		}
	}
	if record == nil || record.Adopted == nil && !s.returning() { // a restored one goes back as well
		return t
	}
	t.Cluster = clusterID(s, record)
	leader, links := s.leaderID(), s.Links()
	for _, v := range votersSeen(s, record) {
		m := s.runs(v, links)
		m.Leader = m.Member == leader
		t.Members = append(t.Members, m)
	}
	switch {
	case s.returning(): // this comes first: a cluster that goes back is also mixed
		t.Phase = TakeoverReturning
		t.Next = goingBack(t.Members)
	case frozen != "":
		t.Phase = TakeoverMixed
		t.Next = takingOver(t.Members, foreign)
	default:
		t.Phase = TakeoverOver
	}
	return t
}

// takingOver says what an operator should do next in a takeover. A disconnected member comes first, whichever program
// runs it, because stopping another one may lose the majority. While a live node holds its disk, or nothing is known of
// the connections, its removal is not suggested.
func takingOver(members []TakeoverMember, foreign []string) string {
	for _, m := range members {
		if m.Why != "" && !m.Connected {
			return fmt.Sprintf("stop no other member until that of slot %s serves; it is down on %s: %s", m.Slot, m.Node,
				m.Why)
		}
	}
	for _, m := range members {
		switch {
		case m.Connected:
			continue
		case m.Unknown:
			return "stop no member: none that runs under holdfast has said yet which others it is connected to"
		}
		cure := "start holdfast there, or its etcd again"
		if m.Node != "" {
			cure = fmt.Sprintf("make sure that holdfast on %s runs it again", m.Node)
		}
		return fmt.Sprintf("raft is not connected to the member of slot %s: %s, before any other machine; if its disk is "+
			"lost for good: `holdfast etcdctl member remove %s`", m.Slot, cure, m.Member)
	}
	if len(foreign) == 0 {
		return "wait until every member has been seen running here"
	}
	leads := func(slot string) bool {
		return slices.ContainsFunc(members, func(m TakeoverMember) bool { return m.Slot == slot && m.Leader })
	}
	return fmt.Sprintf("take over the machine of slot %s: stop its etcd or etcd-manager, and start holdfast there",
		leaderLast(slices.Clone(foreign), leads)[0])
}

// leaderID returns the member that leads, 0 if no node knows one.
func (s ClusterStatus) leaderID() (id plan.ID) {
	newest := uint64(0)
	for _, n := range s.Nodes {
		if n.Reached && n.Etcd != nil && n.Etcd.LeaderID != 0 && n.Etcd.Term >= newest {
			id, newest = n.Etcd.LeaderID, n.Etcd.Term
		}
	}
	return id
}

// goingBack says what an operator should do next while a cluster is given back.
func goingBack(members []TakeoverMember) string {
	rest := restOf(members)
	switch len(rest) {
	case 0:
		return "start the other program on every machine, and check that its members serve: no node runs one any more"
	case len(members):
		return "release a member: " + inTurn(rest) + "; to keep the cluster here: `holdfast resume`"
	}
	return "check that the released members serve again, then release the next: " + inTurn(rest)
}

// inTurn is the command that releases the members of these nodes.
func inTurn(nodes []string) string {
	return "`holdfast takeover release` on " + strings.Join(nodes, ", then ")
}

// restOf names the nodes that run members, in the order of release, the leader last.
func restOf(members []TakeoverMember) (rest []string) {
	for _, m := range leaderLast(slices.Clone(members), func(m TakeoverMember) bool { return m.Leader }) {
		if m.Ours {
			rest = append(rest, m.Node)
		}
	}
	return rest
}

// votersSeen returns the voters according to a member that runs here, preferably the leader, otherwise according to the
// record.
func votersSeen(s ClusterStatus, record *plan.Record) (voters []plan.MemberInfo) {
	led := false
	for _, n := range s.Nodes {
		if c := n.Checkup; n.Reached && n.Etcd != nil && c != nil && len(c.Members) > 0 && !led {
			voters, led = c.Members, c.Leader
		}
	}
	if voters == nil {
		for _, m := range record.Charter.Seats {
			voters = append(voters, plan.MemberInfo{ID: m.Member, Slot: m.Slot})
		}
	}
	voters = plan.Voters(voters)
	slices.SortFunc(voters, func(a, b plan.MemberInfo) int { return strings.Compare(a.Slot, b.Slot) })
	return voters
}

// clusterID is etcd's ID of the cluster, 0 if no node runs a member of a later generation.
func clusterID(s ClusterStatus, record *plan.Record) plan.ID {
	if record.Adopted != nil {
		return plan.ID(record.Adopted.Cluster)
	}
	for _, n := range s.Nodes {
		if n.Reached && n.Etcd != nil {
			return n.Etcd.Cluster
		}
	}
	return 0
}

// runs says which node runs a voter.
func (s ClusterStatus) runs(v plan.MemberInfo, links map[plan.ID]Links) TakeoverMember {
	m := TakeoverMember{Slot: v.Slot, Member: plan.ID(v.ID), Unknown: len(links) == 0}
	for _, l := range links {
		m.Connected = m.Connected || slices.Contains(l.Peers, m.Member)
	}
	for _, n := range s.Nodes {
		switch {
		case n.Reached && n.Etcd != nil && n.Etcd.Member == m.Member:
			m.Node, m.Ours, m.Connected, m.Version = n.Node, true, true, n.Etcd.Version
			m.Released, m.Unknown, m.Why = false, false, ""
			return m
		case n.Volume != nil && n.Volume.Slot == v.Slot && (n.Live || m.Node == ""): // a lost node's volume may have moved
			m.Node, m.Released = n.Node, true
			if n.Live {
				m.Why = n.Why
			}
		}
	}
	return m
}

// Links are the members to which raft is connected, according to one member.
type Links struct {
	Peers []plan.ID
	Err   string // why the member could not be asked
}

// Links returns the links of the members that nodes run, by ID.
func (s ClusterStatus) Links() map[plan.ID]Links {
	all := map[plan.ID]Links{}
	for _, n := range s.Nodes {
		if !n.Reached || n.Etcd == nil || n.Checkup == nil || plan.ID(n.Checkup.Member) != n.Etcd.Member {
			continue // a checkup may be from before the member ran
		}
		var l Links
		for _, m := range n.Checkup.Members {
			if n.Checkup.reaches(m) {
				l.Peers = append(l.Peers, plan.ID(m.ID))
			}
		}
		all[n.Etcd.Member] = l
	}
	return all
}

// Abroad returns the voters that another program runs and to which raft is connected.
func (t Takeover) Abroad() (all []TakeoverMember) {
	for _, m := range t.Members {
		if !m.Ours && m.Connected {
			all = append(all, m)
		}
	}
	return all
}

// Severed says why the remaining members may have no quorum once the member with ID without is down, although raft is
// connected to each of them now. Their only connection may be through that member, if another program runs them and
// does not know their names yet. told has each member's links, by ID. One direction is enough: a member that can dial
// another both sends and receives messages over that connection.
func (t Takeover) Severed(without plan.ID, told map[plan.ID]Links) string {
	left := slices.DeleteFunc(slices.Clone(t.Members),
		func(m TakeoverMember) bool { return !m.Connected || m.Member == without })
	for i, m := range left {
		for _, other := range left[:i] {
			reaches := func(from, to TakeoverMember) bool { return slices.Contains(told[from.Member].Peers, to.Member) }
			if m.Ours && other.Ours || reaches(m, other) || reaches(other, m) { // of ours, the leader tells
				continue
			}
			if err := cmp.Or(told[other.Member].Err, told[m.Member].Err); err != "" {
				return fmt.Sprintf("it is unknown whether the members of slots %s and %s, one of which another program runs, "+
					"are connected: %s", other.Slot, m.Slot, err)
			}
			return fmt.Sprintf("the members of slots %s and %s, one of which another program runs, are not connected, so "+
				"there may be no quorum without this one: check that their names resolve to the right addresses "+
				"(docs/migrate.md, The way back)", other.Slot, m.Slot)
		}
	}
	return ""
}

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
func (s ClusterStatus) returning() bool { return s.Paused != nil && s.Paused.Return }

// isReleased reports whether the member of a slot may have been given back: the cluster goes back, and no live node
// holds the slot, or only a drained one.
func (s judged) isReleased(slot string) bool {
	n := s.holder(slot)
	return s.returning() && s.Record != nil && slices.Contains(s.Record.Charter.Slots(), slot) &&
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
