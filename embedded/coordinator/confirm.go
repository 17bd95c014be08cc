package coordinator

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"holdfast/embedded/plan"
)

// goneTimeout is how long a node may take to say that it is gone; soon after that, the gossip knows.
const goneTimeout = time.Second

// due checks again, right before an action, that the action is still due. Before an irreversible step it asks the nodes
// whose facts justify the step.
func (ac *actor) due(ctx context.Context, o plan.Observation, a plan.Action) error {
	if a.Kind == plan.Start { // the contest comes last, because its answers expire
		if o.Disk.WAL && !ac.timely(ctx, o) {
			return errNotYet
		}
		return ac.contest.enter(ctx)
	}
	free := make(chan bool, 1)
	go func() { free <- o.Member.Running || ac.gone(ctx, o) }()
	var err error
	switch {
	case a.Kind == plan.Enter, a.Kind == plan.SetAside, a.Kind == plan.Vacate:
		err = ac.confirmed(ctx, o, a)
		if err == nil && a.Kind == plan.Vacate && !o.Disk.WAL {
			err = ac.fits(ctx, o, a.Record)
		}
	case a.Kind == plan.Replace && ac.serves(ctx, o, a.Member):
		err = errNotYet
	}
	if !<-free && err == nil {
		err = errNotYet
	}
	return err
}

// fits returns an error if a blank volume has no room for a copy of the leader's database. A learner that cannot take
// it would be in everyone's way.
func (ac *actor) fits(ctx context.Context, o plan.Observation, r *plan.Record) error {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	for _, p := range o.Peers {
		if f := p.Facts; p.Live && f != nil && f.Leader && f.Record != nil && f.Record.ID == r.ID {
			if why := o.Claim.NoRoom(ac.world.Database(ctx, p.Node)); why != "" {
				return delay(why)
			}
		}
	}
	return nil
}

// gone reports whether the nodes whose lock we have are gone. A machine that was cloned with its memory has the same
// lock as the clone, and both may be live. So each node must say that it no longer holds the disk, or its machine must
// say that nobody listens there. Without an answer, only the gossip can tell when the node is gone.
func (ac *actor) gone(ctx context.Context, o plan.Observation) bool {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	for _, node := range o.Ousted() {
		f, err := ac.peers.facts(ctx, node)
		if err == nil && f.Disk == o.Claim.Disk || err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			return false
		}
	}
	return true
}

// serves reports whether a node says that it runs a member that is to be replaced. In the gossip that node counts as
// gone if another node claims its lock, which may be a lie. So it is asked directly.
func (ac *actor) serves(ctx context.Context, o plan.Observation, member uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	return slices.ContainsFunc(o.Peers, func(p plan.Peer) bool {
		if member == 0 || !p.Live || p.Facts == nil || p.Facts.Member != member {
			return false
		}
		f, err := ac.peers.facts(ctx, p.Node)
		return err == nil && f.Running && f.Member == member
	})
}

// confirmed directly asks the nodes whose facts justify an action: a leader that says a member was removed, or the
// heirs of a later generation that no shared store proves.
func (ac *actor) confirmed(ctx context.Context, o plan.Observation, a plan.Action) error {
	if a.Node == "" && plan.Arbitrated(o) || a.Record == nil {
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
	// The disk is read after the answer. So it has everything that it had acknowledged by then, even if etcd is still
	// stopping.
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

// timely asks the leader directly, right before a member resumes, whether the disk here went back in time: what the
// gossip says about the acknowledged index may be some seconds old, or missing. If no leader is known, or none answers,
// the member starts. If a leader relies on entries that the disk lacks, etcd ends the process, and the next one asks
// again.
func (ac *actor) timely(ctx context.Context, o plan.Observation) bool {
	ousted := o.Ousted() // whose facts do not count
	o.Peers = slices.Clone(o.Peers)
	for i, p := range o.Peers {
		if r := o.Disk.Ledger.Record; !p.Live || p.Facts == nil || !p.Facts.Leader || p.Facts.Record == nil ||
			p.Facts.Record.ID != r.ID || slices.Contains(ousted, p.Node) {
			continue
		}
		if f, err := ac.peers.facts(ctx, p.Node); err == nil {
			o.Peers[i].Facts = &f
		}
	}
	return ac.decider.next(o).Kind == plan.Start
}
