package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// Listed is a backup in a listing, and the places that have it.
type Listed struct {
	snapshot.Backup
	Where []string `json:"where"` // InBucket or InDirectory, and InSpool
}

// The places that may have a backup.
const (
	InBucket    = "s3"
	InDirectory = "dir"
	InSpool     = "spool" // of this machine
)

// Listing returns a table of the backups of a cluster in a store.
func Listing(cluster, store string, all []Listed, now time.Time) string {
	if len(all) == 0 {
		return fmt.Sprintf("no backups of cluster %s in %s\n", cluster, store)
	}
	t := Table("NAME", "AGE", "SIZE", "STORED", "REVISION", "KEYS", "CODEC", "VERIFIED", "PROVEN", "PINNED", "CLUSTER",
		"WHERE", "PROBLEM")
	t.SuppressEmptyColumns() // proofs, pins, other clusters and problems are rare
	var backups []snapshot.Backup
	for _, b := range all {
		backups = append(backups, b.Backup)
		if b.Problem == "" && b.Unmarked {
			b.Problem = "etcd-manager does not see it: its mark is missing"
		}
		b.Problem = strings.Join(slices.DeleteFunc(append([]string{b.Problem}, proofProblems(b.Backup, now)...),
			func(s string) bool { return s == "" }), "; ")
		row := []any{b.Name, health.Age(now, b.Created), "-", health.Bytes(b.Stored.Size), "-", "-",
			codecText(b.Backup), "no", provenText(b.Backup, now), PinText(b.Backup), OwnerText(b.Backup),
			strings.Join(b.Where, ", "), b.Problem}
		if b.Content.Size > 0 {
			row[2], row[4], row[5] = health.Bytes(b.Content.Size), b.Content.Revision, b.Content.Keys
		}
		if b.Failed != nil {
			row[7] = "FAILED"
		} else if !b.Verified.IsZero() {
			row[7] = "yes"
		}
		t.AppendRow(row)
	}
	newest, _ := snapshot.Newest(backups, now)
	lines := append([]string{t.Render()}, SkippedTexts(snapshot.Skipped(backups, now), newest, now)...)
	return strings.Join(lines, "\n") + "\n"
}

func codecText(b snapshot.Backup) string {
	text := cmp.Or(b.Stored.Codec, "-")
	if b.Stored.Encrypted {
		text += ", age"
	}
	return text
}

// PinText returns why a backup is pinned, or "" if it is not.
func PinText(b snapshot.Backup) string {
	if !b.Pinned {
		return ""
	}
	return cmp.Or(b.PinReason, "yes")
}

// OwnerText returns whose backup it is, or "" if it belongs to this cluster.
func OwnerText(b snapshot.Backup) string {
	switch {
	case b.Legacy:
		return "etcd-manager's"
	case b.Foreign:
		return "foreign: " + cmp.Or(b.Cluster, "unknown")
	}
	return ""
}

// Pruned says what was pruned, or would be.
func Pruned(p snapshot.Pruned, now time.Time, dryRun bool) string {
	t := Table("NAME", "AGE", "STORED", "WHAT", "WHY")
	removed := "removed"
	if dryRun {
		removed = "would be removed"
	}
	gone, freed := 0, int64(0)
	add := func(list []snapshot.Backup, why string) {
		for _, b := range list {
			what := removed
			if reason, kept := p.Kept[b.Name]; kept {
				what = "kept: " + reason
			} else {
				gone, freed = gone+1, freed+b.Stored.Size
			}
			t.AppendRow([]any{b.Name, health.Age(now, b.Created), health.Bytes(b.Stored.Size), what, why})
		}
	}
	add(p.Expired, "beyond snapshot.keep")
	add(p.Orphans, "left by a failed save")
	text := fmt.Sprintf("%s %s, %s\n", health.Count(int64(gone), "backup"), removed, health.Bytes(freed))
	if t.Length() > 0 {
		text = t.Render() + "\n" + text
	}
	return text
}
