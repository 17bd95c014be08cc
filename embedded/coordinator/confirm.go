package coordinator

import (
	"context"
	"slices"

	"holdfast/embedded/plan"
)

// due looks again, right before an action that cannot be taken back, whether it is still to be done.
func (ac *actor) due(ctx context.Context, o plan.Observation, a plan.Action) error {
	switch a.Kind {
	case plan.Enter, plan.SetAside, plan.Vacate:
		return ac.confirmed(ctx, o, a)
	case plan.Start:
		if o.Disk.WAL && !ac.timely(ctx, o) {
			return errNotYet
		}
	}
	return nil
}

// confirmed asks the nodes whose word an action rests on directly: a leader that says that a member was removed, or the
// heirs of a later generation that no store proves.
func (ac *actor) confirmed(ctx context.Context, o plan.Observation, a plan.Action) error {
	if a.Node == "" && o.Store.Unknown == "" || a.Record == nil {
		return nil
	}
	mine := o.Disk.Ledger.Record
	if a.Node == "" && (mine == nil || a.Record.ID == mine.ID) {
		return nil
	}
	o.Peers = slices.Clone(o.Peers)
	asked := false
	for i, p := range o.Peers {
		if !p.Live || p.Facts == nil || p.Facts.Record == nil || p.Node != a.Node && p.Facts.Record.ID != a.Record.ID {
			continue
		}
		asked = true
		f, err := ac.peers.facts(ctx, p.Node)
		if err != nil || f.Leader && !f.Confirmed {
			o.Peers[i].Live = false
			continue
		}
		o.Peers[i].Facts = &f
	}
	if !asked {
		return nil
	}
	// the disk is read after the answer: all it had acknowledged by then is on it, even while etcd still ends here
	if a.Reason == plan.RolledBack {
		now, _ := ac.observer.observe()
		o.Disk, o.Member = now.Disk, now.Member
	}
	if again := ac.decider.next(o); again.Kind != a.Kind || again.Reason != a.Reason || again.Record == nil ||
		again.Record.ID != a.Record.ID {
		return errNotYet
	}
	return nil
}

// timely asks the leader directly whether the disk here went back in time, right before its member resumes: what the
// gossip tells of how far it had come may be some seconds old, or not there yet. Where no leader is heard, or none
// answers, the member starts: if a leader counts on what is not on the disk, etcd ends the process, and the next one
// asks again.
func (ac *actor) timely(ctx context.Context, o plan.Observation) bool {
	o.Peers = slices.Clone(o.Peers)
	for i, p := range o.Peers {
		if r := o.Disk.Ledger.Record; !p.Live || p.Facts == nil || !p.Facts.Leader || p.Facts.Record == nil ||
			p.Facts.Record.ID != r.ID {
			continue
		}
		if f, err := ac.peers.facts(ctx, p.Node); err == nil {
			o.Peers[i].Facts = &f
		}
	}
	return ac.decider.next(o).Kind == plan.Start
}
