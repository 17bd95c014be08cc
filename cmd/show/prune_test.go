package show_test

import (
	"testing"
	"time"

	"holdfast/cmd/show"
	"holdfast/snapshot"
)

func TestPruned(t *testing.T) {
	small := made("3", 50*time.Hour)
	small.Stored.Size = 10
	p := snapshot.Pruned{
		Expired: []snapshot.Backup{made("1", 400*24*time.Hour), made("2", 390*24*time.Hour)},
		Orphans: []snapshot.Backup{small},
		Kept:    map[string]string{"2": "locked until 2027"},
	}
	want := ` NAME  AGE   STORED   WHAT                     WHY
 1     400d  1.0 MiB  would be removed         beyond snapshot.keep
 2     390d  1.0 MiB  kept: locked until 2027  beyond snapshot.keep
 3     2d    10 B     would be removed         left by a failed save
2 backups would be removed, 1.0 MiB
`
	if got := show.Pruned(p, noon, true); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
