package coordinator

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// status is the loop's last report of what the node is doing, for anyone who asks. It asks the other parts before it
// takes its own lock.
type status struct {
	holding     *holding
	generations *generations
	restoring   *restoring
	asides      *asides
	upkeep      *upkeep
	saver       *saver
	bugs        *bugs

	mu  sync.Mutex
	now Situation
}

// last returns the latest situation without the volume, which only holding knows.
func (s *status) last() Situation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// get returns the latest situation.
func (s *status) get() Situation {
	now := s.last()
	now.Volume = s.holding.now().id
	if now.Delay != "" {
		now.Action.Obstacles = append(slices.Clone(now.Action.Obstacles), now.Delay)
	}
	return now
}

// looked stores the loop's observation, with what the other parts know now, and returns the situation.
func (s *status) looked(o plan.Observation) Situation {
	var conflicts []string
	s.bugs.guard("the look for conflicts", func() { conflicts = o.Conflicts() })
	aside, served := s.asides.serves(Situation{Observation: o}.State())
	open, objecting := s.generations.proposed()
	dismissed, unsaved, care, faults := s.restoring.recentlyDismissed(), s.saver.problem(), s.upkeep.status(), s.bugs.all()
	s.set(func(now *Situation) {
		now.Observation, now.Looked = o, time.Now()
		now.Unsaved, now.Aside, now.Served = unsaved, aside, served
		now.Dismissed = dismissed
		now.Open, now.Objecting, now.Upkeep = open, objecting, care
		now.Conflicts = conflicts
		now.Bugs = faults
	})
	s.holding.placeHistory(o)
	return s.get()
}

func (s *status) set(change func(now *Situation)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.now)
}

// decided notes a decision, and reports whether it is a new one.
func (s *status) decided(a plan.Action, busy bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.now.Action.Kind != a.Kind || s.now.Action.Text() != a.Text()
	s.now.Action, s.now.Busy = a, busy
	if changed {
		s.now.Since, s.now.Delay = time.Now(), ""
	}
	if a.Kind == plan.Wait {
		s.now.Err = ""
	}
	return changed
}

// acted notes how an action ended, or what delays it, and reports whether that is new.
func (s *status) acted(err error) (changed bool) {
	why, _ := errors.AsType[delay](err)
	if errors.Is(err, errNotYet) {
		err = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.now.Err != text(err)
	s.now.Busy, s.now.Err, s.now.Delay = false, text(err), string(why)
	_, address := errors.AsType[*net.OpError](err)
	_, outside := errors.AsType[Outside](err)
	s.now.Outside = address || outside
	return changed
}

// progress notes how far the current action has come.
func (s *status) progress(p Progress) { s.set(func(now *Situation) { now.Progress = p }) }

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
	case o.Stopping:
		return "waiting"
	}
	switch orElse(plan.PhaseWaiting, func() plan.Phase { return o.Facts(nil).Phase }) {
	case plan.PhaseBlank:
		r := orElse(nil, func() *plan.Record { return o.Survey().Record })
		if r != nil && !slices.ContainsFunc(r.Charter.Seats, func(s plan.Seat) bool { return s.Disk == o.Claim.Disk }) {
			return "joining" // a cluster without this disk exists
		}
		return "founding"
	case plan.PhaseFounder:
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
