package show_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// made is a backup of some age.
func made(name string, old time.Duration) snapshot.Backup {
	return snapshottest.Backup(name, noon.Add(-old))
}

func TestBackupText(t *testing.T) {
	leading := snapshot.Status{
		Leading: true, Due: noon.Add(10 * time.Minute),
		Holdings: snapshot.Holdings{Newest: made("2026-07-01T11:55:00Z-000000", 5*time.Minute).Meta},
		Drill: snapshot.DrillStatus{
			Last: snapshot.Drill{Name: "2026-07-01T09:00:00Z-000000", Time: noon.Add(-3 * time.Hour), Took: 2300 * time.Millisecond}, Due: noon.Add(21 * time.Hour),
		},
	}
	failing := leading
	failing.Due = noon.Add(-time.Second)
	failing.Spooled = []string{"2026-07-01T11:59:00Z-000000"}
	failing.Drill.Last.Error = "the hash is 1, want 2"
	failing.Drill.Error = "no room"
	failing.Prune = snapshot.PruneStatus{Last: noon, Refused: 20,
		Kept: map[string]string{"b": "locked", "a": "locked until 2027"}}
	off := leading
	off.Drill = snapshot.DrillStatus{Off: "no identity"}
	old := snapshot.Status{Holdings: snapshot.Holdings{Newest: made("2026-06-01T00:00:00Z-000000", 30*24*time.Hour).Meta}}
	// Without a quorum nobody leads.
	follower := snapshot.Status{Holdings: snapshot.Holdings{Newest: leading.Newest, Count: 12},
		Asked: noon.Add(-30 * time.Second)}
	ahead := follower
	ahead.Newest = made("2026-07-31T12:00:00Z-000000", -30*24*time.Hour).Meta
	ahead.Drill.Last = snapshot.Drill{Name: ahead.Newest.Name, Time: noon.Add(30 * 24 * time.Hour)}
	rotten := made("2026-07-01T11:58:00Z-000000", 2*time.Minute)
	rotten.Failed = &snapshot.Proof{Kind: snapshot.ProofVerify, By: "ops@far", At: noon.Add(-time.Minute), Error: "stored bytes: want 1, got 2"}
	bad := follower
	bad.Skipped, bad.Failed = []snapshot.Backup{rotten}, []snapshot.Backup{rotten}
	bad.Asked, bad.StoreError = noon.Add(-10*time.Second), "no route to host"
	silent := snapshot.Status{StoreError: "no route to host"}
	saved := follower
	saved.Newest, saved.Asked = made("2026-07-01T11:59:59Z-000000", time.Second).Meta, noon.Add(-time.Second)
	told := leading
	told.Asked = noon.Add(-40 * time.Second)
	told.Drill.Last.Checked = []string{"revision 7", "records 3"}
	for name, tt := range map[string]struct {
		status []snapshot.Status
		want   string
	}{
		"nothing": {[]snapshot.Status{{}}, "  newest: none is known\n"},
		"no quorum": {[]snapshot.Status{{}, follower}, `  newest: 2026-07-01T11:55:00Z-000000, 5m ago, verified: revision 4711, 5.0 MiB stored as 1.0 MiB
  store: 12 good backups
`},
		"made by a clock that was ahead": {[]snapshot.Status{ahead}, `  newest: 2026-07-31T12:00:00Z-000000, 30d in the future, verified: revision 4711, 5.0 MiB stored as 1.0 MiB
  store: 12 good backups
  drill: backup 2026-07-31T12:00:00Z-000000 was restored and compared 30d in the future, in 0s
`},
		"the newest is bad": {[]snapshot.Status{follower, bad}, `  BAD: the newest backup, 2026-07-01T11:58:00Z-000000, is bad: the newest good one is 2026-07-01T11:55:00Z-000000
  bad: 2026-07-01T11:58:00Z-000000 FAILED its verify 60s ago by ops@far: stored bytes: want 1, got 2
  newest: 2026-07-01T11:55:00Z-000000, 5m ago, verified: revision 4711, 5.0 MiB stored as 1.0 MiB
  store: 12 good backups; it last told 10s ago: no route to host
`},
		"the store is away":  {[]snapshot.Status{silent}, "  newest: not known: the store does not tell\n  store: it does not answer: no route to host\n"},
		"the store is empty": {[]snapshot.Status{{Asked: noon}}, "  newest: the store held no good backup when it was asked 0s ago\n"},
		"just saved on a follower": {[]snapshot.Status{told, saved}, `  newest: 2026-07-01T11:59:59Z-000000, 1s ago, verified: revision 4711, 5.0 MiB stored as 1.0 MiB; next in 10m
  store: 12 good backups
  drill: backup 2026-07-01T09:00:00Z-000000 was restored and compared 3h ago, in 2.3s: revision 7 and records 3 are what was saved; next in 21h
`},
		"the leader knows best": {[]snapshot.Status{old, leading}, `  newest: 2026-07-01T11:55:00Z-000000, 5m ago, verified: revision 4711, 5.0 MiB stored as 1.0 MiB; next in 10m
  drill: backup 2026-07-01T09:00:00Z-000000 was restored and compared 3h ago, in 2.3s; next in 21h
`},
		"no drills": {[]snapshot.Status{off}, `  newest: 2026-07-01T11:55:00Z-000000, 5m ago, verified: revision 4711, 5.0 MiB stored as 1.0 MiB; next in 10m
  drill: drills are off: no identity
`},
		"all is wrong": {[]snapshot.Status{failing, old}, `  newest: 2026-07-01T11:55:00Z-000000, 5m ago, verified: revision 4711, 5.0 MiB stored as 1.0 MiB; next now
  drill: backup 2026-07-01T09:00:00Z-000000 could NOT be restored: the hash is 1, want 2; the last one could not be tried: no room; next in 21h
  spool of n0: not in the store yet: 2026-07-01T11:59:00Z-000000
  prune: 20 expired backups are still there, such as a: locked until 2027
`},
	} {
		var nodes []health.NodeStatus
		for i, s := range tt.status {
			nodes = append(nodes, health.NodeStatus{Node: "n" + string(rune('0'+i)), Backup: show.BackupStatus(s)})
		}
		if got := show.BackupText(nodes, noon); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

func TestNewerBackupStatus(t *testing.T) {
	early, late := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), time.Date(2029, 7, 1, 0, 0, 0, 0, time.UTC)
	nodes := []health.NodeStatus{
		{Node: "n1", Backup: &health.BackupStatus{Name: "ahead", Time: late, Generation: 1, Revision: 900}},
		{Node: "n2", Backup: &health.BackupStatus{Name: "next", Time: early, Generation: 2, Revision: 10}},
		{Node: "n3", Backup: &health.BackupStatus{}},
	}
	if got := show.BackupText(nodes, late); !strings.Contains(got, "newest: next,") {
		t.Errorf("got %q, want the one of the later generation", got)
	}
}

// Where each node has a store of its own, that of the node which makes the backups counts, and not the empty ones that
// happen to have been asked later.
func TestBackupsOfStoresThatAreNotShared(t *testing.T) {
	before, at := noon.Add(-time.Minute), noon
	nodes := []health.NodeStatus{
		{Node: "n1", Store: "s1", Backup: &health.BackupStatus{Asked: at}},
		{Node: "n2", Store: "s2", Backup: &health.BackupStatus{Leading: true, Name: "mine", Time: before, Revision: 7,
			Count: 3, Asked: before}},
	}
	if got := show.BackupText(nodes, noon); !strings.Contains(got, "newest: mine,") || !strings.Contains(got, "3 good backups") {
		t.Errorf("got %q, want the store of the leader", got)
	}
}
