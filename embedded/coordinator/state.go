package coordinator

import (
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// State returns the situation as one of [health.States].
func (s Situation) State() string {
	o := s.Observation
	switch m := o.Member; {
	case m.Running && m.HasLead && m.Learner:
		return "learner"
	case m.Running && m.HasLead && m.Stalled && !m.Defragging:
		return "stalled"
	case m.Running && m.HasLead && m.Leader:
		return "leader"
	case m.Running && m.HasLead:
		return "follower"
	case m.Running:
		return "waiting"
	case !o.Claim.Held && o.Claim.None == "":
		return "claiming"
	case !o.Claim.Held:
		return health.Standby
	case o.Drained:
		return "drained"
	}
	switch orElse(plan.PhaseWaiting, func() plan.Phase { return o.Facts(nil).Phase }) {
	case plan.PhaseBlank, plan.PhaseFounder:
		return "founding"
	case plan.PhaseVacant, plan.PhaseJoiner:
		return "joining"
	case plan.PhaseData:
		return "starting"
	}
	return "waiting"
}

// Next returns what the pause holds this node back from, nil for nothing.
func (s Situation) Next() *health.Next {
	if s.Observation.Member.Paused == nil {
		return nil
	}
	a := orElse(plan.Action{Kind: plan.Wait}, func() plan.Action { return plan.Resumed(s.Observation) })
	if a.Kind == plan.Wait {
		return nil
	}
	return &health.Next{Action: a.Kind, Why: a.Text()}
}
