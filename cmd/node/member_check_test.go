package node

import (
	"testing"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// What /readyz says of the member. While the process stops, what it was before says nothing.
func TestMemberCheck(t *testing.T) {
	led := &health.EtcdStatus{Status: plan.Status{HasLead: true, Confirmed: true, Term: 2, Revision: 7}}
	for _, c := range []struct {
		name     string
		status   health.NodeStatus
		stopping bool
		detail   string
		err      string
	}{
		{"serves", health.NodeStatus{State: "leader", Why: "serving as the leader", Etcd: led}, false, "leader, term 2, revision 7", ""},
		{"waits for its turn to stop", health.NodeStatus{State: "leader", Etcd: led}, true, "leader, term 2, revision 7", ""},
		{"stops", health.NodeStatus{State: "leader", Why: "the node is stopping"}, true, "", "the node is stopping"},
		{"starts", health.NodeStatus{State: "starting", Why: "slot a resumes"}, false, "", "starting: slot a resumes"},
		{"no read is answered", health.NodeStatus{State: "leader", Why: "serving", Etcd: &health.EtcdStatus{Status: plan.Status{HasLead: true}}}, false, "",
			"leader, but no read through it was answered in the last seconds: serving"},
		{"a learner", health.NodeStatus{State: "learner", Why: "catching up", Etcd: &health.EtcdStatus{Status: plan.Status{HasLead: true, Learner: true}}}, false, "",
			"learner: catching up"},
	} {
		got := memberCheck(c.status, c.stopping)
		var text string
		if got.Err != nil {
			text = got.Err.Error()
		}
		if got.Detail != c.detail || text != c.err {
			t.Errorf("%s:\ngot  %q, error %q\nwant %q, error %q", c.name, got.Detail, text, c.detail, c.err)
		}
	}
}
