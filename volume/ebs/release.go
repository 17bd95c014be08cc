package ebs

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// Release implements [volume.Claim]. Without drop the volume stays attached to this machine, which adopts it at its
// next start. With drop the volume is detached and its claim removed.
func (c *claim) Release(ctx context.Context, drop bool) error {
	c.End()
	p := c.p
	_ = p.op.Acquire(context.WithoutCancel(ctx), 1) // only Watch can have it, and End has ended Watch
	defer p.op.Release(1)
	if p.held.Load() != c {
		return nil
	}
	defer func() {
		p.leave()
		p.held.Store(nil)
		p.status.problem("grow", "")
		p.seen.again()
	}()
	if lost := c.Lost(); lost != nil {
		return lost
	}
	p.status.at(stateReleasing, c.vol, "unmounts it")
	p.step("before-unmount")
	err := p.host.Disks.Unmount(ctx, c.dir)
	if errors.Is(err, syscall.EBUSY) && !drop {
		p.log.Warn("the volume stays mounted, for the next start", zap.String("path", c.dir), zap.Error(err))
		err = nil
	}
	if err == nil && drop {
		err = c.drop(ctx)
	}
	if err != nil {
		return fmt.Errorf("release %s (slot %s): %w", c.vol, c.Want.Slot, err)
	}
	p.status.at(stateIdle, "", "")
	return nil
}

// drop detaches the volume, and removes the claim if it is still this one.
func (c *claim) drop(ctx context.Context) error {
	p := c.p
	p.status.at(stateReleasing, c.vol, "detaches it")
	if err := p.requests.detach(ctx, c.vol); err != nil {
		return err
	}
	var devices map[string]string
	for last := time.Now().Add(releaseWait); ; {
		var err error
		if devices, err = p.host.Devices(); err != nil {
			return err
		}
		if devices[c.vol] == "" {
			v, ok, err := p.one(ctx, c.vol)
			if err == nil && ok && holder(v) != p.me.Instance {
				break
			}
		}
		if time.Now().After(last) {
			return fmt.Errorf("the detach was requested, and is not complete after %s", releaseWait)
		}
		if err := pause(ctx, releaseLook); err != nil {
			return err
		}
	}
	if _, err := p.requests.settle(ctx, devices); err != nil {
		return err
	}
	p.step("before-untag")
	if err := p.claims.Remove(ctx, c.vol, c.tag.String()); err != nil && MeaningOf(err) != Denied {
		return fmt.Errorf("it is detached, but its claim could not be removed: %w; others take it after %s", err,
			p.cfg.TakeoverAfter)
	}
	p.setbacks.postpone(c.vol, p.cfg.TakeoverAfter) // the node that gave it up is not the first to take it again
	p.log.Info("released a volume", zap.String("volume", c.vol), zap.String("slot", c.Want.Slot))
	return nil
}
