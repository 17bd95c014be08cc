package coordinator

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"holdfast/embedded/plan"
)

// goneTimeout is how long a node may take to say that it is gone; by then the gossip soon knows.
const goneTimeout = time.Second

// due looks again, right before an action, whether it is still to be done: what cannot be taken back is asked of the
// nodes that it rests on.
func (ac *actor) due(ctx context.Context, o plan.Observation, a plan.Action) error {
	if a.Kind == plan.Start { // the contest comes last, for its answers do not keep
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
	case a.Kind == plan.Replace && ac.serves(ctx, o, a.Member):
		err = errNotYet
	}
	if !<-free && err == nil {
		err = errNotYet
	}
	return err
}

// gone reports whether those whose lock we have are gone. A machine that was cloned with its memory has the same lock
// as the clone, and both may live. So each says itself that it holds the disk no more, or its machine that nobody
// listens there. Where there is no answer, only the gossip knows when it is gone.
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

// serves reports whether a node says that it runs a member that is to be replaced. Its word in the gossip does not
// count any more if another node says that it has its lock, which may be a lie.
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
	ousted := o.Ousted() // whose word does not count
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
