package coordinator

import (
	"strings"
	"testing"
)

func voter(node, slot string, leader bool) NodeStatus {
	return NodeStatus{Node: node, Live: true, Reached: true, State: "follower", Volume: &VolumeStatus{Slot: slot},
		Etcd: &EtcdStatus{Leader: leader, HasLeader: true}}
}

func TestAssess(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(nodes []NodeStatus) []NodeStatus
		want   Health
		reason string
	}{
		"all well":                            {func(n []NodeStatus) []NodeStatus { return n }, Healthy, ""},
		"with a standby":                      {func(n []NodeStatus) []NodeStatus { return append(n, NodeStatus{Node: "n4", Live: true, Reached: true}) }, Healthy, ""},
		"a former node is lost":               {func(n []NodeStatus) []NodeStatus { return append(n, NodeStatus{Node: "n9", State: "lost"}) }, Healthy, ""},
		"a holder is lost":                    {func(n []NodeStatus) []NodeStatus { n[1].Live, n[1].Reached = false, false; return n }, Degraded, "slot b has no live holder"},
		"a holder is silent":                  {func(n []NodeStatus) []NodeStatus { n[1].Reached = false; return n }, Degraded, "does not answer"},
		"a learner":                           {func(n []NodeStatus) []NodeStatus { n[2].State = "learner"; return n }, Degraded, "slot c"},
		"a learner that does not know it yet": {func(n []NodeStatus) []NodeStatus { n[0].Etcd.Learners = []string{"c"}; return n }, Degraded, "slot c on n3 has no vote yet"},
		"an action fails":                     {func(n []NodeStatus) []NodeStatus { n[2].Error = "disk full"; return n }, Degraded, "n3: disk full"},
		"an alarm":                            {func(n []NodeStatus) []NodeStatus { n[0].Etcd.Alarms = []string{"NOSPACE"}; return n }, Degraded, "NOSPACE"},
		"a problem":                           {func(n []NodeStatus) []NodeStatus { n[0].Problems = []string{"two n1"}; return n }, Degraded, "n1: two n1"},
		"backups fail": {func(n []NodeStatus) []NodeStatus {
			n[0].Backup = &BackupStatus{Leading: true, Failures: 2, Error: "EIO"}
			return n
		}, Degraded, "EIO"},
		"a drill that failed": {func(n []NodeStatus) []NodeStatus {
			n[0].Backup = &BackupStatus{Leading: true, Drill: &DrillStatus{Name: "x", Error: "the hash differs"}}
			return n
		}, Degraded, "backup x could not be restored by a drill: the hash differs"},
		"a restore": {func(n []NodeStatus) []NodeStatus {
			n[2].Restore = &RestoreStatus{Title: "restore of b1", Backup: "b1", Generation: 2, State: RestorePreparing, Phase: "verifying", Done: 1, Total: 4}
			return n
		}, Degraded, "n3: a restore of b1 as generation 2 is under way: preparing, verifying, 25 %"},
		"an old leader's backup": {func(n []NodeStatus) []NodeStatus { n[1].Backup = &BackupStatus{Failures: 2, Error: "EIO"}; return n }, Healthy, ""},
		"no leader":              {func(n []NodeStatus) []NodeStatus { n[0].Etcd.Leader = false; return n }, NoQuorum, ""},
		"leader not reached":     {func(n []NodeStatus) []NodeStatus { n[0].Reached = false; return n }, NoQuorum, ""},
		"nothing at all":         {func([]NodeStatus) []NodeStatus { return nil }, NoQuorum, "slot a has no live holder"},
	} {
		t.Run(name, func(t *testing.T) {
			s := ClusterStatus{Nodes: tc.change([]NodeStatus{voter("n1", "a", true), voter("n2", "b", false), voter("n3", "c", false)})}
			Assess(&s, []string{"a", "b", "c"})
			if s.Health != tc.want || !strings.Contains(strings.Join(s.Reasons, "\n"), tc.reason) {
				t.Errorf("got %s because %q, want %s because %q", s.Health, s.Reasons, tc.want, tc.reason)
			}
			if tc.want == Healthy && len(s.Reasons) > 0 {
				t.Errorf("healthy, yet with reasons %q", s.Reasons)
			}
		})
	}
}
