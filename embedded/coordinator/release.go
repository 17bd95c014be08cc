package coordinator

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
)

// GiveUp is the operator's order to release the held volume, so that another node can take it: the leadership
// is handed over, etcd is stopped, and the volume given up. From then on this process claims none. An error
// after that says what is left to do; the volume is not used any more all the same.
func (c *Coordinator) GiveUp(ctx context.Context) (Identity, error) {
	v, err := c.beginRelease()
	if err != nil {
		return Identity{}, err
	}
	id := v.Identity()
	c.lg.Warn("releasing the volume, as an operator has ordered", zap.String("slot", id.Slot), zap.String("volume", id.Volume))
	if err := c.world.Etcd.Stop(ctx); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.adopting, c.parked = false, false
		return id, fmt.Errorf("stop etcd: %w; the volume stays held", err)
	}
	err = v.Release(ctx, Drop)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volume, c.path, c.now.Volume, c.now.Path, c.adopting = nil, "", Identity{}, "", false
	c.Look()
	return id, err
}

// beginRelease makes sure that no action begins until the volume is given up.
func (c *Coordinator) beginRelease() (Volume, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.volume == nil:
		return nil, errors.New("this node holds no volume; run the command on the node that holds the slot")
	case c.now.Busy || c.adopting || c.dead:
		return nil, fmt.Errorf("this node is busy (%s): try again in a moment", c.now.Action.Why)
	}
	c.adopting, c.parked = true, true
	return c.volume, nil
}
