package cmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/embedded"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// running makes three members, n1 the leader, that run the given etcd, are at the given cluster and storage versions, and
// know of a downgrade.
func running(etcds [3]string, cluster, storage, downgrade string) (s health.ClusterStatus, members []plan.MemberInfo, self embedded.Status) {
	for i, version := range etcds {
		id := uint64(i + 1)
		members = append(members, plan.MemberInfo{ID: id})
		s.Nodes = append(s.Nodes, health.NodeStatus{Node: fmt.Sprintf("n%d", id), Live: true, Reached: version != "", Etcd: &health.EtcdStatus{
			Member: fmt.Sprintf("%x", id), Leader: i == 0, Version: version, ClusterVersion: cluster, StorageVersion: storage, Downgrade: downgrade}})
	}
	return s, members, embedded.Status{Running: true, ClusterVersion: cluster, Downgrade: downgrade}
}

func TestAssessDowngrade(t *testing.T) {
	const six, seven = "3.6.16", "3.7.3"
	for name, tc := range map[string]struct {
		etcds                       [3]string
		cluster, storage, downgrade string
		to                          string
		phase                       downgradePhase
		why                         string
		replace                     []string
	}{
		"fresh":                {[3]string{seven, seven, seven}, "3.7.0", "3.7.0", "", "3.6", downgradePossible, "", []string{"n2", "n3", "n1"}},
		"two minors":           {[3]string{seven, seven, seven}, "3.7.0", "3.7.0", "", "3.5", downgradeRefused, "only 3.6 is possible", []string{"n2", "n3", "n1"}},
		"up":                   {[3]string{seven, seven, seven}, "3.7.0", "3.7.0", "", "3.8", downgradeRefused, "only 3.6 is possible", nil},
		"a member is away":     {[3]string{seven, "", seven}, "3.7.0", "3.7.0", "", "3.6", downgradeRefused, "runs member b", []string{"n3", "n1"}},
		"another is under way": {[3]string{seven, seven, seven}, "3.7.0", "3.7.0", "3.6.0", "3.5", downgradeRefused, "a downgrade to 3.6.0 is under way", []string{"n2", "n3", "n1"}},
		"begun":                {[3]string{seven, seven, seven}, "3.7.0", "3.7.0", "3.6.0", "3.6", downgradeWaiting, "n2 is still at 3.7.0", []string{"n2", "n3", "n1"}},
		"data to come":         {[3]string{seven, seven, seven}, "3.6.0", "3.7.0", "3.6.0", "3.6", downgradeWaiting, "n2 is still at 3.7.0", []string{"n2", "n3", "n1"}},
		"ready":                {[3]string{seven, seven, seven}, "3.6.0", "3.6.0", "3.6.0", "3.6.0", downgradeReady, "", []string{"n2", "n3", "n1"}},
		"half":                 {[3]string{seven, six, seven}, "3.6.0", "3.6.0", "3.6.0", "3.6", downgradeReady, "", []string{"n3", "n1"}},
		"not over yet":         {[3]string{six, six, six}, "3.6.0", "3.6.0", "3.6.0", "3.6", downgradeWaiting, "ends the downgrade within seconds", nil},
		"over":                 {[3]string{six, six, six}, "3.6.0", "3.6.0", "", "3.6", downgradeDone, "", nil},
		"an upgrade, half":     {[3]string{seven, six, seven}, "3.6.0", "3.6.0", "", "3.6", downgradeReady, "", []string{"n3", "n1"}},
		"about to rise":        {[3]string{seven, seven, seven}, "3.6.0", "3.6.0", "", "3.6", downgradeRefused, "to which it rises any moment", []string{"n2", "n3", "n1"}},
	} {
		s, members, self := running(tc.etcds, tc.cluster, tc.storage, tc.downgrade)
		d, err := assessDowngrade(s, members, map[uint64]string{1: "a", 2: "b", 3: "c"}, self, tc.to)
		if err != nil || d.Phase != tc.phase || !strings.Contains(strings.Join(d.Why, "; "), tc.why) || !slices.Equal(d.Replace, tc.replace) {
			t.Errorf("%s: got %+v, %v; want %s because %q, to replace %v", name, d, err, tc.phase, tc.why, tc.replace)
		}
	}
}
