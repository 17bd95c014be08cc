package cmd

import (
	"fmt"
	"slices"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// checkMembers compares etcd's member list, as the leader has it, with the cluster's slots and who holds them. It offers
// no repair: whatever can be removed without a risk the leader removes by itself, and what it leaves alone it does for a
// reason that it gives.
func checkMembers(e evidence) []finding {
	leader, slots := e.leader(), e.slots()
	switch {
	case leader == nil:
		return []finding{{Grade: bad, Means: "No node that answers leads, so the cluster has no quorum as far as can be seen, and who is connected is not known.", Do: "`holdfast status --why` says what each node waits for."}}
	case slots == nil:
		return []finding{{Grade: unknown, Means: "No node has told which slots the cluster has.", Do: "See what the check of the nodes says."}}
	}
	var out []finding
	voters, connected := 0, 0
	for _, m := range leader.Members {
		here := m.Connected || m.ID == leader.Member
		if !m.Learner {
			voters++
			if here {
				connected++
			}
		}
		if f, wrong := e.member(*leader, m, slots); wrong && m.ID != leader.Member {
			f.About = fmt.Sprintf("%x, %s", m.ID, nameOf(m, leader.Names[m.ID]))
			out = append(out, f)
		}
	}
	for _, slot := range slots {
		if !slices.ContainsFunc(leader.Members, func(m plan.MemberInfo) bool { return m.Slot == slot }) {
			out = append(out, finding{About: "slot " + slot, Grade: warned, Means: "The slot has no member, so the cluster survives fewer losses than it should.", Do: "Start a node for it; `holdfast status --why` says what holds a node back that is there."})
		}
	}
	if connected < voters {
		out = append(out, finding{Grade: warned, Means: fmt.Sprintf("%d of %d voters are connected, and %d are needed for a quorum.", connected, voters, voters/2+1), Do: "Bring back those that are missing before another one goes."})
	}
	if len(out) == 0 {
		return []finding{{Grade: well, Means: fmt.Sprintf("All %d members have a slot, have started and are connected.", len(leader.Members))}}
	}
	return out
}

func nameOf(m plan.MemberInfo, name string) string {
	switch {
	case m.Slot != "" && name != "" && name != m.Slot:
		return fmt.Sprintf("slot %s, named %s", m.Slot, name)
	case m.Slot != "":
		return "slot " + m.Slot
	case name != "":
		return "named " + name
	}
	return "without a name"
}

// member judges an entry of the member list.
func (e evidence) member(leader checkup, m plan.MemberInfo, slots []string) (finding, bool) {
	wait := fmt.Sprintf("The leader (%s) removes it by itself as soon as that is safe; `holdfast status --why` says what holds it back.", leader.Node)
	if p := e.Status.Paused; p != nil {
		wait = fmt.Sprintf("The leader (%s) would remove it, but the cluster is paused by %s: `holdfast resume`.", leader.Node, p.By)
	}
	h := e.holder(m.Slot)
	switch ours := slices.Contains(slots, m.Slot); {
	case !ours && m.Connected:
		return finding{Grade: warned, Means: "This member belongs to no slot of the cluster, and yet it is connected and counts.", Do: wait}, true
	case !ours:
		return finding{Grade: bad, Means: "This member belongs to no slot of the cluster and is not there: a zombie, which only makes a quorum harder to reach.", Do: wait}, true
	case m.Connected && m.Started:
		return finding{}, false
	case m.Connected:
		return finding{Grade: warned, Means: "This member is connected and has not published its name yet.", Do: "Wait a moment; if it stays so, look at its node's log."}, true
	case h == nil:
		return finding{Grade: bad, Means: fmt.Sprintf("This member %s, and no live node holds its slot%s.", everStarted(m), e.lastHeard(m.Slot)),
			Do: "Start its node, or give the slot to another machine: a blank disk there is filled by the others, and this member removed."}, true
	case h.Status.State == "drained": // checkHeld tells
		return finding{}, false
	}
	return finding{Grade: bad, Means: fmt.Sprintf("This member %s and is not connected to the leader, though %s holds its slot: %s", everStarted(m), h.Status.Node, h.Status.Why),
		Do: fmt.Sprintf("`holdfast status --why`, and the log of %s.", h.Status.Node)}, true
}

func everStarted(m plan.MemberInfo) string {
	if m.Started {
		return "has run before"
	}
	return "was added and has never started"
}

// lastHeard says since when a slot's last holder is lost, where that is known.
func (e evidence) lastHeard(slot string) string {
	i := slices.IndexFunc(e.Nodes, func(n examined) bool {
		return !n.Status.Live && n.Status.Volume != nil && n.Status.Volume.Slot == slot
	})
	if i < 0 {
		return ""
	}
	s := e.Nodes[i].Status
	return fmt.Sprintf(" (%s, which did, was not heard of since %s)", s.Node, s.Since.UTC().Format(time.RFC3339))
}

const (
	longPause = 24 * time.Hour
	longLock  = time.Hour
	longJoin  = 10 * time.Minute // that a learner may take without a word
)

// checkHeld lists what operators have switched off for a while, and what takes longer than it should.
func checkHeld(e evidence) []finding {
	var out []finding
	s := e.Status
	if p := s.Paused; p != nil && e.Now.Sub(p.Since) > longPause {
		out = append(out, finding{Grade: warned, Means: fmt.Sprintf("The cluster is %s, and so long nobody mends it.", pauseText(*p, e.Now)), Do: "`holdfast resume`."})
	}
	if l := s.Lock; l != nil && e.Now.Sub(l.Since) > longLock {
		out = append(out, finding{Grade: warned, Means: fmt.Sprintf("%s, for %s, and no other member can be taken down meanwhile.", l, age(e.Now, l.Since)), Do: fmt.Sprintf("End the %s on %s.", l.Purpose, l.Node)})
	}
	looked := 0
	for _, n := range s.Nodes {
		if !n.Reached {
			continue
		}
		looked++
		if f, found := heldNode(n, e.Now); found {
			f.About = n.Node
			out = append(out, f)
		}
	}
	switch {
	case len(out) > 0:
		return out
	case looked == 0:
		return []finding{{Grade: unknown, Means: "No node has told.", Do: "See what the check of the nodes says."}}
	}
	return []finding{{Grade: well, Means: "No node is drained, no learner takes long to join, and neither a pause nor the disruption lock lasts for long."}}
}

func heldNode(n coordinator.NodeStatus, now time.Time) (finding, bool) {
	switch {
	case n.State == "drained":
		return finding{Grade: warned, Means: fmt.Sprintf("An operator has drained it %s ago, and the cluster does without its member.", age(now, n.Since)), Do: fmt.Sprintf("`holdfast undrain` on %s.", n.Node)}, true
	case n.State == "learner" && now.Sub(n.Since) > longJoin:
		return finding{Grade: warned, Means: fmt.Sprintf("Its member has been a learner for %s, and does not get in sync with the leader.", age(now, n.Since)),
			Do: "Look at the disk and the network between it and the leader; a learner counts for no quorum."}, true
	}
	return finding{}, false
}
