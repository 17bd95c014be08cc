package show_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/cmd/show"
	"holdfast/snapshot"
)

// In a log a long operation says how far it is, a short one nothing, and none says it a hundred times.
func TestProgressInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(total int64, took time.Duration) []string {
			var log bytes.Buffer
			p := show.NewProgress(&log)
			for i := range int64(100) {
				p.Show(snapshot.Progress{Phase: "verifying", Done: total * i / 100, Total: total})
				time.Sleep(took / 100)
			}
			p.End()
			return strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
		}
		if got := run(1<<30, 4*time.Second); len(got) != 1 || got[0] != "" {
			t.Errorf("4 s: got %q, want nothing", got)
		}
		got := run(1<<30, 20*time.Second)
		if want := "verifying 25 % of 1.0 GiB, 51.2 MiB/s, 15s left"; len(got) != 3 || got[0] != want {
			t.Errorf("20 s: got %q, want 3 lines, the first %q", got, want)
		}
		if got := run(1<<30, 30*time.Minute); len(got) < 20 || len(got) > 30 {
			t.Errorf("30 minutes: got %d lines, want about one a minute: %q", len(got), got)
		}
		if got := run(0, time.Minute); got[0] != "" {
			t.Errorf("unknown total: got %q", got)
		}
	})
}
