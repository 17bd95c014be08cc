package cmd

import (
	"errors"
	"testing"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/snapshot"
)

func TestBackupText(t *testing.T) {
	leading := snapshot.Status{
		Leading: true, Newest: made("2026-07-01T11:55:00Z-000000", 5*time.Minute).Meta, Due: noon.Add(10 * time.Minute),
		Drill: snapshot.DrillStatus{
			Last: snapshot.Drill{Name: "2026-07-01T09:00:00Z-000000", Time: noon.Add(-3 * time.Hour), Took: 2300 * time.Millisecond}, Due: noon.Add(21 * time.Hour),
		},
	}
	failing := leading
	failing.Due = noon.Add(-time.Second)
	failing.Spooled = []string{"2026-07-01T11:59:00Z-000000"}
	failing.Drill.Last.Error = "the hash is 1, want 2"
	failing.Drill.Error = "no room"
	failing.Prune = snapshot.PruneStatus{Last: noon, Kept: map[string]string{"b": "locked", "a": "locked until 2027"}}
	off := leading
	off.Drill = snapshot.DrillStatus{Off: "no identity"}
	old := snapshot.Status{Newest: made("2026-06-01T00:00:00Z-000000", 30*24*time.Hour).Meta}
	for name, tt := range map[string]struct {
		status []snapshot.Status
		want   string
	}{
		"nothing": {[]snapshot.Status{{}}, "  newest: none is known\n"},
		"the leader knows best": {[]snapshot.Status{old, leading}, `  newest: 2026-07-01T11:55:00Z-000000, 5m ago, verified: revision 4711, 5.0 MiB stored as 1.0 MiB; next in 10m
  drill: backup 2026-07-01T09:00:00Z-000000 was restored and compared 3h ago, in 2.3s; next in 21h
`},
		"no drills": {[]snapshot.Status{off}, `  newest: 2026-07-01T11:55:00Z-000000, 5m ago, verified: revision 4711, 5.0 MiB stored as 1.0 MiB; next in 10m
  drill: drills are off: no identity
`},
		"all is wrong": {[]snapshot.Status{failing, old}, `  newest: 2026-07-01T11:55:00Z-000000, 5m ago, verified: revision 4711, 5.0 MiB stored as 1.0 MiB; next now
  drill: backup 2026-07-01T09:00:00Z-000000 could NOT be restored: the hash is 1, want 2; the last one could not be tried: no room; next in 21h
  spool of n0: not in the store yet: 2026-07-01T11:59:00Z-000000
  prune: 2 expired backups are still there, such as a: locked until 2027
`},
	} {
		var nodes []coordinator.NodeStatus
		for i, s := range tt.status {
			nodes = append(nodes, coordinator.NodeStatus{Node: "n" + string(rune('0'+i)), Backup: backupStatus(s)})
		}
		if got := backupText(nodes, noon); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

// What an operator must know is a warning, and never more: a member without backups serves.
func TestBackupChecks(t *testing.T) {
	warned := func(s snapshot.Status) (names []string) {
		for _, c := range backupChecks(backupStatus(s)) {
			if c.Err != nil {
				t.Errorf("%s fails: %v", c.Name, errors.Unwrap(c.Err))
			}
			if c.Warning != "" {
				names = append(names, c.Name)
			}
		}
		return names
	}
	for _, tt := range []struct {
		status snapshot.Status
		want   int
	}{
		{snapshot.Status{}, 0},
		{snapshot.Status{Leading: true, Newest: made("x", 0).Meta}, 0},
		{snapshot.Status{Leading: true, Overdue: true}, 1},
		{snapshot.Status{Leading: true, Failures: 2, LastError: "EIO", Spooled: []string{"x"}}, 2},
		{snapshot.Status{Drill: snapshot.DrillStatus{Off: "no identity"}}, 0},
		{snapshot.Status{Drill: snapshot.DrillStatus{Error: "no room"}, Prune: snapshot.PruneStatus{Last: noon, Error: "EIO"}}, 2},
		{snapshot.Status{Drill: snapshot.DrillStatus{Last: snapshot.Drill{Name: "x", Error: "bad"}}}, 1},
	} {
		if got := warned(tt.status); len(got) != tt.want {
			t.Errorf("%+v: got warnings %q, want %d", tt.status, got, tt.want)
		}
	}
}
