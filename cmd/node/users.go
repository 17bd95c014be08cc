package node

import (
	"fmt"

	"holdfast/embedded"
	"holdfast/embedded/auth"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// users is the node as the keeper of etcd's users and roles knows it.
type users struct {
	etcd     *embedded.Member
	now      func() coordinator.Situation
	remember func(coordinator.Entry)
}

func (u users) world() auth.World {
	return auth.World{Etcd: u.etcd, Leads: u.leadership, Obstacle: u.obstacle, Did: u.changed}
}

// leadership names this member's leadership: by the cluster, which a restore makes another one, and the term.
func (u users) leadership() string {
	s := u.etcd.Status()
	if !s.Running || !s.Ready || !s.Leader || !s.Confirmed {
		return ""
	}
	return fmt.Sprintf("%x of %x in term %d", s.ID, s.Cluster, s.Term)
}

// obstacle says why users and roles may not be changed now. A member that is down is no obstacle, for a password
// that leaked must be changed then too; a restore is, because it ends with other users.
func (u users) obstacle(asked bool) string {
	s, now := u.now(), u.etcd.Status() // the coordinator's view is up to a second old
	m := s.Observation.Member
	switch {
	case !now.Running || !now.Ready:
		return "this node runs no member that serves: run the command on one that does (see `holdfast status`)"
	case !now.HasLead:
		return "etcd has no leader: there is no quorum"
	case m.Alarmed(plan.Corrupt):
		return "etcd's alarm CORRUPT is up"
	case s.Restoring() != nil:
		return "a restore is under way"
	case m.Paused != nil && !asked:
		return "the cluster is paused"
	}
	return ""
}

// changed puts a step into the history.
func (u users) changed(s auth.Step, err error) {
	e := coordinator.Entry{Kind: coordinator.EntryAuth, Why: s.String(), Outcome: coordinator.Done}
	if err != nil {
		e.Outcome, e.Error = coordinator.Failed, err.Error()
	}
	u.remember(e)
}
