package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// lockTimeout bounds one call about the disruption lock.
const lockTimeout = 3 * time.Second

// turn is this member's turn to be down or busy on purpose: the disruption lock, and what is done under it or with the
// leader's permission. No two members have it at once.
type turn struct {
	env
	holding   *holding
	observer  *observer
	announcer *announcer
	upkeep    *upkeep
	peers     peers
}

// unlock tries to return the lock, if it was taken, even if ctx has ended.
func (t *turn) unlock(ctx context.Context, value []byte) {
	if value == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
	defer cancel()
	if err := t.world.Etcd.Unlock(ctx, value); err != nil {
		t.lg.Warn("could not return the disruption lock; it is returned when this member serves, or expires",
			zap.ByteString("lock", value), zap.Error(err))
	}
}

// giveBack carries out [plan.Unlock]: it returns the lock that this slot's previous process left.
func (t *turn) giveBack(ctx context.Context, o plan.Observation) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	value, _, err := t.world.Etcd.Key(plan.KeyLock)
	var l plan.Lock
	if err != nil || json.Unmarshal(value, &l) != nil || l.Slot != o.Claim.Slot {
		return err // it is gone, or another slot's by now
	}
	return t.world.Etcd.Unlock(ctx, value)
}

// lock takes the disruption lock for something that may keep this member from serving, and returns its value. The lock
// is held until unlock or for ttl, so ttl must be longer than that takes. A lock that this slot's previous process left
// is taken over, and so is one that a restored database brought back, or that nobody will return (see
// [plan.Observation.Moot]). If another slot holds the lock, the error says who, and wraps plan.ErrConflict; lock does
// not wait.
func (t *turn) lock(ctx context.Context, purpose string, ttl time.Duration) (value []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	held := t.holding.now()
	slot, r := held.id.Slot, held.ledger.Record
	mine := plan.Lock{Slot: slot, Node: t.cfg.Node, Purpose: purpose, Since: time.Now().UTC().Truncate(time.Millisecond)}
	if r != nil {
		mine.Record = r.ID
	}
	value, err = json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	present, err := t.world.Etcd.TryLock(ctx, value, nil, ttl)
	var holder plan.Lock
	if errors.Is(err, plan.ErrConflict) && json.Unmarshal(present, &holder) == nil {
		now, _ := t.observer.observe()
		if holder.Slot == slot && holder.Node == t.cfg.Node || !holder.Holds(r) || now.Moot(holder) {
			_, err = t.world.Etcd.TryLock(ctx, value, present, ttl)
		}
	}
	if errors.Is(err, plan.ErrConflict) && holder.Node != "" {
		return nil, heldBy{holder}
	}
	return value, err
}

// heldBy says who holds the lock. It is a [plan.ErrConflict].
type heldBy struct{ plan.Lock }

func (h heldBy) Error() string { return h.Lock.String() }
func (heldBy) Unwrap() error   { return plan.ErrConflict }

// inTurn takes the disruption lock and looks again. By the leader's report, no obstacle may remain. If this member
// leads, all others must say that they are done: the gossip is slow to show what gives every member something to do.
func (t *turn) inTurn(ctx context.Context, purpose string, ttl time.Duration,
	obstacle func(plan.Observation, []plan.MemberInfo) string, done func(plan.Facts) bool) (release func(), err error) {
	value, err := t.lock(ctx, purpose, ttl)
	if errors.Is(err, plan.ErrConflict) {
		return nil, delay(lockRisk(err))
	} else if err != nil {
		return nil, err
	}
	release = func() { t.unlock(ctx, value) }
	now, _ := t.observer.observe()
	why := obstacle(now, t.leaderSees(ctx, now))
	if now.Member.Leader {
		err = t.peers.others(ctx, now, done)
	}
	if err == nil && why != "" {
		err = delay(why)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// stepDown makes sure that this member does not lead, unless it is the only voter.
func (t *turn) stepDown(ctx context.Context, o plan.Observation) error {
	if !o.Member.Leader || o.Member.Voters() == 1 {
		return nil
	}
	return t.handOver(ctx)
}

// handOver transfers the leadership to another voter.
func (t *turn) handOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	t.world.Step("before-hand-over")
	if err := t.world.Etcd.TransferLeadership(ctx); err != nil {
		return notYet(fmt.Errorf("hand the leadership over: %w", err))
	}
	t.world.Step("after-hand-over")
	if m, _ := t.world.Etcd.State(); m.Leader && m.Voters() > 1 {
		return errors.New("hand the leadership over: this member still leads")
	}
	return nil
}

// ask takes the disruption lock, and returns the remaining risk. It also returns the lock's value if it is not known
// whether the lock was taken.
func (t *turn) ask(ctx context.Context, purpose string) (value []byte, risk string) {
	value, err := t.lock(ctx, purpose, t.cfg.Hold)
	if err != nil {
		return value, lockRisk(err)
	}
	return value, t.risk(ctx)
}

// risk returns what is at risk without this member, by the leader's current report.
func (t *turn) risk(ctx context.Context) string {
	o, _ := t.observer.observe()
	return o.Disruption(t.leaderSees(ctx, o))
}

// leaderSees returns the member list as the leader reports it now, with those connected that have answered it since it
// was asked; nil if no leader answers.
func (t *turn) leaderSees(ctx context.Context, o plan.Observation) []plan.MemberInfo {
	if o.Member.Leader {
		return t.observer.hear(ctx).Facts(nil).Seen()
	}
	for _, node := range t.peers.running(o) {
		// The member that leads by now may not have announced it yet.
		if f, err := t.peers.tell(ctx, node, askWhoAnswers); err == nil && f.Leader && f.CID == o.Disk.ClusterID {
			return f.Seen()
		}
	}
	return nil
}

// cede hands the leadership over if this member has it, and returns the risk as the new leader reports it: that the old
// one hears the others does not show that they hear each other.
func (t *turn) cede(ctx context.Context) (risk string) {
	o, _ := t.observer.observe()
	if !o.Member.Leader {
		return ""
	}
	if err := t.stepDown(ctx, o); err != nil {
		return err.Error()
	}
	return t.risk(ctx)
}

// keepLock refreshes the lock of a drained node until ctx ends. etcd does not run here, so a running member does it.
func (t *turn) keepLock(ctx context.Context) {
	failed := false
	for every(ctx, max(t.cfg.Hold/4, tick)) {
		value := t.holding.now().drained.value
		if value == nil {
			failed = false
			continue
		}
		err := t.refreshElsewhere(ctx, value)
		if err != nil && !failed && ctx.Err() == nil {
			t.lg.Warn("could not refresh the disruption lock: once it expires, another member may be taken "+
				"down while this one is", zap.Error(err))
		}
		failed = err != nil
	}
}

// askToRefresh begins a question that asks a node to refresh the disruption lock; its value follows.
const askToRefresh = "refresh-lock "

// refreshElsewhere asks the running members one after the other.
func (t *turn) refreshElsewhere(ctx context.Context, value []byte) error {
	last := errors.New("no other node runs a member")
	o, _ := t.observer.observe()
	for _, node := range t.peers.running(o) {
		_, err := t.peers.ask(ctx, node, append([]byte(askToRefresh), value...))
		if err == nil {
			return nil
		}
		last = fmt.Errorf("node %s: %w", node, err)
	}
	return last
}

// refresh refreshes the lock for another node, which holds it.
func (t *turn) refresh(ctx context.Context, value []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	return nil, t.world.Etcd.RefreshLock(ctx, value)
}

// reload stops the member so that it is started with the authorities that are in its files now: the next decision is to
// resume. If there is a leader, and the members will find each other again, it takes the disruption lock and hands over
// first. If the member cannot be stopped yet, the lock is returned. Once the member is being stopped, the lock is kept
// until it serves again and returns it ([plan.Unlock]), or until stop.hold is over.
func (t *turn) reload(ctx context.Context, o plan.Observation) error {
	handOver := time.Duration(0)
	if alone := o.Member.Adrift() || o.Severed(); !alone {
		release, err := t.inTurn(ctx, "reload", t.cfg.Hold, plan.Observation.Unready,
			func(f plan.Facts) bool { return !f.Stale })
		if err != nil {
			return err
		}
		if err := t.stepDown(ctx, o); err != nil {
			release()
			return err
		}
		handOver = handOverTime // it may lead again by now
	} else if now, _ := t.observer.observe(); !now.Member.Stale || !now.Member.Adrift() && !now.Severed() {
		return errNotYet
	}
	t.world.Step("before-reload")
	begin := time.Now()
	if err := t.world.Etcd.Stop(ctx, handOver); err != nil {
		return fmt.Errorf("stop etcd to restart it with its new authorities: %w", err)
	}
	t.lg.Info("stopped etcd to restart it with its new authorities",
		zap.Duration("took", time.Since(begin)))
	t.world.Step("after-reload")
	return nil
}
