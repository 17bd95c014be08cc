package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

const (
	askTimeout  = 3 * time.Second  // for a direct call to another node
	raftTimeout = 10 * time.Second // for a change of the member list
	bornEvery   = 10 * time.Millisecond

	emptyLog = "empty-log" // why a log without an entry is set aside, to be deleted at once
)

// actor carries out one action of the plan at a time.
type actor struct {
	env
	holding     *holding
	observer    *observer
	generations *generations
	decider     *decider
	peers       peers
	members     *members
	restorer    *restorer
	turn        *turn
	names       *names
	contest     *contest

	begun string // the start for which room was made
}

// act carries out one action. Each step that a crash could fall between has a name.
func (ac *actor) act(ctx context.Context, o plan.Observation, a plan.Action) error {
	if err := ac.due(ctx, o, a); err != nil {
		return err
	}
	switch a.Kind {
	case plan.Acquire:
		return ac.acquire(ctx, a)
	case plan.Yield:
		return ac.yield(ctx, a)
	case plan.Retire:
		return ac.retire(ctx)
	case plan.Promise, plan.Vacate, plan.Accept, plan.Repair, plan.Stay:
		return ac.holding.record(a)
	case plan.Note:
		return ac.note(ctx, o, a)
	case plan.Adopt:
		return ac.adopt(ctx, o, a)
	case plan.Commit:
		return ac.commit(ctx, a)
	case plan.Mirror:
		return ac.mirror(ctx, a)
	case plan.Renounce:
		return ac.renounce(ctx, o, a)
	case plan.Start:
		defer ac.contest.end()
		return ac.start(ctx, o, a)
	case plan.SetAside:
		return ac.setAside(ctx, a)
	case plan.Leave:
		return ac.depart(ctx, a)
	case plan.Replace, plan.Promote, plan.Resize, plan.Remove, plan.Update:
		return ac.members.act(ctx, a)
	case plan.Propose, plan.Dismiss, plan.Prepare, plan.Discard, plan.Conclude, plan.Enter, plan.Swap:
		return ac.restorer.act(ctx, o, a)
	}
	return ac.turn.act(ctx, o, a)
}

func unknown(a plan.Action) error { return fmt.Errorf("no way to carry out %q: this is a bug", a.Kind) }

func (ac *actor) acquire(ctx context.Context, a plan.Action) error {
	v, err := ac.world.Volumes.Claim(ctx, ac.observer.wanted(), a.Known, ac.holding.now().left.avoided(a.Avoid))
	if err != nil {
		if !errors.Is(err, ErrNoVolume) {
			ac.holding.without("", err.Error())
			return err
		}
		ac.holding.without(err.Error(), "")
		return errNotYet
	}
	ac.holding.hold(v)
	return nil
}

// yield gives the volume up without a trace, and first its promises, if it made any: they are moot. Where the volume
// turns out to hold more, it stays, with its promises.
func (ac *actor) yield(ctx context.Context, a plan.Action) error {
	now := ac.holding.now()
	if now.found {
		if err := ac.holding.record(a); err != nil {
			return err
		}
	}
	if err := now.volume.Release(ctx, Yield); err != nil {
		err = fmt.Errorf("give up the blank volume: %w", err)
		if now.found {
			err = errors.Join(err, ac.holding.restate(now.ledger))
		}
		return err
	}
	ac.holding.forget()
	return nil
}

// commit accepts the record of a founding: in the store, then on the disk. From then on it never changes.
func (ac *actor) commit(ctx context.Context, a plan.Action) error {
	if err := ac.tellStore(ctx, a); err != nil {
		return err
	}
	return ac.holding.record(a)
}

// tellStore puts the record of a cluster that begins here into the store, before the disk accepts it.
func (ac *actor) tellStore(ctx context.Context, a plan.Action) error {
	if !a.Mirror {
		return nil
	}
	ac.world.Step("before-mirror")
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := ac.world.Store.Put(ctx, *a.Record); err != nil {
		return fmt.Errorf("put the record of %s into the store: %w", a.Record.Token(), err)
	}
	return nil
}

// replace tells the store as tellStore does, also where the record of a cluster that was given back is in the way.
func (ac *actor) replace(ctx context.Context, o plan.Observation, a plan.Action) error {
	if !a.Over {
		return ac.tellStore(ctx, a)
	}
	ac.world.Step("before-mirror")
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := ac.world.Store.Replace(ctx, *o.Store.Record, *a.Record); err != nil {
		return fmt.Errorf("put %s into the store in the place of %s: %w", a.Record.Token(), o.Store.Record.Token(), err)
	}
	return nil
}

// adopt takes up another program's data: the store is told, the data moves, the disk accepts the record. Killed between
// any two of these, the other program finds its data where it was, and the next attempt does the rest.
func (ac *actor) adopt(ctx context.Context, o plan.Observation, a plan.Action) error {
	path := ac.holding.now().id.Path
	now, err := ac.world.Etcd.Origin(path)
	if err == nil && !reflect.DeepEqual(now, o.Disk.Origin) { // the record would be of a cluster that is no more
		err = errors.New("the data has changed since it was looked at")
	}
	if err != nil {
		return fmt.Errorf("adopt the data of %s: %w", o.Disk.Origin.Program, err)
	}
	if err := ac.replace(ctx, o, a); err != nil {
		return err
	}
	ac.world.Step("before-take-up")
	if err := ac.world.Etcd.TakeUp(path, *o.Disk.Origin); err != nil {
		return err
	}
	ac.world.Step("after-take-up")
	return ac.holding.record(a)
}

// note writes down what was heard. That nobody else runs a member of an adopted cluster any more is asked of each node
// directly: one that was heard of may have been given back since.
func (ac *actor) note(ctx context.Context, o plan.Observation, a plan.Action) error {
	if a.Ask {
		runs := func(f plan.Facts) bool { return f.Record != nil && f.Record.ID == a.Taken }
		if err := ac.peers.others(ctx, o, runs); err != nil {
			return err
		}
	}
	if a.Secured != nil && !a.Secured.Changed { // it is for good, so the others must be there with TLS
		for _, m := range o.Member.Members {
			if err := ac.world.Etcd.Reach(ctx, plan.PeerURL(a.Secured.PeerURL, m.Slot)); err != nil {
				return fmt.Errorf("reach slot %s with TLS, as all members are to: %w", m.Slot, err)
			}
		}
	}
	return ac.holding.record(a)
}

// start starts etcd and notes on the disk that its log has begun, which ends the disk's right to start as a
// founder or joiner without one. What lies where the log should be, and is not a log, makes way for it.
func (ac *actor) start(ctx context.Context, o plan.Observation, a plan.Action) error {
	if err := ac.world.Names.Check(ctx); err != nil {
		return fmt.Errorf("check the names of the members: %w", err)
	}
	held := ac.holding.now()
	trusted := held.ledger.Etcd == ac.cfg.Plan.Etcd
	r, dir := a.Record, filepath.Join(held.id.Path, EtcdDir)
	if !o.Disk.WAL {
		if err := ac.makeRoom(dir, a); err != nil {
			return err
		}
	}
	founds := o.Disk.Fresh && !o.Disk.WAL
	ac.world.Step("before-etcd")
	spec := plan.Spec{
		Slot: o.Claim.Slot, DataDir: dir, Token: r.EtcdToken(),
		PeerURL: a.Peers[o.Claim.Slot], Peers: a.Peers, Join: a.Join, TrustWAL: trusted,
		// The first slot's founder elects itself as soon as a majority is there; two at once would split the vote.
		Yields: ac.cfg.EarlyCampaign && founds && r.First() != o.Claim.Slot,
	}
	begin := func() error { return ac.world.Etcd.Start(ctx, spec) }
	var err error
	if founds && !a.Join {
		err = ac.names.among(o.Claim.Slot, begin)
	} else { // of what was not founded just now, etcd's own question is one more guard
		err = begin()
	}
	if err != nil {
		ac.holding.misfit(dir, err)
		return fmt.Errorf("start etcd: %w", err)
	}
	ac.world.Step("after-etcd")
	// etcd finds a joiner's ID by its peer URL in the member list of this moment, which may be an ID that
	// was admitted for another disk. The next decision sets that data aside.
	if m, _ := ac.world.Etcd.State(); a.Join && m.Running && m.ID != a.Member {
		err := fmt.Errorf("slot %s was admitted as learner %x, and etcd took the place of %x", o.Claim.Slot, a.Member, m.ID)
		return errors.Join(err, ac.world.Etcd.Stop(ctx, ac.cfg.StopWait))
	}
	if o.Disk.Ledger.Started == "" || !trusted {
		if o.Disk.Ledger.Role != plan.RoleJoiner {
			if err := ac.born(ctx, dir); err != nil {
				return err
			}
		}
		return ac.holding.record(a)
	}
	return nil
}

// makeRoom sets aside whatever lies where a member begins that has no log yet: an old database would be
// taken for its own. What a failed attempt at the same start has left is taken up by the next attempt. The empty log of
// a founder that was killed in its first moments is deleted: etcd has made 128 MB of files for it, and killed time and
// again a founder would fill its volume with them. A log that is empty although the disk has started is damaged, and
// what lies beside it may be needed.
func (ac *actor) makeRoom(dir string, a plan.Action) error {
	begun := fmt.Sprintf("%s %t %x", a.Record.ID, a.Join, a.Member)
	data, err := ac.world.Etcd.Inspect(dir)
	if err != nil {
		return fmt.Errorf("look for old data: %w", err)
	}
	if ac.begun == begun && !data.WAL {
		return nil
	}
	held, reason := ac.holding.now(), "unborn"
	if data.Unborn && held.ledger.Started == "" {
		reason = emptyLog
	}
	if err := ac.holding.asideEtcd(reason); err != nil {
		return err
	}
	if reason == emptyLog {
		soon := time.Now().Add(time.Second) // what is set aside bears the second
		if _, err := ac.world.Etcd.Reclaim(held.id.Path, soon, []string{emptyLog}); err != nil {
			return fmt.Errorf("delete an empty log of etcd: %w", err)
		}
	}
	ac.begun = begun
	return nil
}

// born waits until the log of a founder has its first entry, which etcd writes soon after its start. A joiner's begins
// with what the leader sends: it can be taken up without any, and one that was removed meanwhile never gets any.
func (ac *actor) born(ctx context.Context, dir string) error {
	for {
		data, err := ac.world.Etcd.Inspect(dir)
		if err != nil {
			return fmt.Errorf("wait for the first entry of etcd's log: %w", err)
		}
		if !data.Unborn {
			return nil
		}
		if !every(ctx, bornEvery) {
			return ctx.Err()
		}
	}
}

// setAside renames the data of a former member. A crash after the rename leaves a disk
// that has started and has no log, which is a replacement as well.
func (ac *actor) setAside(ctx context.Context, a plan.Action) error {
	if err := ac.world.Etcd.Stop(ctx, ac.cfg.StopWait); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	reason := cmp.Or(a.Reason, "removed")
	if r := ac.holding.now().ledger.Record; r != nil && a.Record.ID != r.ID {
		reason = "outlived" // the cluster went on without it
	}
	if err := ac.holding.asideEtcd(reason); err != nil {
		return err
	}
	return ac.holding.record(a)
}

// reclaimable are the reasons for which etcd's data is set aside here, and for which it is deleted after a while. It is
// all of this cluster. What an operator has set aside may be another's, and is never deleted. Nor is what went back in
// time ([plan.RolledBack]): if the others were the ones that lost something, it may be the only copy of it.
var reclaimable = []string{emptyLog, "unborn", "removed", "outlived", "restored", "recovered"}

// renounce makes the disk forget what it promised and accepted, which only an operator can order.
func (ac *actor) renounce(ctx context.Context, o plan.Observation, a plan.Action) error {
	if a.Mirror {
		ctx, cancel := context.WithTimeout(ctx, storeAge)
		defer cancel()
		if err := ac.world.Store.MoveAside(ctx, o.Store.Record); err != nil {
			return fmt.Errorf("give up what the store knows: %w", err)
		}
	}
	if err := ac.holding.record(a); err != nil {
		return err
	}
	ac.generations.renounced()
	return nil
}

// mirror puts our own record into a store that does not have it.
func (ac *actor) mirror(ctx context.Context, a plan.Action) error {
	defer ac.generations.ask()
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := ac.world.Store.Put(ctx, *a.Record); err != nil {
		return fmt.Errorf("put the record into the store: %w", err)
	}
	return nil
}

// retire gives up a volume that the cluster does not need.
func (ac *actor) retire(ctx context.Context) error {
	v := ac.holding.now().volume
	id := v.Identity()
	ac.world.Step("before-retire")
	err := ac.holding.drop(ctx, v)
	ac.world.Step("after-retire")
	if err != nil {
		return fmt.Errorf("release the volume of slot %s: %w", id.Slot, err)
	}
	ac.lg.Warn("released a volume that the cluster does not need", zap.String("slot", id.Slot),
		zap.String("volume", id.ID))
	return nil
}

// depart stops the member for good and notes that it has left its generation. Right before, it looks whether that is
// still to do.
func (ac *actor) depart(ctx context.Context, a plan.Action) error {
	if o, _ := ac.observer.observe(); ac.decider.next(o).Kind != plan.Leave {
		return errNotYet
	}
	ac.world.Step("before-leave-stop")
	if err := ac.world.Etcd.Stop(ctx, 0); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	ac.world.Step("after-leave-stop")
	if left := *a.Left; len(left.Members) == 0 {
		var err error
		// then it counts only as far as its slot is named lost
		if left.Members, err = ac.world.Etcd.MemberList(filepath.Join(ac.holding.now().id.Path, EtcdDir)); err != nil {
			ac.lg.Error("left without knowing the members of the generation", zap.Error(err))
		}
		a.Left = &left
	}
	return ac.holding.record(a)
}
