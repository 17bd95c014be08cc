package cmd

import (
	"fmt"
	"strings"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// fullAdvice says what to do about a full database, "" where the cure of NOSPACE says it.
func fullAdvice(u plan.Upkeep, m plan.Member) string {
	switch {
	case m.Spaceless() && u.Cure:
		return ""
	case u.Roomy(m.Space):
		return ": what is free is used before the file grows"
	}
	return ": delete keys, or raise etcd.quota-backend-bytes on all nodes"
}

// databaseText tells of the databases of those nodes where there is something to tell.
func databaseText(nodes []health.NodeStatus) string {
	var b strings.Builder
	for _, n := range nodes {
		e, u := n.Etcd, n.Upkeep
		if e == nil || u == nil {
			continue
		}
		fmt.Fprintf(&b, "  %s: %s, %s in use, quota %s%s", n.Node, health.Bytes(e.Size), health.Bytes(e.InUse), health.Bytes(e.Quota), health.GrowthText(u.Growth))
		if u.Fragmented {
			b.WriteString("; to be defragmented")
		}
		if d := u.Last; d != nil && d.Error == "" {
			fmt.Fprintf(&b, "; defragmented at %s in %.1f s: %s to %s", d.Time.UTC().Format("2006-01-02 15:04:05Z"), d.Seconds, health.Bytes(d.Before), health.Bytes(d.After))
		}
		b.WriteString("\n")
	}
	return b.String()
}
