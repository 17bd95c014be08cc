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

// disrupt takes the disruption lock for what may keep this member from serving, and holds it until release or for ttl,
// whichever comes first: a ttl must be longer than what it is taken for. The lock that an earlier life of this slot has
// left is taken over, and so is one that a restored database has brought back. If another one holds it the error says who, and wraps ErrConflict; there is no waiting.
func (c *Coordinator) disrupt(ctx context.Context, purpose string, ttl time.Duration) (release func(), err error) {
	value, err := c.lock(ctx, purpose, ttl)
	if err != nil {
		return nil, err
	}
	return func() { c.unlock(ctx, value) }, nil
}

// unlock gives the lock back as well as it can, whether or not ctx has ended.
func (c *Coordinator) unlock(ctx context.Context, value []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
	defer cancel()
	if err := c.world.Etcd.Unlock(ctx, value); err != nil {
		c.lg.Warn("the disruption lock was not given back; it is when this member serves, or ends by itself", zap.ByteString("lock", value), zap.Error(err))
	}
}

// giveBack carries out [plan.Unlock]: the lock that an earlier life of this slot has left.
func (c *Coordinator) giveBack(ctx context.Context, o plan.Observation) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	value, _, err := c.world.Etcd.Key(KeyLock)
	var l plan.Lock
	if err != nil || json.Unmarshal(value, &l) != nil || l.Slot != o.Claim.Slot {
		return err // it is gone, or another's by now
	}
	return c.world.Etcd.Unlock(ctx, value)
}

// lock takes the disruption lock and returns its value.
func (c *Coordinator) lock(ctx context.Context, purpose string, ttl time.Duration) (value []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	c.mu.Lock()
	slot, r := c.now.Volume.Slot, c.ledger.Record
	c.mu.Unlock()
	mine := plan.Lock{Slot: slot, Node: c.cfg.Node, Purpose: purpose, Since: time.Now().UTC().Truncate(time.Millisecond)}
	if r != nil {
		mine.Record = r.ID
	}
	value, err = json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	present, err := c.world.Etcd.TryLock(ctx, value, nil, ttl)
	var holder plan.Lock
	if errors.Is(err, ErrConflict) && json.Unmarshal(present, &holder) == nil && (holder.Slot == slot && holder.Node == c.cfg.Node || !holder.Holds(r)) {
		_, err = c.world.Etcd.TryLock(ctx, value, present, ttl)
	}
	if errors.Is(err, ErrConflict) && holder.Node != "" {
		return nil, fmt.Errorf("%s: %w", holder, ErrConflict)
	}
	return value, err
}
