package show

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

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
			t.AppendRow(table.Row{b.Name, health.Age(now, b.Created), health.Bytes(b.Stored.Size), what, why})
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
