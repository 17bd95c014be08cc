package show_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

func TestStatusShowsARestore(t *testing.T) {
	soon := noon.Add(2 * time.Hour)
	s := health.ClusterStatus{Nodes: []health.NodeStatus{
		{Node: "n1", Restore: &health.RestoreStatus{Title: "restore of b1", Backup: "b1", By: "me", State: health.RestorePreparing, Phase: "verifying", Done: 1 << 20, Total: 4 << 20}},
		{Node: "n3", Restore: &health.RestoreStatus{ID: "p", Title: "restore of b1", By: "me", State: health.RestoreUnconfirmed}},
		{Node: "n4", Restore: &health.RestoreStatus{Title: "restore of b1", By: "me", State: health.RestorePrepared, Objecting: 7.2, Leaves: true}},
		{Node: "n2", Aside: []plan.Aside{
			{Path: "/v/aside/1-restored", Since: noon.Add(-3 * time.Hour), Bytes: 5 << 20, Reclaimed: &soon},
			{Path: "/v/aside/2-by-operator", Since: noon.Add(-3 * time.Hour), Bytes: 5 << 20},
		}},
	}}
	var b strings.Builder
	show.RestoreText(&b, s, noon)
	for _, want := range []string{"n1: restore of b1, by me: preparing, verifying 25 % of 4.0 MiB",
		"n3: restore of b1, by me: unconfirmed; nothing begins before an operator runs `holdfast restore --confirm p` on a node of the cluster",
		"n4: restore of b1, by me: prepared; leaves its generation in 8 s unless a leader objects", "n2: /v/aside/1-restored, 5.0 MiB, set aside 3h ago, is deleted in 2h", "2-by-operator, 5.0 MiB, set aside 3h ago, is kept"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwithout %q", b.String(), want)
		}
	}
}
