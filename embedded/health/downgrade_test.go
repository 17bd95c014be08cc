package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

// versions are what the asked member says of the cluster.
type versions struct{ cluster, downgrade string }

// running returns three members, n1 the leader, that run the given etcds at the given cluster and storage versions and
// know of a downgrade.
func running(etcds [3]string, cluster, storage, downgrade string) (s ClusterStatus, members []plan.MemberInfo, self versions) {
	for i, version := range etcds {
		id := uint64(i + 1)
		members = append(members, plan.MemberInfo{ID: id})
		s.Nodes = append(s.Nodes, NodeStatus{Node: fmt.Sprintf("n%d", id), Live: true, Reached: version != "", Etcd: &EtcdStatus{
			Member: plan.ID(id), Status: plan.Status{Leader: i == 0, Version: version, ClusterVersion: cluster, StorageVersion: storage, Downgrade: downgrade}}})
	}
	return s, members, versions{cluster, downgrade}
}

func TestAssessDowngrade(t *testing.T) {
	const six, seven = "3.6.16", "3.7.3"
	for name, tc := range map[string]struct {
		etcds                       [3]string
		cluster, storage, downgrade string
		to                          string
		phase                       DowngradePhase
		why                         string
		replace                     []string
	}{
		"fresh":                {[3]string{seven, seven, seven}, "3.7.0", "3.7.0", "", "3.6", DowngradePossible, "", []string{"n2", "n3", "n1"}},
		"two minors":           {[3]string{seven, seven, seven}, "3.7.0", "3.7.0", "", "3.5", DowngradeRefused, "only 3.6 is possible", []string{"n2", "n3", "n1"}},
		"up":                   {[3]string{seven, seven, seven}, "3.7.0", "3.7.0", "", "3.8", DowngradeRefused, "only 3.6 is possible", nil},
		"a member is away":     {[3]string{seven, "", seven}, "3.7.0", "3.7.0", "", "3.6", DowngradeRefused, "runs member b", []string{"n3", "n1"}},
		"another is under way": {[3]string{seven, seven, seven}, "3.7.0", "3.7.0", "3.6.0", "3.5", DowngradeRefused, "a downgrade to 3.6.0 is under way", []string{"n2", "n3", "n1"}},
		"begun":                {[3]string{seven, seven, seven}, "3.7.0", "3.7.0", "3.6.0", "3.6", DowngradeWaiting, "n2 is still at 3.7.0", []string{"n2", "n3", "n1"}},
		"data to come":         {[3]string{seven, seven, seven}, "3.6.0", "3.7.0", "3.6.0", "3.6", DowngradeWaiting, "n2 is still at 3.7.0", []string{"n2", "n3", "n1"}},
		"ready":                {[3]string{seven, seven, seven}, "3.6.0", "3.6.0", "3.6.0", "3.6.0", DowngradeReady, "", []string{"n2", "n3", "n1"}},
		"half":                 {[3]string{seven, six, seven}, "3.6.0", "3.6.0", "3.6.0", "3.6", DowngradeReady, "", []string{"n3", "n1"}},
		"not over yet":         {[3]string{six, six, six}, "3.6.0", "3.6.0", "3.6.0", "3.6", DowngradeWaiting, "ends the downgrade within seconds", nil},
		"over":                 {[3]string{six, six, six}, "3.6.0", "3.6.0", "", "3.6", DowngradeDone, "", nil},
		"an upgrade, half":     {[3]string{seven, six, seven}, "3.6.0", "3.6.0", "", "3.6", DowngradeReady, "", []string{"n3", "n1"}},
		"about to rise":        {[3]string{seven, seven, seven}, "3.6.0", "3.6.0", "", "3.6", DowngradeRefused, "to which it rises any moment", []string{"n2", "n3", "n1"}},
	} {
		s, members, self := running(tc.etcds, tc.cluster, tc.storage, tc.downgrade)
		d, err := AssessDowngrade(s, members, map[uint64]string{1: "a", 2: "b", 3: "c"}, self.cluster, self.downgrade, tc.to)
		if err != nil || d.Phase != tc.phase || !strings.Contains(strings.Join(d.Why, "; "), tc.why) || !slices.Equal(d.Replace, tc.replace) {
			t.Errorf("%s: got %+v, %v; want %s because %q, to replace %v", name, d, err, tc.phase, tc.why, tc.replace)
		}
	}
}
