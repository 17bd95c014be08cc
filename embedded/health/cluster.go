package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/plan"
)

// judgeMembers compares the leader's member list with the cluster's slots. It offers no repair. The leader itself
// removes what can be removed without risk, and says why it leaves the rest alone.
func (s judged) judgeMembers(out *findings) {
	leader := s.first(func(n NodeStatus) bool { return n.Checkup != nil && n.leads() && n.Stall == nil })
	if leader == nil || s.Record == nil {
		return
	}
	voters, connected := len(plan.Voters(leader.Checkup.Members)), 0
	for _, m := range leader.Checkup.Members {
		self := m.ID == leader.Checkup.Member
		connected += boolCount(!m.Learner && (m.Connected || self))
		if !self {
			s.judgeMember(out, *leader, m)
		}
	}
	for _, slot := range s.slots {
		if !slices.ContainsFunc(leader.Checkup.Members, func(m plan.MemberInfo) bool { return m.Slot == slot }) {
			out.add(MemberMissing, "slot "+slot,
				"slot %s has no member, so the cluster survives fewer losses than it should", slot)
		}
	}
	if connected < voters {
		out.add(MemberCutOff, "", "%d of %d voters are connected, and %d are needed for a quorum", connected, voters,
			voters/2+1)
	}
}

// judgeMember judges an entry of the member list. judgeSlots judges the slot itself.
func (s judged) judgeMember(out *findings, leader NodeStatus, m plan.MemberInfo) {
	subject := fmt.Sprintf("%x, %s", m.ID, nameOf(m, leader.Checkup.Names[m.ID]))
	wait := fmt.Sprintf("The leader (%s) removes it as soon as that is safe; `holdfast status --why` says what "+
		"holds it back.", leader.Node)
	if p := s.Paused; p != nil {
		wait = fmt.Sprintf("The leader (%s) would remove it, but the cluster is paused by %s: `holdfast resume`.",
			leader.Node, p.By)
	}
	h := s.holder(m.Slot)
	switch ours := slices.Contains(s.slots, m.Slot); {
	case !ours && m.Connected:
		out.add(MemberStale, subject, "this member belongs to no slot of the cluster, but it is connected and counts").
			then("%s", wait)
	case !ours:
		out.add(MemberStale, subject,
			"this member belongs to no slot of the cluster and is not connected: it only makes a quorum harder to reach").
			then("%s", wait)
	case m.Connected && !m.Started:
		out.add(MemberUnnamed, subject, "this member is connected and has not published its name yet")
	case !m.Connected && h == nil && !m.Started:
		out.add(MemberCutOff, subject, "this member was added and has never started")
	case !m.Connected && h != nil && h.serves():
		at := ""
		if m.PeerURL != "" { // a client may have changed it
			at = ", and the others dial it at " + m.PeerURL
		}
		out.add(MemberCutOff, subject, "this member is not connected to the leader, though %s serves its slot%s", h.Node, at).
			then("See the log of %s, and whether that peer URL is its own: `holdfast etcdctl member update` changes it.", h.Node)
	}
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

func (s judged) judgeAlarms(out *findings) {
	var alarms []plan.Alarm
	var short []string // nodes whose volume is short of space
	var leader *Checkup
	for _, n := range s.Nodes {
		if n.Reached && n.Etcd != nil {
			for _, a := range n.Etcd.Alarms {
				if !slices.Contains(alarms, a) {
					alarms = append(alarms, a)
				}
			}
			if n.Checkup != nil && n.Checkup.Leader {
				leader = n.Checkup
			}
			if c := n.Checkup; c != nil && c.Room != nil && c.Room.Short {
				short = append(short, n.Node)
			}
		}
	}
	for _, a := range alarms {
		switch a.Name {
		case plan.NoSpace:
			f := out.add(AlarmNoSpace, a.String(),
				"alarm %s: etcd refuses every put of every client until it is disarmed; it serves reads and deletes", a)
			off := leader != nil && !leader.Cures
			switch on := strings.Join(short, ", "); {
			case len(short) > 0 && off:
				f.then("Make room on the volume of %s, or make it larger, then run `holdfast etcdctl alarm disarm`: "+
					"upkeep.cure-nospace is off.", on)
			case len(short) > 0:
				f.then("Make room on the volume of %s, or make it larger: then the leader disarms the alarm.", on)
			case off:
				f.then("Switch upkeep.cure-nospace on, on all nodes: it compacts, defragments and disarms the alarm " +
					"(docs/upkeep.md).")
			case s.Paused != nil && !s.Paused.Return:
				f.then("`holdfast resume`: nothing is cured while the cluster is paused.")
			case leader != nil:
				f.then("If history takes the room, nothing: the leader cures it (`holdfast status --why` says what that waits " +
					"for). If live data does, delete keys or raise etcd.quota-backend-bytes on all nodes.")
			}
		case plan.Corrupt:
			what := "etcd says that the data of this member differs from the others'"
			if a.Member == 0 {
				what = "the members' data differs, and etcd could not tell whose is right"
			}
			out.add(AlarmCorrupt, a.String(), "alarm %s: %s; it refuses writes and linearizable reads", a, what)
		default:
			out.add(AlarmUnknown, a.String(), "alarm %s, which is unknown to holdfast", a)
		}
	}
}

func (s judged) judgeVersions(out *findings) {
	ours, etcds, agreed := map[string][]string{}, map[string][]string{}, map[plan.Minor][]string{}
	lowest := plan.Minor{}
	for _, n := range s.Nodes {
		if n.Reached && n.Version != "" {
			ours[n.Version] = append(ours[n.Version], n.Node)
		}
		if m := n.Etcd; m != nil && m.Version != "" {
			v, _ := plan.MinorOf(m.Version)
			etcds[v.String()] = append(etcds[v.String()], n.Node)
			if lowest == (plan.Minor{}) || v.Older(lowest) {
				lowest = v
			}
			if at, known := plan.MinorOf(m.ClusterVersion); known {
				agreed[at] = append(agreed[at], n.Node)
			}
		}
	}
	if len(etcds) > 1 {
		out.add(VersionsDiffer, "",
			"members run different minors of etcd (%s), which is only meant for an upgrade", listText(etcds))
	}
	if len(ours) > 1 {
		out.add(VersionsDiffer, "", "the nodes run different versions of holdfast (%s)", listText(ours))
	}
	downgrade := s.judgeDowngrade(out)
	unheard := func(slot string) bool { n := s.holder(slot); return n == nil || n.Etcd == nil }
	if slices.ContainsFunc(s.slots, unheard) { // etcd raises it only when it has heard of every member
		return
	}
	for v, nodes := range agreed {
		if v.Older(lowest) && downgrade == "" {
			out.add(ClusterVersion, "",
				"the cluster version is %s, although all members run etcd %s or newer, according to %s", v, lowest,
				strings.Join(nodes, ", "))
		}
	}
}

// judgeDowngrade reports that a downgrade is under way, and returns the version of etcd to which it leads, or "".
func (s judged) judgeDowngrade(out *findings) (to string) {
	for _, n := range s.Nodes {
		if n.Etcd != nil {
			to = cmp.Or(to, n.Etcd.Downgrade)
		}
	}
	if to != "" {
		out.add(DowngradeOpen, "", "the cluster is being downgraded to etcd %s", to)
	}
	return to
}

// listText returns "3.6 on n1, n2; 3.7 on n3", or only the version if there is just one.
func listText(by map[string][]string) string {
	var parts []string
	for v, nodes := range by {
		if len(by) == 1 {
			return v
		}
		parts = append(parts, fmt.Sprintf("%s on %s", v, strings.Join(nodes, ", ")))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// apart is how far clocks may differ. etcd itself warns about peers beyond a second (rafthttp, probing_status.go).
const apart, farApart = time.Second, time.Minute

// judgeClocks compares each node's clock with that of the node that asked, allowing for the time that the question
// took. etcd needs no correct clock. Names of backups, the expiry of certificates, and readers of logs do.
func (s judged) judgeClocks(out *findings) {
	for _, n := range s.Nodes {
		if n.Checkup == nil || n.Asked.IsZero() {
			continue
		}
		// Round strips the monotonic clock, which the other time lacks.
		lo, hi := n.Checkup.Time.Round(0).Sub(n.Answered.Round(0)), n.Checkup.Time.Round(0).Sub(n.Asked.Round(0))
		least, which := lo, "ahead of"
		if hi < -apart {
			least, which = -hi, "behind"
		}
		if lo > apart || hi < -apart {
			f := out.add(ClockApart, n.Node, "the clock of %s is at least %s %s that of %s: backups are named and kept "+
				"by time, and certificates expire by it", n.Node, least.Round(time.Millisecond), which, s.Asked)
			if least > farApart {
				f.Severity = Degrading
			}
		}
	}
}

// judgeSchedule reports that no node is known to make backups. Problems of the node that does are reported with that
// node.
func (s judged) judgeSchedule(out *findings) {
	keeps, leads := false, false
	for _, n := range s.Nodes {
		if b := n.Backup; n.Reached && b != nil {
			keeps, leads = true, leads || b.Leading
		}
	}
	if !keeps || leads || s.Leader == "" {
		return
	}
	out.add(BackupUnknown, "", "the leader makes the scheduled backups, and no node reports that it does")
}

const (
	longPause = 24 * time.Hour
	longLock  = time.Hour
)

// judgeOperator reports what operators have switched off.
func (s judged) judgeOperator(out *findings) {
	if p := s.Paused; p != nil {
		f := out.add(Paused, "", "the cluster is paused %s", PauseText(*p, s.now))
		if s.now.Sub(p.Since) > longPause {
			f.as(Warning)
		}
	}
	if l := s.Lock; l != nil && s.now.Sub(l.Since) > longLock {
		out.add(LockLong, l.Node, "%s, for %s, and no other member can be taken down meanwhile", l, Age(s.now, l.Since)).
			then("End the %s on %s.", l.Purpose, l.Node)
	}
}

// PauseText says who has paused the cluster, since when and why.
func PauseText(p plan.Pause, now time.Time) string {
	text := fmt.Sprintf("by %s, since %s (%s ago)", p.By, p.Since.UTC().Format(timeFormat), Age(now, p.Since))
	if p.Why != "" {
		text += ": " + p.Why
	}
	return text + "; `holdfast resume` ends it"
}

// judge reports what is wrong with the content of a store. elsewhere names other nodes' backups in other stores.
// doubted says that one of the damaged backups has a finding already; so has the newest one if it is bad.
func (h *Holdings) judge(out *findings, elsewhere string, doubted bool) {
	if h.Err != "" {
		out.unexamined(areaBackups, "", "the store cannot be read: %s", h.Err).
			then("`holdfast snapshot list` shows whether it can be read now; check snapshot.store and the access to it.")
		return
	}
	switch {
	case h.Good == 0 && elsewhere != "":
		out.add(BackupNone, "", "the store of this node holds no verified backup of this cluster; others hold some (%s), "+
			"because the nodes do not share a store", elsewhere).as(Warning).
			then("Set snapshot.store to the same place on every node: a restore needs that.")
	case h.Good == 0:
		out.add(BackupNone, "", "there is no verified backup of this cluster in the store: if a majority of the disks is "+
			"lost, nothing can be restored from it")
	}
	if len(h.Skipped) > 0 {
		out.add(BackupBad, "", "the newest backup is bad: %s", strings.Join(h.Skipped, "; "))
	}
	if h.Broken.Count > 1 || h.Broken.Count > 0 && !doubted && len(h.Skipped) == 0 {
		out.add(BackupBroken, "", "the store holds %s that cannot be used, damaged or never verified, such as %s",
			Count(int64(h.Broken.Count), "backup"), h.Broken.Example)
	}
	if h.Unproven.Count > 0 {
		out.add(BackupUnproven, "", "the proofs of %s cannot be read, such as %s",
			Count(int64(h.Unproven.Count), "backup"), h.Unproven.Example)
	}
	if h.Foreign > 0 {
		out.add(BackupForeign, "", "the store holds %s of another cluster", Count(int64(h.Foreign), "backup"))
	}
	if h.Left > 0 {
		out.add(BackupLeft, "", "the store holds %s that began more than a day ago and never finished",
			Count(int64(h.Left), "backup"))
	}
}

func judgeEndpoints(out *findings, l *plan.Unleased) {
	for _, k := range l.Keys {
		name := strings.TrimPrefix(k.Key, l.Prefix)
		why := "bound to no lease"
		if k.Lease != 0 {
			why = fmt.Sprintf("bound to lease %x, which is gone", k.Lease)
		}
		f := out.add(EndpointStale, name,
			"%s is %s, so Kubernetes sends clients to the API server at %s even when it is gone (kubernetes#86812)", k.Key,
			why, name)
		f.Fix = &Repair{ID: fmt.Sprintf("delete %s at revision %d", k.Key, k.Revision), Key: k.Key, Revision: k.Revision,
			Question: fmt.Sprintf("delete the stale endpoint %s (key %s, %s, written at revision %d)?", name, k.Key, why,
				k.Revision)}
	}
	if len(l.Keys) == 0 && l.Read < l.Total {
		out.unexamined(areaKubernetes, "",
			"only %d of %d keys below %s were checked: there are far more than there can be API servers", l.Read, l.Total,
			l.Prefix).then("Check them with etcdctl.")
	}
}

// judgeEvents only counts. Events are many and do no harm, and Kubernetes lets them expire.
func judgeEvents(out *findings, l *plan.Unleased) {
	if len(l.Keys) > 0 {
		out.add(EventsStale, "", "of the first %d of %d events %d are bound to no living lease, and will never expire",
			l.Read, l.Total, len(l.Keys))
	}
}
