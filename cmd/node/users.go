package node

import (
	"fmt"

	"holdfast/embedded/auth"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// users adapts the node to the keeper of etcd's users and roles.
type users struct{ *node }

func (u users) world() auth.World {
	return auth.World{Etcd: u.etcd, Leads: u.leadership, Obstacle: u.obstacle, Did: u.changed}
}

// leadership identifies this member's leadership, or is "" if it does not lead. It includes the cluster ID, because
// terms begin again after a restore.
func (u users) leadership() string {
	s := u.etcd.Status()
	if !s.Running || !s.Ready || !s.Leader || !s.Confirmed {
		return ""
	}
	return fmt.Sprintf("%x of %x in term %d", s.ID, s.Cluster, s.Term)
}

// obstacle returns why users and roles may not be changed now, or "". asked says that an operator asked for the
// change. A member that is down is no obstacle, because a leaked password must be changed all the same. A restore is
// one, because it replaces the users.
func (u users) obstacle(asked bool) string {
	s, now := u.coord.Now(), u.etcd.Status() // the situation is up to a second old
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

// changed adds a step to the history.
func (u users) changed(s auth.Step, err error) {
	e := coordinator.Entry{Kind: coordinator.EntryAuth, Why: s.String(), Outcome: coordinator.Done}
	if err != nil {
		e.Outcome, e.Error = coordinator.Failed, err.Error()
	}
	u.coord.Remember(e)
}
