package show

import (
	"fmt"
	"slices"
	"time"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// maxFailed is how many of the bad backups a status names.
const maxFailed = 5

// BackupStatus converts the status of the keeper of backups into a part of the node's status.
func BackupStatus(k snapshot.Status) *health.BackupStatus {
	b := &health.BackupStatus{Leading: k.Leading, Failures: k.Failures, Error: k.LastError, Overdue: k.Overdue,
		Due: ifTime(k.Due), Saving: ifTime(k.Saving), Spooled: k.Spooled,
		Asked: ifTime(k.Asked), StoreError: k.StoreError, Count: k.Count, BadCount: len(k.Failed)}
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
	if n := k.Newest; n.Name != "" {
		b.Name, b.Time, b.Verified, b.Generation = n.Name, &n.Created, &n.Verified, n.Generation
		b.Revision, b.Database, b.Size = n.Content.Revision, n.Content.Size, n.Stored.Size
	}
	if d := k.Drill; d.Last.Name != "" || d.Error != "" || d.Running != "" || !d.Due.IsZero() || d.Off != "" {
		b.Drill = &health.DrillStatus{
			Name: d.Last.Name, Time: ifTime(d.Last.Time), Seconds: d.Last.Took.Seconds(), Error: d.Last.Error,
			Checked: d.Last.Checked, Unrecorded: d.Last.Unrecorded,
			Untried: d.Error, Running: d.Running, Due: ifTime(d.Due), Off: d.Off,
		}
	}
	if p := k.Prune; !p.Last.IsZero() {
		b.Prune = &health.PruneStatus{Time: p.Last, Kept: p.Kept, Error: p.Error}
	}
	return b
}

// ifTime returns nil for the zero time.
func ifTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
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
