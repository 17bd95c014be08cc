package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/plan"
)

// Judge finds what is wrong with a cluster by what its nodes say, and sets the verdict. wanted are the configured slots
// if the asked node does not say which they are by now. The same status can be judged again.
func (s *ClusterStatus) Judge(wanted []string) {
	f := Facts{Status: *s, Now: s.Time}
	all := f.Judge(wanted)
	*s = f.Status
	s.Findings = all
	s.Health = s.verdict()
}

// Judge returns everything that is wrong, the worst first. It also completes the status from what its nodes say.
func (f *Facts) Judge(wanted []string) []Finding {
	s := &f.Status
	s.blame()
	if r := s.newest(); r != nil {
		s.Record = r
	}
	leader := s.summarize()
	slots := wanted
	if self := s.Self(); self != nil && self.Wanted != nil {
		slots = self.Wanted
	}
	if s.Record != nil {
		slots = s.Slots()
	}
	var found findings
	if f.Offline != "" {
		f.offline(&found)
		for i := range s.Nodes {
			s.Nodes[i].files(&found, f.Now)
		}
	} else {
		all, own := judged{s, slots, leader, f.Now}, judged{s.own(), slots, leader, f.Now}
		own.quorum(&found)
		all.contradictions(&found)
		for i := range s.Nodes {
			found = append(found, s.Nodes[i].Judge(f.Now)...)
			all.missing(&found, s.Nodes[i])
		}
		own.judgeSlots(&found)
		own.judgeMembers(&found)
		own.judgeAlarms(&found)
		own.judgeData(&found)
		own.judgeVersions(&found)
		all.judgeClocks(&found)
		own.judgeSchedule(&found)
		own.judgeRotation(&found)
		found = append(found, JudgeIssued(all.issued(), f.Now)...)
		all.judgeOperator(&found)
	}
	if f.Store != nil {
		f.Store.judge(&found, f.elsewhere(), f.doubted())
	}
	f.kubernetes(&found)
	return ordered(found)
}

// kubernetes judges Kubernetes' keys, which only a node with a member can read.
func (f *Facts) kubernetes(out *findings) {
	if self := f.Status.Self(); self != nil && self.State == Standby {
		var serve []string
		for _, n := range f.Status.Nodes {
			if n.serves() {
				serve = append(serve, n.Node)
			}
		}
		if len(serve) > 0 {
			out.unexamined(areaKubernetes, self.Node, "%s stands by and runs no member, so it cannot read the keys of "+
				"Kubernetes", self.Node).as(Info).then("`holdfast doctor` on %s checks them.", strings.Join(serve, " or "))
			return
		}
	}
	examine := func(l *plan.Unleased, judge func(*findings, *plan.Unleased)) {
		switch {
		case l == nil:
		case l.Err != "":
			out.unexamined(areaKubernetes, "", "keys below %s: %s", l.Prefix, l.Err).
				then("Run it on a node whose member serves.")
		default:
			judge(out, l)
		}
	}
	examine(f.Endpoints, judgeEndpoints)
	examine(f.Events, judgeEvents)
}

// elsewhere names the nodes that have backups in other stores than the asked node, or "" if there is none.
func (f *Facts) elsewhere() string {
	self := f.Status.Self()
	if self == nil || self.Store == "" {
		return ""
	}
	var others []string
	for _, n := range f.Status.Nodes {
		if b := n.Backup; n.Reached && b != nil && b.Count > 0 && n.Store != "" && n.Store != self.Store {
			others = append(others, fmt.Sprintf("%s of %s", Count(int64(b.Count), "backup"), n.Node))
		}
	}
	return strings.Join(others, ", ")
}

// doubted reports whether the node that saves has found a backup in the asked node's store that is in doubt. Such a
// backup is damaged, and has a finding of its own.
func (f *Facts) doubted() bool {
	self := f.Status.Self()
	return self != nil && slices.ContainsFunc(f.Status.Nodes, func(n NodeStatus) bool {
		return n.Reached && n.Store == self.Store && n.Backup != nil && n.Backup.Leading && n.Backup.Doubt != ""
	})
}

// offline reports that no node answers on this machine. That is no problem unless a process is there and hangs.
func (f *Facts) offline(out *findings) {
	if f.Hangs {
		out.add(NodeSilent, "", "%s", f.Offline).as(Critical).then("Let the process continue, or restart it.")
		out.unexamined(areaNodes, "", "the cluster is not known here").then("Run the command on another node.")
		return
	}
	out.unexamined(areaNodes, "", "no node was asked: %s", f.Offline).
		then("Start holdfast here, or run the command on a machine where it runs, as its user or as root.")
	if f.Ended != "" {
		out.add(NodeEnded, "", "%s", f.Ended)
	}
}

// judged is a status under judgement, with the slots that the cluster should serve, the node that leads (nil if none),
// and the time.
type judged struct {
	*ClusterStatus
	slots  []string
	leader *NodeStatus
	now    time.Time
}

// newest returns the newest record of the asked node's cluster. If that node knows no cluster, it returns the newest of
// all. Nodes of another cluster may be in the gossip under the same name.
func (s *ClusterStatus) newest() (r *plan.Record) {
	lineage := ""
	if self := s.Self(); self != nil && self.Record != nil {
		r, lineage = self.Record, self.Record.Lineage()
	}
	for _, n := range s.Nodes {
		if n.Record == nil || lineage != "" && n.Record.Lineage() != lineage {
			continue
		}
		if r == nil || n.Record.Generation > r.Generation {
			r = n.Record
		}
	}
	return r
}

// stranger reports whether a node belongs to another cluster than the judged one.
func (s *ClusterStatus) stranger(n NodeStatus) bool {
	return n.Record != nil && s.Record != nil && n.Record.Lineage() != s.Record.Lineage()
}

// own returns the status with only the nodes of the judged cluster, and those that know of no cluster.
func (s *ClusterStatus) own() *ClusterStatus {
	own := *s
	own.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), s.stranger)
	return &own
}

// Causes returns the findings that keep the cluster from being healthy.
func (s *ClusterStatus) Causes() []Finding {
	return slices.DeleteFunc(slices.Clone(s.Findings),
		func(f Finding) bool { return f.Severity.rank() < Degrading.rank() })
}

// Reasons returns the causes as sentences.
func (s *ClusterStatus) Reasons() []string { return Texts(s.Causes()) }

func (s *ClusterStatus) verdict() Verdict {
	has := func(c Code) bool { return slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Code == c }) }
	switch {
	case has(QuorumLost):
		return NoQuorum
	case has(Electing):
		return NoLeaderYet
	case slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Code == NotExamined && f.Area == areaQuorum }):
		return Unknown
	case len(s.Reasons()) > 0:
		return Degraded
	}
	return Healthy
}

// unexamined adds a finding about something that could not be checked.
func (all *findings) unexamined(area, subject, format string, args ...any) *Finding {
	f := all.add(NotExamined, subject, format, args...)
	f.Area = area
	return f
}

// confirmed returns a node through whose member a quorum has just answered, nil if there is none. That proves a quorum,
// no matter which node leads and what the gossip says of the others.
func (s judged) confirmed() *NodeStatus {
	return s.informed(func(n NodeStatus) bool { return n.Etcd.Confirmed && n.Etcd.HasLead && n.Stall == nil })
}

// longElection is how many seconds a running majority may be without a leader before that counts as more than an
// election. With the defaults one attempt takes 1 to 2 s.
const longElection = 10.0

// quorum reports whether there is a quorum, by what raft tells the members.
func (s judged) quorum(out *findings) {
	var claims []string
	for _, n := range s.Nodes {
		if !n.Reached || n.Etcd == nil || !n.Etcd.Leader || !n.Etcd.HasLead || s.leader != nil && n.Node == s.leader.Node {
			continue
		}
		answered := "no read through it is answered"
		if n.Etcd.Confirmed {
			answered = "the last read through it was answered some seconds ago"
		}
		claims = append(claims, fmt.Sprintf("%s claims to lead at term %d, but %s", n.Node, n.Etcd.Term, answered))
	}
	said := strings.Join(claims, "; ")
	switch {
	case s.leader != nil && said != "":
		out.add(LeaderDisputed, s.leader.Node,
			"%d nodes claim to lead: %s does, at term %d, because a read through it was just answered; %s", len(claims)+1,
			s.leader.Node, s.leader.Etcd.Term, said)
		return
	case s.leader != nil || s.confirmed() != nil:
		return
	}
	var running, away, kept []string
	electing := false
	for _, slot := range s.slots {
		n := s.holder(slot)
		if s.elsewhere(slot) {
			running = append(running, slot)
			continue
		}
		if n == nil || !n.Reached || n.Etcd == nil {
			away = append(away, slot)
			if n != nil && n.Reached && n.State != "joining" && (n.State != "founding" || n.Record != nil) { // not blank
				kept = append(kept, n.Node)
			}
			continue
		}
		running = append(running, slot)
		electing = electing || n.Stall == nil && n.Etcd.Leaderless != nil && *n.Etcd.Leaderless < longElection
	}
	lost := func(format string, args ...any) {
		f := out.add(QuorumLost, "", format, args...)
		switch {
		case len(running) > len(s.slots)/2: // nothing is lost that a leader needs
			f.then("No recovery is needed while %s run%s: open the peer port between their nodes, and look for a disk that "+
				"hangs.", strings.Join(running, ", "), s.severed())
		case kept != nil:
			f.then("Mend what keeps %s: the findings about that, or `holdfast status --why`, name it.",
				strings.Join(kept, " and "))
		}
	}
	switch {
	case electing && len(running) > len(s.slots)/2:
		out.add(Electing, "", "the members of %s are electing a leader", strings.Join(running, ", "))
	case s.begins() && len(away) > 0:
		out.unexamined(areaQuorum, "", "%s has just started, and has not yet heard of a leader or of who runs %s", s.Asked,
			strings.Join(away, ", ")).then("Ask again in some seconds.")
	case said != "":
		lost("no leader can be relied on: %s", said)
	case len(running) == 0:
		lost("no member of the slots %s runs", strings.Join(s.slots, ", "))
	case len(away) == 0:
		lost("all members (%s) run, and none has a leader", strings.Join(running, ", "))
	default:
		lost("%d of %d members run (%s), and none has a leader; missing: %s", len(running), len(s.slots),
			strings.Join(running, ", "), strings.Join(away, ", "))
	}
}

// severed names the running members that raft does not connect, in brackets; "" if none are known.
func (s judged) severed() string {
	var apart []string
	for _, n := range s.Nodes {
		for _, to := range s.Nodes {
			c, other := n.Checkup, to.Checkup
			if !n.Reached || !to.Reached || c == nil || other == nil || c.Member == 0 || other.Member == 0 ||
				c.Member == other.Member || slices.Contains(c.Near, other.Member) {
				continue
			}
			apart = append(apart, fmt.Sprintf("%s does not reach %s", n.Node, to.Node))
		}
	}
	if apart == nil {
		return ""
	}
	return " (" + strings.Join(apart, ", ") + ")"
}

// begins reports whether the asked node has just started. A node of which it has not heard may still be there.
func (s *ClusterStatus) begins() bool {
	self := s.Self()
	return self != nil && self.Early
}

// contradictions reports statements of nodes that cannot all be true of one cluster.
func (s judged) contradictions(out *findings) {
	holders := map[string][]string{}
	for i, n := range s.Nodes {
		if n.Live && n.Volume != nil {
			holders[n.Volume.Slot] = append(holders[n.Volume.Slot], n.Node)
		}
		for _, m := range s.Nodes[:i] {
			if a, b := m.Record, n.Record; a != nil && b != nil && a.Generation == b.Generation && a.ID != b.ID {
				out.add(TwoClusters, "", "two clusters claim the name %q: %s (%s) and %s (%s)", s.Cluster, a.Token(), m.Node,
					b.Token(), n.Node)
			}
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(holders)) {
		if nodes := holders[slot]; len(nodes) > 1 {
			out.add(SlotTwice, "slot "+slot, "slot %s is held by %s", slot, strings.Join(nodes, " and by "))
		}
	}
}

// missing reports that a node is missing.
func (s judged) missing(out *findings, n NodeStatus) {
	switch {
	case n.Live && !n.Reached:
		out.add(NodeSilent, n.Node, "%s is in the gossip but does not answer", n.Node)
	case !n.Live && n.Blocks != "":
		out.add(LostBlocks, n.Node, "%s is lost: %s", n.Node, n.Blocks)
	case !n.Live && n.Volume != nil && s.elsewhere(n.Volume.Slot): // reported with the slot
	case !n.Live && n.Volume != nil && !slices.Contains(s.slots, n.Volume.Slot): // the cluster has given this slot up
	case !n.Live && n.Volume != nil && s.holder(n.Volume.Slot) == nil:
		f := out.add(NodeLost, n.Node, "%s, which holds slot %s, has not been heard of since %s", n.Node, n.Volume.Slot,
			n.Since.UTC().Format(timeFormat))
		if s.confirmed() == nil {
			f.then("Start it again, or give its volume to another machine.")
		}
	}
}

// holder returns the live node that holds a slot, preferably one that answers; nil if there is none.
func (s judged) holder(slot string) (found *NodeStatus) {
	for i, n := range s.Nodes {
		if n.Live && n.Volume != nil && n.Volume.Slot == slot && (found == nil || n.Reached && !found.Reached) {
			found = &s.Nodes[i]
		}
	}
	return found
}

// connected reports whether a member with a quorum is connected to that of a slot; no member is connected to itself. If
// no node leads, the followers' connections count, because the leader may be the very member that no node is seen to
// run.
func (s judged) connected(slot string) bool {
	return slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool {
		c := n.Checkup
		return n.Reached && n.Etcd != nil && n.Etcd.Confirmed && c != nil &&
			slices.ContainsFunc(c.Members, func(m plan.MemberInfo) bool {
				return m.Slot == slot && !m.Learner && (m.Connected || s.leader == nil && slices.Contains(c.Near, m.ID))
			})
	})
}

// judgeSlots reports the slots that are not served properly.
func (s judged) judgeSlots(out *findings) {
	var learners []string
	if s.leader != nil {
		learners = s.leader.Etcd.Learners
	}
	for _, slot := range s.slots {
		n, subject := s.holder(slot), "slot "+slot
		switch {
		case s.isReleased(slot):
			s.judgeReleased(out, slot)
		case s.isForeign(slot):
			s.judgeForeign(out, slot)
		case (n == nil || !n.Reached) && s.connected(slot):
			who := "no known node"
			if n != nil {
				who = n.Node + ", which does not answer,"
			}
			out.add(SlotUnseen, subject,
				"slot %s: raft is connected to its member, and according to the gossip %s holds it", slot, who)
		case n == nil && s.begins() && s.confirmed() == nil: // the quorum is not known either
		case n == nil:
			f := out.add(SlotDown, subject, "slot %s has no live holder%s", slot, s.lastHeard(slot))
			if s.confirmed() == nil {
				f.then("Start its node, with its disk: without a quorum, a blank disk cannot be filled.")
			}
		case n.Stall != nil: // its own finding explains it
			out.add(SlotDown, subject, "slot %s is stalled on %s", slot, n.Node).
				then("See the finding about the member of %s.", n.Node)
		case !n.serves():
			f := out.add(SlotDown, subject, "slot %s is %s on %s: %s", slot, n.State, n.Node, n.Why).
				then("`holdfast status --why` says what %s waits for.", n.Node)
			if e := n.Etcd; e != nil && e.Leaderless != nil && s.confirmed() != nil {
				f.then("The other members have a leader. Mend what findings about certificates name; if there are none, open the "+
					"peer port between the nodes%s.", s.severed())
			}
		case slices.Contains(learners, slot): // the node itself may not know it yet
			out.add(SlotLearner, subject, "slot %s on %s has no vote yet: according to the leader it is a learner", slot,
				n.Node)
		}
	}
}

// lastHeard says since when a slot's last holder has been lost, if that is known.
func (s judged) lastHeard(slot string) string {
	n := s.first(func(n NodeStatus) bool { return !n.Live && n.Volume != nil && n.Volume.Slot == slot })
	if n == nil {
		return ""
	}
	return fmt.Sprintf(" (%s, which did, has not been heard of since %s)", n.Node, n.Since.UTC().Format(timeFormat))
}
