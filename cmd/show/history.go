package show

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"holdfast/embedded/coordinator"
)

// History returns a table of what a node has decided and done, oldest first.
func History(entries []coordinator.Entry) string {
	if len(entries) == 0 {
		return ""
	}
	t := Table("TIME", "NODE", "SLOT", "GEN", "WHAT", "OUTCOME", "TOOK", "WHY")
	for _, e := range entries {
		if e.Dropped > 0 {
			t.AppendRow([]any{"", e.Node, "", "", "-", "-", "",
				fmt.Sprintf("%d entries are missing: the disk could not be written", e.Dropped)})
		}
		t.AppendRow([]any{e.Time.Local().Format("2006-01-02 15:04:05.000"), e.Node, cmp.Or(e.Slot, "-"),
			generationText(e.Generation), e.Kind, cmp.Or(e.Outcome, "-"), tookText(e), entryText(e)})
	}
	return t.Render() + "\n"
}

func generationText(g uint64) string {
	if g == 0 {
		return "-"
	}
	return fmt.Sprint(g)
}

func tookText(e coordinator.Entry) string {
	if e.Seconds == 0 {
		return "-"
	}
	return time.Duration(e.Seconds * float64(time.Second)).Round(time.Millisecond).String()
}

// entryText returns the reason of an entry, who asked, and the error.
func entryText(e coordinator.Entry) string {
	text := e.Why
	if e.By != "" {
		text += ", by " + e.By
	}
	if e.Error != "" {
		text += ": " + e.Error
	}
	return strings.ReplaceAll(text, "\n", " ")
}
