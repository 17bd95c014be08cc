package show

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// databaseText returns a line about the database of each node that runs a member.
func databaseText(nodes []health.NodeStatus) string {
	var b strings.Builder
	for _, n := range nodes {
		e, u := n.Etcd, n.Upkeep
		if e == nil || u == nil {
			continue
		}
		fmt.Fprintf(&b, "  %s: %s, %s in use, quota %s%s", n.Node, health.Bytes(e.Size), health.Bytes(e.InUse),
			health.Bytes(e.Quota), health.GrowthText(u.Growth))
		if u.Fragmented {
			b.WriteString("; to be defragmented")
		}
		if d := u.Last; d != nil && d.Error == "" {
			fmt.Fprintf(&b, "; defragmented at %s in %.1f s: %s to %s", d.Time.UTC().Format("2006-01-02 15:04:05Z"),
				d.Seconds, health.Bytes(d.Before), health.Bytes(d.After))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// drillText returns a line about drills.
func drillText(d *health.DrillStatus, now time.Time) string {
	if d == nil {
		return "none is known here"
	}
	var parts []string
	switch {
	case d.Error != "":
		parts = append(parts, fmt.Sprintf("backup %s could NOT be restored: %s", d.Name, d.Error))
	case d.Time != nil:
		text := fmt.Sprintf("backup %s was restored and compared %s, in %s", d.Name, ago(*d.Time, now),
			time.Duration(d.Seconds*float64(time.Second)).Round(time.Millisecond))
		if len(d.Checked) > 0 {
			text += ": " + ComparedText(d.Checked, d.Unrecorded)
		}
		parts = append(parts, text)
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

// ago says how long ago something was. The clock of the node that did it may have been ahead.
func ago(at, now time.Time) string {
	if at.Sub(now) > time.Minute {
		return health.Age(at, now) + " in the future"
	}
	return health.Age(now, at) + " ago"
}

func dueText(due, now time.Time) string {
	if !due.After(now) {
		return "now"
	}
	return "in " + health.Age(due, now)
}

// backupText returns the part of `holdfast status` about backups. The schedule is that of the leader or, without one,
// of the node that knows the newest backup. The content of the store comes from the node that read it last. If nodes
// use different stores, only the store of the first node counts.
func backupText(nodes []health.NodeStatus, now time.Time) string {
	var best, store *health.BackupStatus
	id := ""
	for _, n := range nodes {
		b := n.Backup
		if b != nil && (best == nil || b.Leading && !best.Leading || b.Leading == best.Leading && newer(b, best)) {
			best, id = b, n.Store
		}
	}
	for _, n := range nodes {
		if b := n.Backup; b != nil && (n.Store == id || n.Store == "") && (store == nil || later(b, store)) {
			store = b
		}
	}
	if best == nil {
		return ""
	}
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, "  "+format+"\n", args...) }
	for _, text := range badTexts(store, now) {
		line("%s", text)
	}
	newest := NewestText(store, now)
	switch {
	case best.Saving != nil:
		newest += fmt.Sprintf("; one has been under way for %s", health.Age(now, *best.Saving))
	case best.Due != nil:
		newest += "; next " + dueText(*best.Due, now)
	}
	line("newest: %s", newest)
	if text := storeText(store, now); text != "" {
		line("store: %s", text)
	}
	if best.Drill != nil {
		line("drill: %s", drillText(best.Drill, now))
	}
	for _, n := range nodes {
		if n.Backup != nil && len(n.Backup.Spooled) > 0 {
			line("spool of %s: not in the store yet: %s", n.Node, strings.Join(n.Backup.Spooled, ", "))
		}
	}
	if p := best.Prune; p != nil && (p.Error != "" || len(p.Kept) > 0) {
		line("prune: %s", p.Text())
	}
	return out.String()
}

// storeText returns how many good backups the store has, and since when it does not answer.
func storeText(b *health.BackupStatus, now time.Time) string {
	var parts []string
	if b.Asked != nil && b.Count > 0 {
		parts = append(parts, health.Count(int64(b.Count), "good backup"))
	}
	if b.StoreError != "" {
		text := "it does not answer: " + b.StoreError
		if b.Asked != nil {
			text = fmt.Sprintf("it last told %s ago: %s", health.Age(now, *b.Asked), b.StoreError)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// badTexts returns a line for each bad backup, beginning with BAD for the newest one.
func badTexts(b *health.BackupStatus, now time.Time) (lines []string) {
	if b.Skipped != "" {
		lines = append(lines, "BAD: "+b.SkippedText())
	}
	for _, f := range b.Failed {
		p := snapshot.Proof{Kind: f.Proof, At: f.Time, By: f.By, Error: f.Error}
		lines = append(lines, fmt.Sprintf("bad: %s %s", f.Name, FailedText(p, now)))
	}
	if more := b.BadCount - len(b.Failed); more > 0 {
		lines = append(lines, fmt.Sprintf("bad: %d more, see `holdfast snapshot list`", more))
	}
	return lines
}

// later reports whether a has read the store later than b. For equal or unknown times, it prefers the one that knows
// the newer backup, and then the leader.
func later(a, b *health.BackupStatus) bool {
	var zero time.Time
	at := func(b *health.BackupStatus) time.Time { return *cmp.Or(b.Asked, &zero) }
	if c := at(a).Compare(at(b)); c != 0 {
		return c > 0
	}
	return newer(a, b) || a.Leading && !newer(b, a)
}

// newer reports whether a knows a newer backup than b, by generation and revision.
func newer(a, b *health.BackupStatus) bool {
	return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Revision, b.Revision)) > 0
}

// NewestText returns a text about the newest good backup, or why none is known.
func NewestText(b *health.BackupStatus, now time.Time) string {
	switch {
	case b.Time != nil:
		return fmt.Sprintf("%s, %s, verified: revision %d, %s stored as %s", b.Name, ago(*b.Time, now),
			b.Revision, health.Bytes(b.Database), health.Bytes(b.Size))
	case b.Asked == nil && b.StoreError != "":
		return "not known: the store does not tell"
	case b.Asked == nil:
		return "none is known"
	}
	// The store may have a good backup by now.
	return fmt.Sprintf("the store held no good backup when it was asked %s ago", health.Age(now, *b.Asked))
}
