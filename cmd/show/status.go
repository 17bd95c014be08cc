package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"holdfast/embedded/health"
)

// Status returns the status for people: the verdict, a line for each node, and what each node does and why.
func Status(s health.ClusterStatus, now time.Time) string {
	var b strings.Builder
	writeVerdict(&b, s)
	if p := s.Paused; p != nil {
		fmt.Fprintf(&b, "PAUSED %s\n", health.PauseText(*p, now))
	}
	if s.Rotation != nil {
		b.WriteString(s.Rotation.Text(now))
	}
	fmt.Fprintf(&b, "\n%s\n", nodeTable(s))
	if len(s.Observers) > 0 {
		fmt.Fprintf(&b, "observers: %d\n", len(s.Observers))
	}
	fmt.Fprintln(&b, "\nwhy")
	for _, n := range s.Nodes {
		fmt.Fprintf(&b, "  %s: %s%s%s\n", n.Node, n.Doing(), sinceText(n, now), claimText(n, now))
		if n.Blocks != "" {
			fmt.Fprintf(&b, "    %s\n", n.Blocks)
		}
	}
	if l := s.Lock; l != nil {
		fmt.Fprintf(&b, "\n%s (for %s): no other member is taken down meanwhile\n", l, health.Age(now, l.Since))
	}
	if text := databaseText(s.Nodes); text != "" {
		fmt.Fprintf(&b, "\ndatabases\n%s", text)
	}
	if text := backupText(s.Nodes, now); text != "" {
		fmt.Fprintf(&b, "\nbackups\n%s", text)
	}
	writeRestore(&b, s, now)
	writeFindings(&b, s.Findings, false)
	return b.String()
}

// sinceText returns for how long a node has been in its state, or "" if that is not known.
func sinceText(n health.NodeStatus, now time.Time) string {
	if n.Since.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (for %s)", health.Age(now, n.Since))
}

// claimText returns the state of a claim until the volume is held.
func claimText(n health.NodeStatus, now time.Time) string {
	c := n.Claim
	if c == nil || n.Volume != nil || c.Volume == "" {
		return ""
	}
	return fmt.Sprintf("; %s %s: %s (for %s)", c.State, c.Volume, c.Why, health.Age(now, c.Since))
}

// versions returns which versions run, and the cluster version.
func versions(s health.ClusterStatus) string {
	var ours, etcds, agreed, down []string
	add := func(list *[]string, v string) {
		if v != "" && !slices.Contains(*list, v) {
			*list = append(*list, v)
		}
	}
	for _, n := range s.Nodes {
		if n.Live {
			add(&ours, n.Version)
		}
		if n.Etcd != nil {
			add(&etcds, n.Etcd.Version)
			add(&agreed, n.Etcd.ClusterVersion)
			add(&down, n.Etcd.Downgrade)
		}
	}
	text := "holdfast " + strings.Join(ours, ", ")
	if len(etcds) > 0 {
		text += "; etcd " + strings.Join(etcds, ", ")
	}
	if len(agreed) > 0 {
		text += "; cluster version " + strings.Join(agreed, ", ")
	}
	if len(down) > 0 {
		text += "; a downgrade to " + strings.Join(down, ", ") + " is under way"
	}
	return text
}

func nodeTable(s health.ClusterStatus) string {
	t := Table("NODE", "SLOT", "ADDRESS", "STATE", "TERM", "REVISION", "DB SIZE", "EPOCH", "ETCD")
	for _, n := range s.Nodes {
		row := []any{n.Node, "-", n.Address, n.State, "-", "-", "-", "-", "-"}
		if v := n.Volume; v != nil {
			row[1], row[7] = v.Slot, v.Epoch
		}
		if e := n.Etcd; e != nil {
			row[4], row[5], row[6], row[8] = e.Term, e.Revision, health.Bytes(e.Size), e.Version
		}
		t.AppendRow(row)
	}
	return t.Render()
}

// Table returns a table with a header, in the style of all commands.
func Table(header ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	t.SetStyle(style)
	t.AppendHeader(header)
	t.SuppressTrailingSpaces()
	return t
}

// writeRestore prints, for `holdfast status`, the restore under way and the data that was set aside.
func writeRestore(w io.Writer, s health.ClusterStatus, now time.Time) {
	var lines []string
	for _, n := range s.Nodes {
		if r := n.Restore; r != nil {
			lines = append(lines, fmt.Sprintf("  %s: %s, by %s: %s", n.Node, r.Title, r.By, r.Progress()))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(w, "\nunder way\n%s\n", strings.Join(lines, "\n"))
	}
	lines = nil
	for _, n := range s.Nodes {
		for _, a := range n.Aside {
			until := "is kept"
			if a.Reclaimed != nil {
				until = "is deleted in " + health.Age(*a.Reclaimed, now)
			}
			lines = append(lines, fmt.Sprintf("  %s: %s, %s, set aside %s ago, %s", n.Node, a.Path, health.Bytes(a.Bytes),
				health.Age(now, a.Since), until))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(w, "\nset aside\n%s\n", strings.Join(lines, "\n"))
	}
}
