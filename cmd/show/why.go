package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// Why returns the status for an operator on call: what is wrong with the cluster, what holds it back, and for each node
// what it does, what comes next, and what stops it.
func Why(s health.ClusterStatus, now time.Time) string {
	var b strings.Builder
	writeVerdict(&b, s)
	writeFindings(&b, s.Findings, true)
	fmt.Fprintln(&b, "\nthe cluster")
	for _, line := range clusterLines(s, now) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	for _, n := range s.Nodes {
		writeWhyOf(&b, n, now)
	}
	writeRestore(&b, s, now)
	return b.String()
}

// writeVerdict prints the cluster, its health, its generation and the versions.
func writeVerdict(b *strings.Builder, s health.ClusterStatus) {
	record := "not founded"
	if r := s.Record; r != nil {
		record = fmt.Sprintf("generation %d (%s, %s)", r.Generation, r.Cause, r.ID)
	}
	fmt.Fprintf(b, "cluster %s: %s, %s\n%s\n", s.Cluster, strings.ToUpper(string(s.Health)), record, versions(s))
}

// writeFindings prints the findings, the worst first. Without whole, it leaves out those of severity info, and what to
// do.
func writeFindings(b *strings.Builder, all []health.Finding, whole bool) {
	titles := map[health.Severity]string{health.Critical: "critical", health.Degrading: "degraded",
		health.Warning: "warnings", health.Info: "to know"}
	last := health.Severity("")
	for _, f := range all {
		if f.Severity == health.Info && !whole {
			continue
		}
		if f.Severity != last {
			fmt.Fprintf(b, "\n%s\n", titles[f.Severity])
			last = f.Severity
		}
		if !whole {
			fmt.Fprintf(b, "  - %s\n", f)
			continue
		}
		fmt.Fprintf(b, "  - %s: %s\n", f.Code, f)
		if f.Do != "" {
			fmt.Fprintf(b, "    %s\n", f.Do)
		}
	}
}

// clusterLines returns lines about the cluster as a whole.
func clusterLines(s health.ClusterStatus, now time.Time) []string {
	var lines []string
	add := func(name, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%-9s %s", name, fmt.Sprintf(format, args...)))
	}
	add("slots", "%s", slotsText(s))
	if p := s.Paused; p != nil {
		add("paused", "%s", health.PauseText(*p, now))
	}
	if l := s.Lock; l != nil {
		add("lock", "slot %s on %s may be down on purpose, since %s: %s", l.Slot, l.Node, health.Age(now, l.Since), l.Purpose)
	}
	if r := s.Leader; r != "" {
		add("leader", "%s", r)
	} else if s.Health == health.Unknown {
		add("leader", "not known yet")
	} else if s.Health != health.NoQuorum && s.Health != health.NoLeaderYet {
		add("leader", "not on any node seen here, but a quorum answers: another program runs that member, or its node is "+
			"not in the gossip")
	} else {
		add("leader", "none: nothing can be written, and the nodes do not change the members")
	}
	var alarms []string
	for _, n := range s.Nodes {
		if n.Etcd != nil {
			for _, a := range n.Etcd.Alarms {
				if !slices.Contains(alarms, a.String()) {
					alarms = append(alarms, a.String())
				}
			}
		}
	}
	if len(alarms) > 0 {
		add("alarms", "%s", strings.Join(alarms, ", "))
	}
	return lines
}

// slotsText returns the slots that the nodes want. If they differ from the accepted ones, it names both.
func slotsText(s health.ClusterStatus) string {
	accepted := ""
	if set := s.Set; set != nil {
		accepted = strings.Join(set.Slots, ",")
	} else if s.Record != nil {
		accepted = strings.Join(s.Record.Charter.Slots(), ",")
	}
	by := map[string][]string{}
	for _, n := range s.Nodes {
		if n.Reached {
			wanted := strings.Join(n.Wanted, ",")
			by[wanted] = append(by[wanted], n.Node)
		}
	}
	if len(by) == 1 && (by[accepted] != nil || accepted == "") {
		for wanted := range by {
			return wanted
		}
	}
	text := cmp.Or(accepted, "none accepted")
	for _, n := range s.Nodes {
		if wanted := strings.Join(n.Wanted, ","); n.Reached && wanted != accepted {
			text += fmt.Sprintf("; %s wants %s", n.Node, wanted)
		}
	}
	return text
}

// writeWhyOf prints the explanation of one node.
func writeWhyOf(b *strings.Builder, n health.NodeStatus, now time.Time) {
	slot := "without a slot"
	if n.Volume != nil {
		slot = "slot " + n.Volume.Slot
	}
	fmt.Fprintf(b, "\n%s, %s, %s\n", n.Node, slot, n.State)
	fmt.Fprintf(b, "  does       %s%s\n", cmp.Or(n.Does, "nothing"), sinceText(n, now))
	for i, line := range n.Obstacles {
		name := ""
		if i == 0 {
			name = "stopped by"
		}
		fmt.Fprintf(b, "  %-10s - %s\n", name, line)
	}
	fmt.Fprintf(b, "  next       %s\n", nextText(n))
}

func nextText(n health.NodeStatus) string {
	switch {
	case !n.Reached:
		return "unknown"
	case n.Next != nil:
		return fmt.Sprintf("%s, after `holdfast resume`: %s", n.Next.Action, n.Next.Why)
	case n.Action != plan.Wait && n.Error != "":
		return "tries again"
	case n.State == health.Standby:
		return "claims a volume as soon as one is free"
	case n.Action != plan.Wait:
		return "decides again when that is done"
	case len(n.Commands) > 0:
		return fmt.Sprintf("resumes once unblocked, or run %s", strings.Join(n.Commands, ", or "))
	case len(n.Obstacles) > 0:
		return "resumes once unblocked"
	}
	return "nothing is to be done"
}

// marks begin the lines of findings, as in `holdfast volume doctor`.
var marks = map[health.Severity]string{health.Info: "[i]", health.Warning: "[!]", health.Degrading: "[-]",
	health.Critical: "[-]"}

// Doctor returns the report for people, the worst findings first.
func Doctor(r health.Report) string {
	var b strings.Builder
	count := map[string]int{}
	for _, f := range r.Findings {
		count[marks[f.Severity]]++
		fmt.Fprintf(&b, "%s %s: %s\n", marks[f.Severity], f.Code, f)
		if f.Do != "" {
			fmt.Fprintf(&b, "      %s\n", f.Do)
		}
	}
	if len(r.Well) > 0 {
		fmt.Fprintf(&b, "[+] nothing was found about: %s\n", strings.Join(r.Well, ", "))
	}
	fmt.Fprintf(&b, "\ncluster %s: %d bad, %d to look at, %d to know\n", r.Cluster, count["[-]"], count["[!]"],
		count["[i]"])
	for _, f := range r.Findings {
		if f.Fix != nil {
			fmt.Fprintln(&b, "`holdfast doctor --fix` would: "+f.Fix.ID)
		}
	}
	return b.String()
}
