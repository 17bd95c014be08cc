package cmd

import (
	"fmt"
	"net/http"
	"slices"

	"holdfast/cmd/control"
	"holdfast/embedded/auth"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// authWorld is what the keeper of etcd's users and roles sees of this node.
func (n *process) authWorld() auth.World {
	return auth.World{Etcd: n.etcd, Leads: n.leadership, Obstacle: n.authObstacle, Did: n.authChanged}
}

// leadership names this member's leadership: by the cluster, which a restore makes another one, and the term.
func (n *process) leadership() string {
	s := n.etcd.Status()
	if !s.Running || !s.Ready || !s.Leader || !s.Confirmed {
		return ""
	}
	return fmt.Sprintf("%x of %x in term %d", s.MemberID, s.ClusterID, s.Term)
}

// authObstacle says why users and roles may not be changed now. A member that is down is no obstacle, for a password that
// leaked must be changed then too; a restore is, because it ends with other users.
func (n *process) authObstacle(asked bool) string {
	s, now := n.coord.Now(), n.etcd.Status() // the coordinator's view is up to a second old
	m := s.Observation.Member
	switch {
	case !now.Running || !now.Ready:
		return "this node runs no member that serves: run the command on one that does (see `holdfast status`)"
	case now.LeaderID == 0:
		return "etcd has no leader: there is no quorum"
	case slices.Contains(m.Alarms, plan.Corrupt):
		return "etcd's alarm CORRUPT is up"
	case s.Restoring() != nil:
		return "a restore is under way"
	case m.Paused != nil && !asked:
		return "the cluster is paused"
	}
	return ""
}

// authChanged puts a step into the history.
func (n *process) authChanged(s auth.Step, err error) {
	e := coordinator.Entry{Kind: coordinator.EntryAuth, Why: s.String(), Outcome: coordinator.Done}
	if err != nil {
		e.Outcome, e.Error = coordinator.Failed, err.Error()
	}
	n.coord.Remember(e)
}

// controlAuth answers GET /auth with what would be changed, and POST /auth with what was.
func (n *process) controlAuth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || control.Dry(r) {
		report, err := n.auth.Plan()
		control.Reply(w, report, err)
		return
	}
	report, err := n.auth.Apply(r.Context())
	if err != nil && len(report.Steps) > 0 {
		err = fmt.Errorf("%w; before that, %d steps were made (see `holdfast history`)", err, len(report.Steps))
	}
	control.Reply(w, report, err)
}
