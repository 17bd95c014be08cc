package cmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/metrics"
	"holdfast/snapshot"
)

// backupStatus is the keeper's account in the words of a node's status.
func backupStatus(k snapshot.Status) *coordinator.BackupStatus {
	b := &coordinator.BackupStatus{Leading: k.Leading, Failures: k.Failures, Error: k.LastError, Overdue: k.Overdue, Due: ifTime(k.Due), Spooled: k.Spooled}
	if n := k.Newest; n.Name != "" {
		b.Name, b.Time, b.Verified, b.Revision, b.Database, b.Size = n.Name, &n.Created, &n.Verified, n.Content.Revision, n.Content.Size, n.Stored.Size
	}
	if d := k.Drill; d.Last.Name != "" || d.Error != "" || d.Running != "" || !d.Due.IsZero() || d.Off != "" {
		b.Drill = &coordinator.DrillStatus{
			Name: d.Last.Name, Time: ifTime(d.Last.Time), Seconds: d.Last.Took.Seconds(), Error: d.Last.Error,
			Untried: d.Error, Running: d.Running, Due: ifTime(d.Due), Off: d.Off,
		}
	}
	if p := k.Prune; !p.Last.IsZero() {
		b.Prune = &coordinator.PruneStatus{Time: p.Last, Kept: p.Kept, Error: p.Error}
	}
	return b
}

// ifTime is nil for no time.
func ifTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// backupChecks are the lines of /readyz?verbose on backups. They only warn: a member without backups serves.
func backupChecks(b *coordinator.BackupStatus) []metrics.Check {
	backup := metrics.Check{Name: "backup", Detail: "the schedule runs on the leader"}
	verified := metrics.Check{Name: "backup-verified", Detail: "none is known here"}
	spool := metrics.Check{Name: "backup-spool", Detail: "nothing waits to be uploaded"}
	if b.Time != nil {
		backup.Detail = fmt.Sprintf("newest %s, revision %d", b.Time.Format(time.RFC3339), b.Revision)
		verified.Detail = fmt.Sprintf("%s, at %s", b.Name, b.Verified.Format(time.RFC3339))
	}
	switch {
	case b.Failures > 0:
		backup.Warning = fmt.Sprintf("%d in a row failed: %s", b.Failures, b.Error)
	case b.Error != "":
		backup.Warning = "the last attempt of this node failed: " + b.Error
	case b.Overdue:
		backup.Warning = "the newest verified backup is too old"
	}
	if len(b.Spooled) > 0 {
		spool.Warning = fmt.Sprintf("only on this machine, not in the store: %s", strings.Join(b.Spooled, ", "))
	}
	checks := []metrics.Check{backup, verified, spool, {Name: "backup-drill", Detail: drillText(b.Drill, time.Now())}}
	if d := b.Drill; d != nil && (d.Error != "" || d.Untried != "") {
		checks[3].Warning = checks[3].Detail
	}
	if p := b.Prune; p != nil && (p.Error != "" || len(p.Kept) > 0) {
		checks = append(checks, metrics.Check{Name: "backup-prune", Warning: pruneText(p)})
	}
	return checks
}

// drillText says in one line what is known of drills.
func drillText(d *coordinator.DrillStatus, now time.Time) string {
	if d == nil {
		return "none is known here"
	}
	var parts []string
	switch {
	case d.Error != "":
		parts = append(parts, fmt.Sprintf("backup %s could NOT be restored: %s", d.Name, d.Error))
	case d.Time != nil:
		parts = append(parts, fmt.Sprintf("backup %s was restored and compared %s ago, in %s", d.Name, age(now, *d.Time), time.Duration(d.Seconds*float64(time.Second)).Round(time.Millisecond)))
	case d.Off == "":
		parts = append(parts, "none yet")
	}
	if d.Untried != "" {
		parts = append(parts, "the last one could not be tried: "+d.Untried)
	}
	if d.Running != "" {
		parts = append(parts, "backup "+d.Running+" is being drilled")
	} else if d.Due != nil {
		parts = append(parts, "next "+dueText(*d.Due, now))
	}
	if d.Off != "" {
		parts = append(parts, "drills are off: "+d.Off)
	}
	return strings.Join(parts, "; ")
}

func pruneText(p *coordinator.PruneStatus) string {
	if p.Error != "" {
		return "the store could not be pruned: " + p.Error
	}
	name := slices.Min(slices.Collect(maps.Keys(p.Kept)))
	return fmt.Sprintf("%d expired backups are still there, such as %s: %s", len(p.Kept), name, p.Kept[name])
}

func dueText(due, now time.Time) string {
	if !due.After(now) {
		return "now"
	}
	return "in " + age(due, now)
}

// backupText is the part of `holdfast status` on backups: the account of the node that leads, or else of who knows the
// newest.
func backupText(nodes []coordinator.NodeStatus, now time.Time) string {
	var best *coordinator.BackupStatus
	for _, n := range nodes {
		b := n.Backup
		if b != nil && (best == nil || b.Leading && !best.Leading || b.Leading == best.Leading && newer(b.Time, best.Time)) {
			best = b
		}
	}
	if best == nil {
		return ""
	}
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, "  "+format+"\n", args...) }
	newest := "none is known"
	if best.Time != nil {
		newest = fmt.Sprintf("%s, %s ago, verified: revision %d, %s stored as %s", best.Name, age(now, *best.Time), best.Revision, bytesText(best.Database), bytesText(best.Size))
	}
	if best.Due != nil {
		newest += "; next " + dueText(*best.Due, now)
	}
	line("newest: %s", newest)
	if best.Drill != nil {
		line("drill: %s", drillText(best.Drill, now))
	}
	for _, n := range nodes {
		if n.Backup != nil && len(n.Backup.Spooled) > 0 {
			line("spool of %s: not in the store yet: %s", n.Node, strings.Join(n.Backup.Spooled, ", "))
		}
	}
	if p := best.Prune; p != nil && (p.Error != "" || len(p.Kept) > 0) {
		line("prune: %s", pruneText(p))
	}
	return out.String()
}

func newer(a, b *time.Time) bool { return a != nil && (b == nil || a.After(*b)) }
