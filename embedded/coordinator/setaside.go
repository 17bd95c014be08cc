package coordinator

import (
	"context"
	"errors"
	"fmt"

	"holdfast/embedded/plan"
)

// SetVolumeAside is the operator's order to set the whole content of the held volume aside. The volume becomes another,
// blank disk, and its slot starts over in whatever cluster exists. It is refused while etcd runs, and if nothing is
// wrong. Data on which etcd cannot be started is wrong, unless another process has etcd's address.
func (c *Coordinator) SetVolumeAside(ctx context.Context) error {
	v, err := c.holding.order(c.status, held.keepsContent)
	if err != nil {
		return err
	}
	if err = c.holding.unused(v.Identity().Path); err == nil {
		err = v.SetAllAside(ctx)
	}
	if err == nil {
		c.holding.hold(v)
	}
	c.holding.open()
	c.look()
	return err
}

// MaySetVolumeAside returns an error if SetVolumeAside would be refused, otherwise the volume.
func (c *Coordinator) MaySetVolumeAside() (plan.Volume, error) {
	held := c.holding.now()
	if err := held.keepsContent(c.Now()); err != nil {
		return plan.Volume{}, err
	}
	if err := c.holding.unused(held.id.Path); err != nil {
		return plan.Volume{}, err
	}
	return held.id, nil
}

// unused returns an error while an etcd, even another program's, uses data on the volume: it would continue to write to
// the renamed data.
func (h *holding) unused(path string) error {
	by, err := h.world.Etcd.InUse(path)
	if err == nil && by != "" {
		err = fmt.Errorf("an etcd works on %s: stop it first", by)
	}
	if err != nil {
		return fmt.Errorf("set the content of the volume aside: %w", err)
	}
	return nil
}

// keepsContent returns an error if the content of the volume must not be set aside now.
func (h held) keepsContent(now Situation) error {
	o := now.Observation
	copied := o.Disk.Ledger.Started != "" && o.Disk.Ledger.Started != o.Claim.Disk
	unfit := now.Action.Kind == plan.Start && now.Err != ""
	switch {
	case h.volume == nil:
		return errors.New("this node holds no volume; run the command on the node that holds the slot")
	case o.Member.Running:
		return fmt.Errorf("etcd runs on slot %s: its data is in use and is not set aside", o.Claim.Slot)
	case unfit && now.Address:
		return fmt.Errorf("nothing is wrong with the content of slot %s: %s", o.Claim.Slot, now.Err)
	case now.Action.Kind != plan.Wait && !unfit || h.gate.busy || h.gate.closed:
		return fmt.Errorf("the content of slot %s need not be set aside: %s", o.Claim.Slot, now.Action.Text())
	case o.Claim.Mismatch == "" && o.Claim.Missing == "" && !o.Disk.WAL && o.Disk.Origin == nil &&
		o.Disk.Unknown == "" && !copied:
		return fmt.Errorf("the volume of slot %s holds nothing to set aside: %s", o.Claim.Slot, now.Action.Text())
	}
	return nil
}
