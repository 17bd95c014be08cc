package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
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

func drillText(d *health.DrillStatus, now time.Time) string {
	if d == nil {
		return "none is known here"
	}
	var parts []string
	switch {
	case d.Error != "":
		parts = append(parts, fmt.Sprintf("backup %s could NOT be restored: %s", d.Name, d.Error))
	case !d.Time.IsZero():
		text := fmt.Sprintf("backup %s was restored and compared %s, in %s", d.Name, ago(d.Time, now),
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
	} else if !d.Due.IsZero() {
		parts = append(parts, "next "+dueText(d.Due, now))
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
	case !best.Saving.IsZero():
		newest += fmt.Sprintf("; one has been under way for %s", health.Age(now, best.Saving))
	case !best.Due.IsZero():
		newest += "; next " + dueText(best.Due, now)
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
	if !b.Asked.IsZero() && b.Count > 0 {
		parts = append(parts, health.Count(int64(b.Count), "good backup"))
	}
	if b.StoreError != "" {
		text := "it does not answer: " + b.StoreError
		if !b.Asked.IsZero() {
			text = fmt.Sprintf("it last told %s ago: %s", health.Age(now, b.Asked), b.StoreError)
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
	if c := a.Asked.Compare(b.Asked); c != 0 {
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
	case !b.Time.IsZero():
		return fmt.Sprintf("%s, %s, verified: revision %d, %s stored as %s", b.Name, ago(b.Time, now),
			b.Revision, health.Bytes(b.Database), health.Bytes(b.Size))
	case b.Asked.IsZero() && b.StoreError != "":
		return "not known: the store does not tell"
	case b.Asked.IsZero():
		return "none is known"
	}
	// The store may have a good backup by now.
	return fmt.Sprintf("the store held no good backup when it was asked %s ago", health.Age(now, b.Asked))
}

// maxFailed is how many of the bad backups a status names.
const maxFailed = 5

// BackupStatus converts the status of the keeper of backups into a part of the node's status.
func BackupStatus(k snapshot.Status) *health.BackupStatus {
	b := &health.BackupStatus{Leading: k.Leading, Failures: k.Failures, Error: k.LastError, Overdue: k.Overdue,
		Due: k.Due, Saving: k.Saving, Spooled: k.Spooled, Asked: k.Asked, StoreError: k.StoreError, Count: k.Count,
		BadCount: len(k.Failed)}
	for _, f := range k.Failed[:min(len(k.Failed), maxFailed)] {
		b.Failed = append(b.Failed, health.FailedBackup{Name: f.Name, Proof: proofWord(*f.Failed), Time: f.Failed.At,
			By: f.Failed.By, Error: f.Failed.Error})
	}
	if k.Doubt != nil {
		b.Doubt = k.Doubt.Error()
	}
	if len(k.Skipped) > 0 {
		b.Skipped = k.Skipped[0].Name
	}
	if k.Most.Name != "" {
		most := StandOf(k.Most)
		b.Most = &most
	}
	if n := k.Newest; n.Name != "" {
		b.Name, b.Time, b.Verified, b.Generation = n.Name, n.Created, n.Verified, n.Generation
		b.Revision, b.Database, b.Size = n.Content.Revision, n.Content.Size, n.Stored.Size
	}
	if d := k.Drill; d.Last.Name != "" || d.Error != "" || d.Running != "" || !d.Due.IsZero() || d.Off != "" {
		b.Drill = &health.DrillStatus{
			Name: d.Last.Name, Time: d.Last.Time, Seconds: d.Last.Took.Seconds(), Error: d.Last.Error,
			Checked: d.Last.Checked, Unrecorded: d.Last.Unrecorded,
			Untried: d.Error, Running: d.Running, Due: d.Due, Off: d.Off,
		}
	}
	if p := k.Prune; !p.Last.IsZero() {
		b.Prune = &health.PruneStatus{Time: p.Last, Refused: p.Refused, Kept: p.Kept, Error: p.Error}
	}
	return b
}

// StandOf returns the generation and the revision of a backup.
func StandOf(m snapshot.Meta) plan.BackupStand {
	return plan.BackupStand{Name: m.Name, Generation: m.Generation, Revision: m.Content.Revision}
}

// Holdings summarizes the backups in the store. err is why the store could not be read, or nil.
func Holdings(all []snapshot.Backup, err error, now time.Time) *health.Holdings {
	if err != nil {
		return &health.Holdings{Err: err.Error()}
	}
	h := new(health.Holdings)
	for _, b := range all {
		if i := slices.IndexFunc(b.Proofs, func(p snapshot.Proof) bool { return p.Unknown != "" }); i >= 0 && !b.Foreign {
			h.Unproven = health.Sample{Count: h.Unproven.Count + 1, Example: fmt.Sprintf("%s: %s", b.Name, b.Proofs[i].Unknown)}
		}
		switch {
		case b.Foreign:
			h.Foreign++
		case b.Unfinished && now.Sub(b.Created) > snapshot.AbandonedAfter:
			h.Left++
		case b.Unfinished, b.Legacy:
		case !b.Good():
			h.Broken = health.Sample{Count: h.Broken.Count + 1, Example: fmt.Sprintf("%s: %s", b.Name, problemText(b, now))}
		default:
			h.Good++
		}
	}
	newest, _ := snapshot.Newest(all, now)
	h.Skipped = SkippedTexts(snapshot.Skipped(all, now), newest, now)
	return h
}

func problemText(b snapshot.Backup, now time.Time) string {
	switch {
	case b.Problem != "":
		return b.Problem
	case b.Failed != nil:
		return "it " + FailedText(*b.Failed, now)
	}
	return "not verified"
}
