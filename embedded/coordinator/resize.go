package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// Reconfigure sets the wanted slots, sorted. What becomes of them the cluster decides: see [plan.Resize].
func (c *Coordinator) Reconfigure(slots []string) {
	c.mu.Lock()
	c.cfg.Plan.Slots = slots
	c.mu.Unlock()
	c.Look()
}

// resize makes a set of slots what the cluster has agreed on, if it follows the one that is there: a leader that was
// deposed meanwhile, or has decided on an old one, changes nothing.
func (c *Coordinator) resize(ctx context.Context, a plan.Action) error {
	data, version, err := c.world.Etcd.Key(KeySlots)
	if err != nil {
		return fmt.Errorf("read the agreed slots: %w", err)
	}
	var now plan.SlotSet
	if version > 0 {
		if err := json.Unmarshal(data, &now); err != nil {
			return fmt.Errorf("decode the agreed slots: %w", err)
		}
	}
	if now.Record != a.Set.Record {
		now.Serial = 0 // it came with a restored database, and is of the generation before
	}
	if a.Set.Serial != now.Serial+1 {
		return errNotYet
	}
	if data, err = json.Marshal(a.Set); err != nil {
		return fmt.Errorf("encode the agreed slots: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	c.world.Step("before-resize")
	if !c.stands(a) {
		return errNotYet
	}
	if err := c.world.Etcd.PutKey(ctx, KeySlots, data, version); errors.Is(err, ErrConflict) {
		return errNotYet
	} else if err != nil {
		return fmt.Errorf("agree on the slots: %w", err)
	}
	c.world.Step("after-resize")
	c.lg.Warn("agreed on other slots", zap.Strings("slots", a.Set.Slots), zap.Uint64("serial", a.Set.Serial))
	return nil
}

// remove takes a member out of the list that the cluster does not want, or whose join came to nothing.
func (c *Coordinator) remove(ctx context.Context, a plan.Action) error {
	c.fresh(ctx, "change of the members", freshMember, saveMember)
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	c.world.Step("before-shrink")
	if !c.stands(a) {
		return errNotYet
	}
	if err := c.world.Etcd.Remove(ctx, a.Member); err != nil {
		return notYet(fmt.Errorf("remove member %x of slot %s: %w", a.Member, a.Slot, err))
	}
	c.world.Step("after-shrink")
	c.lg.Warn("removed a member", zap.String("slot", a.Slot), zap.String("member", fmt.Sprintf("%x", a.Member)), zap.String("why", a.Text()))
	return nil
}

// retire gives up a volume that the cluster does not need.
func (c *Coordinator) retire(ctx context.Context) error {
	v := c.held()
	id := v.Identity()
	c.world.Step("before-retire")
	err := c.drop(ctx, v)
	c.world.Step("after-retire")
	if err != nil {
		return fmt.Errorf("release the volume of slot %s: %w", id.Slot, err)
	}
	c.lg.Warn("released a volume that the cluster does not need", zap.String("slot", id.Slot), zap.String("volume", id.Volume))
	return nil
}
