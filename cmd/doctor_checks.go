package cmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/coordinator"
)

// check is one thing that the doctor looks at. Each says something, also where all is well.
type check struct {
	name  string
	alone bool // it needs no running node
	judge func(evidence) []finding
}

var checks = []check{
	{"nodes", false, checkNodes},
	{"members", false, checkMembers},
	{"alarms", false, checkAlarms},
	{"kubernetes endpoints", false, checkEndpoints},
	{"kubernetes events", false, checkEvents},
	{"versions", false, checkVersions},
	{"clocks", false, checkClocks},
	{"disk speed", false, checkDisks},
	{"disk space", false, checkRoom},
	{"databases", false, checkDatabases},
	{"certificates and keys", true, checkFiles},
	{"backups", true, checkBackups},
	{"backup schedule", false, checkSchedule},
	{"restore", false, checkRestore},
	{"held up", false, checkHeld},
	{"problems", false, checkProblems},
}

// diagnose judges the evidence.
func diagnose(e evidence) report {
	r := report{Cluster: e.Status.Cluster, Asked: e.Status.Asked, Time: e.Now}
	for _, c := range checks {
		found := []finding{{Grade: unknown, Means: "No node was asked: " + e.Offline, Do: "Start holdfast here, or run `holdfast doctor` on a machine where it runs."}}
		if e.Offline == "" || c.alone {
			found = c.judge(e)
		}
		for _, f := range found {
			f.Check = c.name
			r.Findings = append(r.Findings, f)
		}
	}
	return r
}

// per looks at each node with judge, which says whether it could. Without anything wrong the finding is that all is
// well, or unknown where no node could be looked at.
func (e evidence) per(judge func(examined) (found []finding, looked bool), fine string) []finding {
	var out []finding
	count := 0
	for _, n := range e.Nodes {
		found, looked := judge(n)
		if looked {
			count++
		}
		for _, f := range found {
			f.About = cmp.Or(f.About, n.Status.Node)
			out = append(out, f)
		}
	}
	switch {
	case len(out) > 0:
		return out
	case count == 0:
		return []finding{{Grade: unknown, Means: "No node has told.", Do: "See what the check of the nodes says."}}
	}
	return []finding{{Grade: well, Means: fmt.Sprintf("%s (looked at %d nodes).", fine, count)}}
}

// checkNodes says of whom nothing is known. A lost node whose slot another one holds by now is not missed.
func checkNodes(e evidence) []finding {
	return e.per(func(n examined) ([]finding, bool) {
		s := n.Status
		switch {
		case n.Checkup != nil:
			return nil, true
		case !s.Live && (s.Volume == nil || e.holder(s.Volume.Slot) != nil):
			return nil, false
		case !s.Live:
			return []finding{{Grade: warned, Means: fmt.Sprintf("It holds slot %s and was not heard of since %s, so nothing of it was looked at.", s.Volume.Slot, s.Since.UTC().Format(time.RFC3339)),
				Do: "Start it again, or give its volume to another machine; a blank disk for this slot is filled by the others."}}, false
		}
		return []finding{{Grade: unknown, Means: "It is in the gossip and did not answer, so nothing of it was looked at: " + n.Err,
			Do: "Look at its log; a node of an older version does not know the question, and is to be upgraded."}}, false
	}, "All answer")
}

// holder returns the live node that holds a slot, nil for none.
func (e evidence) holder(slot string) *examined {
	for i, n := range e.Nodes {
		if n.Status.Live && n.Status.Volume != nil && n.Status.Volume.Slot == slot {
			return &e.Nodes[i]
		}
	}
	return nil
}

// leader returns the checkup of the node that leads, nil if none does or it did not answer.
func (e evidence) leader() *checkup {
	for _, n := range e.Nodes {
		if n.Checkup != nil && n.Checkup.Leader {
			return n.Checkup
		}
	}
	return nil
}

// slots are those that the cluster has agreed on, nil where that is not known.
func (e evidence) slots() []string {
	if e.Status.Record == nil {
		return nil
	}
	return e.Status.Slots()
}

const alarmSpace, alarmCorrupt = "NOSPACE", "CORRUPT"

func checkAlarms(e evidence) []finding {
	alarms := map[string][]string{} // the alarm of a member: nodes that know of it
	var order []string
	curing := false
	looked := 0
	for _, n := range e.Nodes {
		if n.Status.Etcd == nil {
			continue
		}
		looked++
		for _, a := range n.Status.Etcd.Alarms {
			if alarms[a] == nil {
				order = append(order, a)
			}
			alarms[a] = append(alarms[a], n.Status.Node)
		}
		curing = curing || n.Checkup != nil && n.Checkup.Leader && n.Checkup.Cures
	}
	var out []finding
	for _, a := range order {
		f := finding{About: a, Grade: bad, Means: "etcd has raised an alarm that is unknown to holdfast.", Do: "See etcd's own documentation."}
		switch {
		case strings.HasPrefix(a, alarmSpace) && curing:
			f.Means = "A database has reached its quota, and etcd refuses every write of every client until the alarm is taken back."
			f.Do = "Nothing, if it is history that takes the room: the leader is curing it (`holdfast status --why`). If it is live data, delete keys or raise etcd.quota-backend-bytes on all nodes."
		case strings.HasPrefix(a, alarmSpace):
			f.Means = "A database has reached its quota, and etcd refuses every write of every client until the alarm is taken back."
			f.Do = "Switch upkeep.cure-nospace on, on all nodes; it compacts, defragments and takes the alarm back (docs/upkeep.md)."
		case strings.HasPrefix(a, alarmCorrupt):
			f.Means = "The data of this member differs from the others', and etcd refuses writes and linearizable reads so that nobody builds on it."
			f.Do = "Replace that member's data, and no other's, as docs/upkeep.md says; do not disarm the alarm before."
		}
		out = append(out, f)
	}
	switch {
	case looked == 0:
		return []finding{{Grade: unknown, Means: "No node runs a member that could tell.", Do: "See what the check of the nodes says."}}
	case len(out) == 0:
		return []finding{{Grade: well, Means: "No member has raised any."}}
	}
	return out
}

func checkEndpoints(e evidence) []finding {
	if e.Endpoints.Err != "" {
		return []finding{{Grade: unknown, Means: e.Endpoints.Err, Do: "Run it on a node whose member serves."}}
	}
	var out []finding
	for _, k := range e.Endpoints.Keys {
		name := strings.TrimPrefix(k.Key, endpointsPrefix)
		why := "bound to no lease"
		if k.Lease != 0 {
			why = fmt.Sprintf("bound to lease %x, which is gone", k.Lease)
		}
		f := finding{About: name, Grade: bad, Means: fmt.Sprintf("%s is %s, so Kubernetes sends clients to the API server at %s for ever, also when it is gone (kubernetes#86812).", k.Key, why, name),
			Do: "`holdfast doctor --fix` deletes it; an API server that lives writes its own anew within seconds."}
		f.Fix = &repair{ID: fmt.Sprintf("delete %s at revision %d", k.Key, k.Revision), key: k.Key, revision: k.Revision,
			Question: fmt.Sprintf("delete the stale endpoint %s (key %s, %s, written at revision %d)?", name, k.Key, why, k.Revision)}
		out = append(out, f)
	}
	switch {
	case len(out) > 0:
	case e.Endpoints.Total == 0:
		return []finding{{Grade: well, Means: fmt.Sprintf("There are no keys below %s.", endpointsPrefix)}}
	case e.Endpoints.Read < e.Endpoints.Total:
		out = append(out, finding{Grade: unknown, Means: fmt.Sprintf("Only %d of %d keys below %s were looked at, which are far more than there are API servers.", e.Endpoints.Read, e.Endpoints.Total, endpointsPrefix), Do: "Look at them with etcdctl."})
	default:
		out = append(out, finding{Grade: well, Means: fmt.Sprintf("All %d API servers' keys are bound to living leases.", e.Endpoints.Total)})
	}
	return out
}

// checkEvents only counts: events are many and of no consequence, and Kubernetes lets them expire.
func checkEvents(e evidence) []finding {
	u := e.Events
	switch {
	case u.Err != "":
		return []finding{{Grade: unknown, Means: u.Err, Do: "Run it on a node whose member serves."}}
	case len(u.Keys) > 0:
		return []finding{{Grade: warned, Means: fmt.Sprintf("Of the first %d of %d events %d are bound to no living lease, and will never expire.", u.Read, u.Total, len(u.Keys)), Do: "`kubectl delete events` removes them; they only take room."}}
	case u.Total == 0:
		return []finding{{Grade: well, Means: fmt.Sprintf("There are no keys below %s.", eventsPrefix)}}
	}
	return []finding{{Grade: well, Means: fmt.Sprintf("The first %d of %d events all expire by a lease.", u.Read, u.Total)}}
}

func checkVersions(e evidence) []finding {
	ours, etcds, agreed := map[string][]string{}, map[string][]string{}, map[string][]string{}
	lowest, downgrade := "", ""
	for _, n := range e.Nodes {
		if s := n.Status; s.Reached && s.Version != "" {
			ours[s.Version] = append(ours[s.Version], s.Node)
		}
		if m := n.Status.Etcd; m != nil && m.Version != "" {
			v := minorOf(m.Version)
			etcds[v], downgrade = append(etcds[v], n.Status.Node), cmp.Or(downgrade, m.Downgrade)
			if lowest == "" || olderMinor(v, lowest) {
				lowest = v
			}
			if m.ClusterVersion != "" {
				agreed[minorOf(m.ClusterVersion)] = append(agreed[minorOf(m.ClusterVersion)], n.Status.Node)
			}
		}
	}
	if len(ours) == 0 {
		return []finding{{Grade: unknown, Means: "No node has told which version it is.", Do: "See what the check of the nodes says."}}
	}
	var out []finding
	if len(etcds) > 1 {
		out = append(out, finding{Grade: warned, Means: fmt.Sprintf("Members run different minors of etcd (%s), which is meant for the time of an upgrade only.", listText(etcds)), Do: "Finish the upgrade."})
	}
	if len(ours) > 1 {
		out = append(out, finding{Grade: warned, Means: fmt.Sprintf("The nodes run different versions of holdfast (%s).", listText(ours)), Do: "Finish the upgrade."})
	}
	if downgrade != "" {
		out = append(out, finding{Grade: warned, Means: fmt.Sprintf("The cluster is being downgraded to etcd %s.", downgrade), Do: "Go on with it as docs/upgrade.md says, or `holdfast downgrade --cancel`."})
	}
	for v, nodes := range agreed {
		if olderMinor(v, lowest) && downgrade == "" {
			out = append(out, finding{Grade: warned, Means: fmt.Sprintf("The cluster works as etcd %s, although all members are %s or newer, as %s says.", v, lowest, strings.Join(nodes, ", ")),
				Do: "Wait a minute after an upgrade; if it stays so, look at the leader's log."})
		}
	}
	if len(out) == 0 {
		return []finding{{Grade: well, Means: fmt.Sprintf("All run holdfast %s with etcd %s.", listText(ours), listText(etcds))}}
	}
	return out
}

// minorOf is 3.7 of 3.7.3.
func minorOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// olderMinor compares versions like 3.9 and 3.10.
func olderMinor(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

// listText is "3.6 on n1, n2; 3.7 on n3", or the only one without the nodes.
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

// checkProblems lists what the nodes themselves complain of, and where they contradict each other.
func checkProblems(e evidence) []finding {
	var out []finding
	for _, c := range e.Status.Contradictions() {
		out = append(out, finding{Grade: bad, Means: c, Do: "Find out which of them is right, and end the other: `holdfast status` shows both."})
	}
	complaints := e.complaints()
	if len(out) > 0 && !slices.ContainsFunc(complaints, func(f finding) bool { return f.Grade != well }) {
		return out
	}
	return append(out, complaints...)
}

func (e evidence) complaints() []finding {
	return e.per(func(n examined) (out []finding, looked bool) {
		if n.Checkup == nil {
			return nil, false
		}
		for _, p := range n.Checkup.Problems {
			out = append(out, finding{Grade: warned, Means: p, Do: "The text says what is in the way; `holdfast status --why` shows it with what the node does."})
		}
		if n.Status.Error != "" {
			out = append(out, finding{Grade: warned, Means: "The last attempt failed: " + n.Status.Error, Do: "It is tried again by itself; `holdfast history` shows since when it fails."})
		}
		return out, true
	}, "No node complains of its gossip, names, volumes or configuration")
}

// checkRestore tells of a restore that nobody has ended.
func checkRestore(e evidence) []finding {
	return e.per(func(n examined) ([]finding, bool) {
		if r := n.Status.Restore; r != nil {
			return []finding{restoreFinding(*r)}, true
		}
		return nil, n.Status.Reached
	}, "None is open")
}

func restoreFinding(r coordinator.RestoreStatus) finding {
	f := finding{Grade: warned, Means: fmt.Sprintf("The restore of %s, asked for by %s, is %s, and meanwhile nobody mends the members.", r.Backup, r.By, r.State),
		Do: "Follow it with `holdfast status`; if nobody wants it any more, `holdfast restore --abort`."}
	if r.Error != "" {
		f.Grade, f.Means = bad, f.Means+" It cannot be prepared: "+r.Error
	}
	return f
}
