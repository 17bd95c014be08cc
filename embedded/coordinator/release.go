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
	err = c.drop(ctx, v)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adopting = false
	c.Look()
	return id, err
}

// drop gives up a volume for anybody to take, after the last entries of its history. It is not used any more, whatever
// the error says is left to do about it.
func (c *Coordinator) drop(ctx context.Context, v Volume) error {
	c.history.leave()
	err := v.Release(ctx, Drop)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volume, c.path, c.now.Volume, c.now.Path = nil, "", Identity{}, ""
	return err
}

// Releasable returns an error if GiveUp would be refused, and else what would be released.
func (c *Coordinator) Releasable() (Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.releasable(); err != nil {
		return Identity{}, err
	}
	return c.volume.Identity(), nil
}

// beginRelease makes sure that no action begins until the volume is given up.
func (c *Coordinator) beginRelease() (Volume, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.releasable(); err != nil {
		return nil, err
	}
	c.disturb()
	c.parked = true
	return c.volume, nil
}

// releasable says what speaks against a release. The caller holds the lock.
func (c *Coordinator) releasable() error {
	switch {
	case c.volume == nil:
		return errors.New("this node holds no volume; run the command on the node that holds the slot")
	case c.now.Busy || c.adopting || c.dead:
		return fmt.Errorf("this node is busy (%s): try again in a moment", c.now.Action.Text())
	}
	return nil
}
