package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

const (
	askTimeout  = 3 * time.Second  // for a direct call to another node
	raftTimeout = 10 * time.Second // for a change of the member list
	bornEvery   = 10 * time.Millisecond
)

// act carries out one action. Each step that a crash could fall between has a name.
func (c *Coordinator) act(ctx context.Context, o plan.Observation, a plan.Action) error {
	switch a.Kind {
	case plan.Enter, plan.SetAside, plan.Vacate:
		if err := c.confirmed(ctx, o, a); err != nil {
			return err
		}
	case plan.Start:
		if o.Disk.WAL && !c.timely(ctx, o) {
			return errNotYet
		}
	}
	switch a.Kind {
	case plan.Acquire:
		return c.acquire(ctx, a)
	case plan.Yield:
		return c.yield(ctx)
	case plan.Promise, plan.Vacate, plan.Accept, plan.Repair, plan.Note, plan.Stay:
		return c.record(a)
	case plan.Commit:
		return c.commit(ctx, a)
	case plan.Start:
		return c.start(ctx, o, a)
	case plan.SetAside:
		return c.setAside(ctx, a)
	case plan.Replace:
		return c.replace(ctx, a)
	case plan.Promote:
		return c.promote(ctx, a)
	case plan.Resize:
		return c.resize(ctx, a)
	case plan.Remove:
		return c.remove(ctx, a)
	case plan.Retire:
		return c.retire(ctx)
	case plan.Renounce:
		return c.renounce(ctx, o, a)
	case plan.Mirror:
		return c.mirror(ctx, a)
	case plan.Propose:
		return c.propose(ctx, o, a)
	case plan.Dismiss:
		return c.dismiss(ctx, a)
	case plan.Prepare:
		return c.prepare(ctx, o, a)
	case plan.Discard:
		return c.discard(a)
	case plan.Conclude:
		return c.conclude(ctx, a)
	case plan.Leave:
		return c.depart(ctx, a)
	case plan.Enter:
		return c.enter(ctx, a)
	case plan.Swap:
		return c.swap(a)
	case plan.Unlock:
		return c.giveBack(ctx, o)
	case plan.HandOver:
		return c.handOver(ctx)
	case plan.Defrag:
		return c.defragment(ctx, o)
	case plan.Reload:
		return c.reload(ctx, o)
	case plan.Compact:
		return c.compact(ctx, a.Revision)
	case plan.Raise:
		return c.raise(ctx, o, a.Alarm)
	case plan.Disarm:
		return c.disarm(ctx)
	}
	return fmt.Errorf("no way to carry out %q: this is a bug", a.Kind)
}

// record writes what an action leaves in the ledger, to the disk first.
func (c *Coordinator) record(a plan.Action) error {
	c.mu.Lock()
	l, path, dead := c.ledger, c.path, c.dead
	l.Ledger = l.After(a, c.now.Volume.Disk)
	c.mu.Unlock()
	if dead {
		return ErrVolumeLost
	}
	if a.Kind == plan.Start {
		l.Etcd = c.cfg.Plan.Etcd
	}
	c.world.Step("before-" + string(a.Kind))
	if err := l.write(path); err != nil {
		return err
	}
	c.mu.Lock()
	c.ledger, c.found = l, true
	c.mu.Unlock()
	c.world.Step("after-" + string(a.Kind))
	return nil
}

func (c *Coordinator) acquire(ctx context.Context, a plan.Action) error {
	c.mu.Lock()
	slots := c.cfg.Plan.Slots
	c.mu.Unlock()
	v, err := c.world.Volumes.Claim(ctx, slots, a.Known, a.Avoid)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.none = err.Error()
		if errors.Is(err, ErrNoVolume) {
			return errNotYet
		}
		return err
	}
	c.hold(v)
	return nil
}

// hold takes up a claimed volume and reads what is on it. The caller holds the lock.
func (c *Coordinator) hold(v Volume) {
	c.volume, c.path, c.none, c.broken = v, v.Path(), "", ""
	c.now.Volume, c.now.Path = v.Identity(), c.path
	c.ledger, c.found = ledgerV1{Version: 1}, false
	if v.Mismatch() != "" {
		return
	}
	var err error
	if c.ledger, c.found, err = readLedger(c.path); err != nil {
		c.broken = err.Error()
	}
	if c.restoring.built, err = findBuilt(c.path, c.ledger.Prepared); err != nil {
		c.broken = err.Error()
	}
	for slot, a := range readAddresses(c.path) {
		if _, ok := c.known[slot]; !ok {
			c.known[slot] = a
		}
	}
}

func (c *Coordinator) yield(ctx context.Context) error {
	v := c.held()
	if err := v.Release(ctx, Yield); err != nil {
		return fmt.Errorf("give up the blank volume: %w", err)
	}
	c.mu.Lock()
	c.volume, c.path, c.now.Volume, c.now.Path = nil, "", Identity{}, ""
	c.mu.Unlock()
	return nil
}

// commit accepts the founding record: in the store, then on the disk. From then on it never changes.
func (c *Coordinator) commit(ctx context.Context, a plan.Action) error {
	if a.Mirror {
		c.world.Step("before-mirror")
		ctx, cancel := context.WithTimeout(ctx, storeAge)
		defer cancel()
		if err := c.world.Store.Put(ctx, *a.Record); err != nil {
			return fmt.Errorf("mirror the founding record to the store: %w", err)
		}
	}
	return c.record(a)
}

// start starts etcd and notes on the disk that its log has begun, which ends the disk's right to start as a
// founder or joiner without one. What lies where the log should be, and is none, makes way for it.
func (c *Coordinator) start(ctx context.Context, o plan.Observation, a plan.Action) error {
	if err := c.world.Names.Check(ctx); err != nil {
		return fmt.Errorf("check the names of the members: %w", err)
	}
	c.mu.Lock()
	path, trusted := c.path, c.ledger.Etcd == c.cfg.Plan.Etcd
	c.mu.Unlock()
	r, dir := a.Record, filepath.Join(path, EtcdDir)
	if !o.Disk.WAL {
		if err := c.makeRoom(dir, a); err != nil {
			return err
		}
	}
	c.world.Step("before-etcd")
	err := c.world.Etcd.Start(ctx, Spec{
		Slot: o.Claim.Slot, DataDir: dir, Token: r.Token(),
		PeerURL: plan.PeerURL(r.Charter.PeerURL, o.Claim.Slot), Peers: a.Peers, Join: a.Join, TrustWAL: trusted,
	})
	if err != nil {
		c.misfit(dir, err)
		return fmt.Errorf("start etcd: %w", err)
	}
	c.world.Step("after-etcd")
	// etcd finds a joiner's ID by its peer URL in the member list of this moment, which may be an ID that
	// was admitted for another disk. The next decision sets that data aside.
	if m, _ := c.world.Etcd.State(); a.Join && m.Running && m.ID != a.Member {
		err := fmt.Errorf("slot %s was admitted as learner %x, and etcd took the place of %x", o.Claim.Slot, a.Member, m.ID)
		return errors.Join(err, c.world.Etcd.Stop(ctx))
	}
	if o.Disk.Ledger.Started == "" || !trusted {
		if o.Disk.Ledger.Role != plan.RoleJoiner {
			if err := c.born(ctx, dir); err != nil {
				return err
			}
		}
		return c.record(a)
	}
	return nil
}

// makeRoom sets aside whatever lies where a member begins that has no log yet: an old database would be
// taken for its own. What a failed attempt at the same start has left is taken up by the next attempt.
func (c *Coordinator) makeRoom(dir string, a plan.Action) error {
	begun := fmt.Sprintf("%s %t %x", a.Record.ID, a.Join, a.Member)
	data, err := c.world.Etcd.Inspect(dir)
	if err != nil {
		return fmt.Errorf("look for old data: %w", err)
	}
	if c.begun == begun && !data.WAL {
		return nil
	}
	if err := c.asideEtcd("unborn"); err != nil {
		return err
	}
	c.begun = begun
	return nil
}

// born waits until the log of a founder has its first entry, which etcd writes soon after its start. A joiner's begins with what the
// leader sends: it can be taken up without any, and one that was removed meanwhile never gets any.
func (c *Coordinator) born(ctx context.Context, dir string) error {
	for {
		data, err := c.world.Etcd.Inspect(dir)
		if err != nil {
			return fmt.Errorf("wait for the first entry of etcd's log: %w", err)
		}
		if !data.Unborn {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(bornEvery):
		}
	}
}

// setAside renames the data of a member that is none any more. A crash after the rename leaves a disk
// that has started and has no log, which is a replacement as well.
func (c *Coordinator) setAside(ctx context.Context, a plan.Action) error {
	if err := c.world.Etcd.Stop(ctx); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	reason := cmp.Or(a.Reason, "removed")
	c.mu.Lock()
	if r := c.ledger.Record; r != nil && a.Record.ID != r.ID {
		reason = "outlived" // the cluster went on without it
	}
	c.mu.Unlock()
	if err := c.asideEtcd(reason); err != nil {
		return err
	}
	return c.record(a)
}

// Reclaimable are the reasons for which etcd's data is set aside here, and for which it is deleted after a while. It is
// all of this cluster. What an operator has set aside may be another's, and is never deleted. Nor is what went back in
// time ([plan.RolledBack]): if the others were the ones that lost something, it may be the only copy of it.
var Reclaimable = []string{"unborn", "removed", "outlived", "restored", "recovered"}

func (c *Coordinator) asideEtcd(reason string) error {
	c.mu.Lock()
	path := c.path
	c.mu.Unlock()
	c.world.Step("before-rename")
	to, err := c.world.Etcd.SetAside(filepath.Join(path, EtcdDir), reason)
	if err != nil {
		return fmt.Errorf("set etcd's data aside: %w", err)
	}
	if to != "" {
		c.lg.Warn("etcd's data was set aside; it is not deleted", zap.String("to", to))
	}
	return nil
}

// replace gives a slot's holder a new membership. That the holder has no data is asked of it directly:
// what gossip says may be old.
func (c *Coordinator) replace(ctx context.Context, a plan.Action) error {
	f, err := c.askFacts(ctx, a.Node)
	if err != nil {
		return fmt.Errorf("confirm that slot %s is vacant: %w", a.Slot, err)
	}
	if f.Slot != a.Slot || f.Disk != a.Disk || f.Phase != plan.PhaseVacant || f.Running {
		return fmt.Errorf("node %s now says of slot %s: disk %s, %s; not replacing its member", a.Node, a.Slot, f.Disk, f.Phase)
	}
	c.fresh(ctx, "change of the members", freshMember, saveMember)
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	if a.Member != 0 {
		c.world.Step("before-remove")
		if !c.stands(a) {
			return errNotYet
		}
		if err := c.world.Etcd.Remove(ctx, a.Member); err != nil {
			return notYet(fmt.Errorf("remove member %x of slot %s: %w", a.Member, a.Slot, err))
		}
		c.lg.Info("removed a member whose disk is lost", zap.String("slot", a.Slot), zap.String("member", fmt.Sprintf("%x", a.Member)))
		a.Member = 0
	}
	c.world.Step("before-add")
	if !c.stands(a) {
		return errNotYet // the slot may be without a member now: the next decision goes on from there
	}
	id, err := c.world.Etcd.AddLearner(ctx, plan.PeerURL(c.cfg.Plan.PeerURL, a.Slot))
	if err != nil {
		return notYet(fmt.Errorf("add a learner for slot %s: %w", a.Slot, err))
	}
	c.mu.Lock()
	c.admitted[a.Slot] = plan.Admission{Slot: a.Slot, Disk: a.Disk, ID: id}
	c.mu.Unlock()
	c.lg.Info("added a learner", zap.String("slot", a.Slot), zap.String("member", fmt.Sprintf("%x", id)), zap.String("node", a.Node))
	return nil
}

// notYet turns what etcd refuses only for now into no failure.
func notYet(err error) error {
	if errors.Is(err, ErrUnhealthy) {
		return errNotYet
	}
	return err
}

func (c *Coordinator) promote(ctx context.Context, a plan.Action) error {
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	err := c.world.Etcd.Promote(ctx, a.Member)
	if errors.Is(err, ErrNotReady) || errors.Is(err, ErrUnhealthy) {
		return errNotYet
	}
	if err != nil {
		return fmt.Errorf("promote learner %x of slot %s: %w", a.Member, a.Slot, err)
	}
	c.lg.Info("promoted a learner", zap.String("slot", a.Slot), zap.String("member", fmt.Sprintf("%x", a.Member)))
	return nil
}

// renounce makes the disk forget what it promised and accepted, which only an operator can order.
func (c *Coordinator) renounce(ctx context.Context, o plan.Observation, a plan.Action) error {
	if a.Mirror {
		ctx, cancel := context.WithTimeout(ctx, storeAge)
		defer cancel()
		if err := c.world.Store.MoveAside(ctx, *o.Store.Record); err != nil {
			return fmt.Errorf("move the store's record aside: %w", err)
		}
	}
	if err := c.record(a); err != nil {
		return err
	}
	c.mu.Lock()
	c.orders, c.store = plan.Orders{}, plan.Store{Unknown: "it is being asked again"}
	c.mu.Unlock()
	c.AskStore()
	return nil
}

// Answer answers another node's direct question; ok is false when it is none of ours.
func (c *Coordinator) Answer(ctx context.Context, question []byte) (answer []byte, ok bool, err error) {
	if value, ok := bytes.CutPrefix(question, []byte(askToRefresh)); ok {
		ctx, cancel := context.WithTimeout(ctx, lockTimeout)
		defer cancel()
		return nil, true, c.world.Etcd.RefreshLock(ctx, value)
	}
	if ok, err := c.answerConsent(ctx, question); ok {
		return nil, true, err
	}
	if answer, ok := c.answerLeave(ctx, question); ok {
		return answer, true, nil
	}
	if string(question) != askForFacts {
		return nil, false, nil
	}
	o, _ := c.observe()
	o.Member.Defragging = o.Member.Defragging || c.asks()
	answer, err = c.told(o, false)
	return answer, true, err
}

func (c *Coordinator) askFacts(ctx context.Context, node string) (f plan.Facts, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	data, err := c.world.Mesh.Ask(ctx, node, []byte(askForFacts))
	if err != nil {
		return f, err
	}
	told, err := ReadFacts(data)
	if err != nil {
		return f, fmt.Errorf("what node %s says is %w", node, err)
	}
	return *told, nil
}
