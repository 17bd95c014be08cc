package cmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// writeWhy prints the status for somebody who has been woken: what is wrong with the cluster, what holds it back, and
// of each node what it does, what it would do next, and what stops it.
func writeWhy(w io.Writer, s coordinator.ClusterStatus, now time.Time) error {
	var b strings.Builder
	writeVerdict(&b, s)
	for i, r := range s.Reasons { // what the nodes say themselves comes below
		for _, n := range s.Nodes {
			s.Reasons[i] = strings.TrimSuffix(r, ": "+n.Why)
			if s.Reasons[i] != r {
				break
			}
		}
	}
	writeReasons(&b, s)
	fmt.Fprintln(&b, "\nthe cluster")
	for _, line := range clusterLines(s, now) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	for _, n := range s.Nodes {
		writeWhyOf(&b, n, now)
	}
	writeRestore(&b, s, now)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeVerdict says which cluster it is, and how it is.
func writeVerdict(b *strings.Builder, s coordinator.ClusterStatus) {
	record := "not founded"
	if r := s.Record; r != nil {
		record = fmt.Sprintf("generation %d (%s, %s)", r.Generation, r.Cause, r.ID)
	}
	fmt.Fprintf(b, "cluster %s: %s, %s\n%s\n", s.Cluster, strings.ToUpper(string(s.Health)), record, versions(s))
}

func writeReasons(b *strings.Builder, s coordinator.ClusterStatus) {
	if len(s.Reasons) > 0 {
		fmt.Fprintf(b, "\nnot %s because\n", coordinator.Healthy)
	}
	for _, r := range s.Reasons {
		fmt.Fprintf(b, "  - %s\n", r)
	}
}

// clusterLines is what is known of the cluster as a whole.
func clusterLines(s coordinator.ClusterStatus, now time.Time) []string {
	var lines []string
	add := func(name, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%-9s %s", name, fmt.Sprintf(format, args...)))
	}
	add("slots", "%s", slotsText(s))
	if p := s.Paused; p != nil {
		add("paused", "%s", pauseText(*p, now))
	}
	if l := s.Lock; l != nil {
		add("lock", "slot %s on %s may be down on purpose, since %s: %s", l.Slot, l.Node, age(now, l.Since), l.Purpose)
	}
	if r := s.Leader; r != "" {
		add("leader", "%s", r)
	} else {
		add("leader", "none: nothing can be written, and nothing is done to the members by itself")
	}
	var alarms []string
	for _, n := range s.Nodes {
		if n.Etcd != nil {
			for _, a := range n.Etcd.Alarms {
				if !slices.Contains(alarms, a) {
					alarms = append(alarms, a)
				}
			}
		}
	}
	if len(alarms) > 0 {
		add("alarms", "%s", strings.Join(alarms, ", "))
	}
	return lines
}

// slotsText says which slots are wanted, and what the cluster has accepted where that differs.
func slotsText(s coordinator.ClusterStatus) string {
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

// pauseText says who has paused the cluster.
func pauseText(p plan.Pause, now time.Time) string {
	text := fmt.Sprintf("by %s, since %s (%s ago)", p.By, p.Since.UTC().Format(time.RFC3339), age(now, p.Since))
	if p.Why != "" {
		text += ": " + p.Why
	}
	return text + "; `holdfast resume` goes on"
}

// writeWhyOf explains one node.
func writeWhyOf(b *strings.Builder, n coordinator.NodeStatus, now time.Time) {
	slot := "without a slot"
	if n.Volume != nil {
		slot = "slot " + n.Volume.Slot
	}
	fmt.Fprintf(b, "\n%s, %s, %s\n", n.Node, slot, n.State)
	fmt.Fprintf(b, "  does       %s (for %s)\n", cmp.Or(n.Does, "nothing"), age(now, n.Since))
	for i, line := range n.Obstacles {
		name := ""
		if i == 0 {
			name = "stopped by"
		}
		fmt.Fprintf(b, "  %-10s - %s\n", name, line)
	}
	fmt.Fprintf(b, "  next       %s\n", nextText(n))
}

// nextText says what a node does after this.
func nextText(n coordinator.NodeStatus) string {
	switch {
	case !n.Reached:
		return "unknown"
	case n.Next != nil:
		return fmt.Sprintf("%s, after `holdfast resume`: %s", n.Next.Action, n.Next.Why)
	case n.Action != plan.Wait && n.Error != "":
		return "tries again"
	case n.Action != plan.Wait:
		return "decides anew when that is done"
	case len(n.Commands) > 0:
		return fmt.Sprintf("goes on by itself when what stops it is gone, or by your word: %s", strings.Join(n.Commands, ", or "))
	case len(n.Obstacles) > 0:
		return "goes on by itself when what stops it is gone"
	}
	return "nothing is to be done"
}
