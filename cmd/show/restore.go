package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"holdfast/embedded/health"
)

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
