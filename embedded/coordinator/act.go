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

	emptyLog = "empty-log" // the reason for setting aside a log without an entry, which is then deleted at once
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

	begun string // the start for which makeRoom has made room
}

// act carries out one action. Each step between which a crash could fall has a name.
func (ac *actor) act(ctx context.Context, o plan.Observation, a plan.Action) error {
	if err := ac.due(ctx, o, a); err != nil {
		return err
	}
	switch a.Kind {
	case plan.Acquire:
		return ac.acquire(ctx, o, a)
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
		if err := ac.tellStore(ctx, o, a); err != nil {
			return err
		}
		return ac.holding.record(a)
	case plan.Mirror:
		defer ac.generations.ask()
		return ac.mirror(ctx, *a.Record)
	case plan.Renounce:
		return ac.renounce(ctx, o, a)
	case plan.Start:
		defer ac.contest.end()
		return ac.start(ctx, o, a)
	case plan.SetAside:
		return ac.setAside(ctx, a)
	case plan.Leave:
		return ac.depart(ctx, a)
	case plan.Replace:
		return ac.members.replace(ctx, a)
	case plan.Promote:
		return ac.members.promote(ctx, a)
	case plan.Resize:
		return ac.members.resize(ctx, a)
	case plan.Remove:
		return ac.members.remove(ctx, a)
	case plan.Update:
		return ac.members.update(ctx, a)
	case plan.Propose:
		return ac.restorer.propose(ctx, o, a)
	case plan.Dismiss:
		return ac.restorer.dismiss(ctx, a)
	case plan.Prepare:
		return ac.restorer.prepare(ctx, o, a)
	case plan.Discard:
		return ac.restorer.discard(a)
	case plan.Conclude:
		return ac.restorer.conclude(ctx, o, a)
	case plan.Enter:
		return ac.restorer.enter(ctx, a)
	case plan.Swap:
		return ac.restorer.swap(a)
	case plan.Unlock:
		return ac.turn.giveBack(ctx, o)
	case plan.HandOver:
		return ac.turn.handOver(ctx)
	case plan.Defrag:
		return ac.turn.defragment(ctx, o)
	case plan.Reload:
		return ac.turn.reload(ctx, o)
	case plan.Compact:
		return ac.turn.compact(ctx, a.Revision)
	case plan.Raise:
		return ac.turn.raise(ctx, o, a.Alarm)
	case plan.Disarm:
		return ac.turn.disarm(ctx)
	}
	return fmt.Errorf("carry out %q: unknown action, which is a bug", a.Kind)
}

func (ac *actor) acquire(ctx context.Context, o plan.Observation, a plan.Action) error {
	v, err := ac.world.Volumes.Claim(ctx, o.Config.Slots, a.Known, ac.holding.now().left.avoided(a.Avoid))
	switch {
	case errors.Is(err, ErrNoVolume):
		ac.holding.set(func(now *held) { now.none, now.failed = err.Error(), "" })
		return errNotYet
	case err != nil:
		ac.holding.set(func(now *held) { now.none, now.failed = "", text(err) })
		return err
	}
	ac.holding.hold(v)
	return nil
}

// yield gives the volume up without a trace. Before that it forgets the promises, if there are any: they are moot. If
// the volume turns out to contain more, the node keeps it, with its promises.
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
			err = errors.Join(err, ac.holding.rewritePromises(now.ledger))
		}
		return err
	}
	ac.holding.forget()
	return nil
}

// tellStore puts the record of a founded or adopted cluster into the store, before the disk accepts it. The record of a
// cluster that was given back is replaced.
func (ac *actor) tellStore(ctx context.Context, o plan.Observation, a plan.Action) error {
	if !a.Mirror && !a.Over {
		return nil
	}
	ac.world.Step("before-mirror")
	if !a.Over {
		return ac.mirror(ctx, *a.Record)
	}
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := ac.world.Store.Replace(ctx, *o.Store.Record, *a.Record); err != nil {
		return fmt.Errorf("replace %s in the store by %s: %w", o.Store.Record.Token(), a.Record.Token(), err)
	}
	return nil
}

// adopt takes over another program's data: the record goes into the store, the data moves, and the disk accepts the
// record. After a kill between any two of these, the other program finds its data where it was, and the next attempt
// continues.
func (ac *actor) adopt(ctx context.Context, o plan.Observation, a plan.Action) error {
	path := ac.holding.now().id.Path
	now, err := ac.world.Etcd.Origin(path)
	// Else the record would be of a cluster that no longer exists.
	if err == nil && !reflect.DeepEqual(now, o.Disk.Origin) {
		err = errors.New("the data has changed since it was read")
	}
	if err != nil {
		return fmt.Errorf("adopt the data of %s: %w", o.Disk.Origin.Program, err)
	}
	if err := ac.tellStore(ctx, o, a); err != nil {
		return err
	}
	ac.world.Step("before-take-up")
	if err := ac.world.Etcd.TakeUp(path, *o.Disk.Origin); err != nil {
		return err
	}
	ac.world.Step("after-take-up")
	return ac.holding.record(a)
}

// note writes down what was observed. Before it notes that nobody else runs a member of an adopted cluster, it asks
// each node directly, because a member may have been given back since.
func (ac *actor) note(ctx context.Context, o plan.Observation, a plan.Action) error {
	if a.Ask {
		runs := func(f plan.Facts) bool { return f.Record != nil && f.Record.ID == a.Taken }
		if err := ac.peers.others(ctx, o, runs); err != nil {
			return err
		}
	}
	if a.Secured != nil && !a.Secured.Changed { // this promise is for good, so all members must answer with TLS
		for _, m := range o.Member.Members {
			if err := ac.world.Etcd.Reach(ctx, plan.PeerURL(a.Secured.PeerURL, m.Slot)); err != nil {
				return fmt.Errorf("reach slot %s with TLS, which all members must serve: %w", m.Slot, err)
			}
		}
	}
	return ac.holding.record(a)
}

// start starts etcd and notes on the disk that its log has begun. From then on the disk may not start as a founder or
// joiner without a log. Anything in the log's place that is no log is moved away first.
func (ac *actor) start(ctx context.Context, o plan.Observation, a plan.Action) error {
	if err := ac.world.Names.Check(ctx); err != nil {
		return fmt.Errorf("check the names of the members: %w", Outside{err})
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
		// The first slot's founder elects itself as soon as a majority is connected; two campaigns at once would split the
		// vote.
		Yields: ac.cfg.EarlyCampaign && founds && r.First() != o.Claim.Slot,
	}
	begin := func() error { return ac.world.Etcd.Start(ctx, spec) }
	var err error
	if founds && !a.Join {
		err = ac.names.onlyWhile(o.Claim.Slot, begin)
	} else { // not founded just now, so etcd's own question to its peers is one more guard
		err = begin()
	}
	if err != nil {
		ac.holding.noteUnfit(dir, err)
		return fmt.Errorf("start etcd: %w", err)
	}
	ac.world.Step("after-etcd")
	// etcd looks a joiner's ID up by its peer URL in the current member list. That may be an ID that was admitted for
	// another disk. Then the next decision sets the data aside.
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

// makeRoom sets aside whatever is in the place of a member's log before the member begins: etcd would take an old
// database for its own. What a failed attempt at the same start has left is used by the next attempt. The empty log of
// a founder that was killed in its first moments is deleted: etcd has made 128 MB of files for it, and repeated kills
// would fill the volume. If the log is empty although the disk has started, the log is damaged, and the files beside it
// may be needed.
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
		soon := time.Now().Add(time.Second) // set-aside data is timed to the second
		if _, err := ac.world.Etcd.Reclaim(held.id.Path, soon, []string{emptyLog}); err != nil {
			return fmt.Errorf("delete an empty log of etcd: %w", err)
		}
	}
	ac.begun = begun
	return nil
}

// born waits until a founder's log has its first entry, which etcd writes soon after its start. A joiner's log begins
// with what the leader sends. It is usable without an entry, and may never get one if the joiner is removed meanwhile.
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

// setAside renames the data of a former member. After a crash that follows the rename, the disk has started and has no
// log, so it is a replacement as well.
func (ac *actor) setAside(ctx context.Context, a plan.Action) error {
	if err := ac.world.Etcd.Stop(ctx, ac.cfg.StopWait); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	reason := cmp.Or(a.Reason, "removed")
	if r := ac.holding.now().ledger.Record; r != nil && a.Record.ID != r.ID {
		reason = "outlived" // the cluster continued without it
	}
	if err := ac.holding.asideEtcd(reason); err != nil {
		return err
	}
	return ac.holding.record(a)
}

// reclaimable are the reasons for which this node sets data aside that it may delete after a while. All of it is of
// this cluster. What an operator has set aside may be another cluster's, and is never deleted. Neither is data that
// went back in time ([plan.RolledBack]): if the other disks lost something, it may be the only copy.
var reclaimable = []string{emptyLog, "unborn", "removed", "outlived", "restored", "recovered"}

// renounce makes the disk forget what it promised and accepted, which only an operator can order.
func (ac *actor) renounce(ctx context.Context, o plan.Observation, a plan.Action) error {
	if a.Mirror {
		ctx, cancel := context.WithTimeout(ctx, storeAge)
		defer cancel()
		if err := ac.world.Store.MoveAside(ctx, o.Store.Record); err != nil {
			return fmt.Errorf("move the store's record aside: %w", err)
		}
	}
	if err := ac.holding.record(a); err != nil {
		return err
	}
	ac.holding.now().volume.SetRecord("") // otherwise this volume would forbid the founding that was ordered
	ac.generations.renounced()
	return nil
}

// mirror puts a record into the store.
func (ac *actor) mirror(ctx context.Context, r plan.Record) error {
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := ac.world.Store.Put(ctx, r); err != nil {
		return fmt.Errorf("put the record of %s into the store: %w", r.Token(), err)
	}
	return nil
}

// retire releases a volume that the cluster does not need.
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

// depart stops the member for good and notes that it has left its generation. Right before, it checks that this is
// still due.
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
		// Without the list, this disk counts only if its slot is named lost.
		if left.Members, err = ac.world.Etcd.MemberList(filepath.Join(ac.holding.now().id.Path, EtcdDir)); err != nil {
			ac.lg.Error("left the generation without knowing its members", zap.Error(err))
		}
		a.Left = &left
	}
	return ac.holding.record(a)
}
