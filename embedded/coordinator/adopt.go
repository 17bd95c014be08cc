package coordinator

import (
	"context"
	"errors"
	"fmt"

	"holdfast/embedded/plan"
)

// Adopt is the operator's order to set everything on the held volume aside, so that it becomes another,
// blank disk, and its slot starts anew in whatever cluster exists. It is refused while etcd runs, and where
// nothing is wrong. That etcd cannot be started on the data is wrong enough.
func (c *Coordinator) Adopt(ctx context.Context) error {
	v, err := c.beginAdoption()
	if err != nil {
		return err
	}
	err = v.Adopt(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adopting = false
	if err != nil {
		return err
	}
	c.hold(v)
	c.Look()
	return nil
}

// Adoptable returns an error if Adopt would be refused, and else where the content of the volume would lie aside.
func (c *Coordinator) Adoptable() (path string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.adoptable(); err != nil {
		return "", err
	}
	return c.path, nil
}

// beginAdoption makes sure that no action begins until the adoption is over.
func (c *Coordinator) beginAdoption() (Volume, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.adoptable(); err != nil {
		return nil, err
	}
	c.disturb()
	return c.volume, nil
}

// adoptable says what speaks against an adoption. The caller holds the lock.
func (c *Coordinator) adoptable() error {
	o := c.now.Observation
	copied := o.Disk.Ledger.Started != "" && o.Disk.Ledger.Started != o.Claim.Disk
	unfit := c.now.Action.Kind == plan.Start && c.now.Err != ""
	switch {
	case c.volume == nil:
		return errors.New("this node holds no volume; run the command on the node that holds the slot")
	case o.Member.Running:
		return fmt.Errorf("etcd runs on slot %s: its data is in use and is not set aside", o.Claim.Slot)
	case c.now.Action.Kind != plan.Wait && !unfit || c.now.Busy || c.adopting:
		return fmt.Errorf("slot %s needs no adoption: %s", o.Claim.Slot, c.now.Action.Text())
	case o.Claim.Mismatch == "" && o.Claim.Missing == "" && !o.Disk.WAL && o.Disk.Unknown == "" && !copied:
		return fmt.Errorf("the volume of slot %s holds nothing to set aside: %s", o.Claim.Slot, c.now.Action.Text())
	}
	return nil
}
