package coordinator

import (
	"errors"
	"fmt"

	"holdfast/embedded/plan"
)

// Order passes on an operator's order. It is refused if etcd's data is here, because these orders are for disks without
// a member. It is also refused if there is nothing to give up: a waiting order would break a promise that is made
// later. With dry it only checks whether the order would be refused.
func (c *Coordinator) Order(orders plan.Orders, dry bool) error {
	now := c.Now()
	o := now.Observation
	l := o.Disk.Ledger
	switch {
	case !o.Claim.Held:
		return errors.New("this node holds no volume, so there is nothing to give up; run the command on " +
			"the node that holds the slot")
	case o.Disk.WAL || o.Disk.Origin != nil:
		return fmt.Errorf("slot %s has etcd data, which this command never gives up; nothing was changed", o.Claim.Slot)
	case o.Disk.Unknown != "":
		return fmt.Errorf("slot %s may have etcd data, which this command never gives up; nothing was changed: %s",
			o.Claim.Slot, o.Disk.Unknown)
	case orders.Abandon && (l.Promise() == nil || l.Record != nil),
		orders.New && l.Promise() == nil && l.Record == nil && o.Store.Record == nil && o.Store.Managed == "":
		return fmt.Errorf("slot %s has nothing to give up; it waits because: %s", o.Claim.Slot, now.Action.Text())
	}
	return c.give(orders, dry)
}

// Rejoin is an operator's choice to set this disk's data aside, because the cluster continued without it, and to join
// the newest generation. With dry it only checks whether it would be refused.
func (c *Coordinator) Rejoin(dry bool) error {
	o, _ := c.observer.observe()
	if !o.Apart() {
		return ErrNotApart
	}
	return c.give(plan.Orders{Join: true}, dry)
}

// ErrNotApart is returned if the cluster has not continued without the data of this node.
var ErrNotApart = errors.New("the cluster has not continued without the data of this node")

// Part is an operator's order to give up this member's data, which differs from that of a majority of all voters. The
// caller must have compared them. With dry nothing is done.
func (c *Coordinator) Part(dry bool) error { return c.give(plan.Orders{Differs: true}, dry) }

// Continue makes the proposal to continue from this disk, instead of the generation that began without it (R19), as the
// generation after that one. The revision is raised beyond both. lost are the slots of that generation's lost voters,
// and last is its revision as far as known; led says that its leader will consent.
func (c *Coordinator) Continue(lost []string, last int64, led bool) (plan.Restore, error) {
	o, _ := c.observer.observe()
	s := o.Store
	if !o.Apart() || s.Record == nil || s.Unknown != "" {
		return plan.Restore{}, fmt.Errorf("%w, so there is nothing to choose between; it says: %s", ErrNotApart,
			c.Now().Action.Text())
	}
	own := o.Member.Revision
	if l := o.Disk.Ledger.Left; l != nil {
		own = max(own, l.Revision)
	}
	q := plan.Request{Survivor: o.Claim.Slot, Disk: o.Claim.Disk, Log: o.Disk.Log, Lost: lost}
	p := newContinuation(*s.Record, s.Attempts, q, o.Disk.Ledger.Record.ID, own, last, c.cfg.RevisionBump)
	p.PeerURL = plan.SecureURL(*s.Record, o.Config.PeerURL)
	if why := o.Hopeless(&p); why != "" && !led {
		return plan.Restore{}, errors.New(why)
	}
	return p, nil
}

// RecoverAlone orders a recovery after majority and store were lost together (R16): from this disk, with every other
// voter named lost. The order ends with the process.
func (c *Coordinator) RecoverAlone(lost []string, by string, dry bool) (plan.Restore, error) {
	o, _ := c.observer.observe()
	mine := o.Disk.Ledger.Record
	chosen, refusal := o.Survey().ChooseAlone(lost, o.Claim.Slot)
	switch {
	case o.Store.Unknown == "":
		return plan.Restore{}, errors.New("the backup store answers: run `holdfast recover` without --without-store, which " +
			"is safer, for everyone sees it there")
	case mine == nil:
		return plan.Restore{}, errors.New("the disk of this node knows no generation of the cluster")
	case refusal != "":
		return plan.Restore{}, errors.New(refusal)
	}
	r := NewRecovery(*mine, 0, plan.Request{By: by, Survivor: chosen.Slot, Disk: chosen.Disk, Log: chosen.Log, Lost: lost},
		o.Member.Revision, c.cfg.RevisionBump)
	r.PeerURL = plan.SecureURL(*mine, o.Config.PeerURL)
	return r, c.give(plan.Orders{Alone: &r}, dry)
}

// give notes orders that are valid for what is on the disk now.
func (c *Coordinator) give(orders plan.Orders, dry bool) error {
	if dry {
		return nil
	}
	c.generations.order(orders, c.Now().Observation)
	return nil
}

// Reconfigure sets this node's wanted slots, sorted. The cluster decides what comes of them: see [plan.Resize].
func (c *Coordinator) Reconfigure(slots []string) {
	c.observer.want(slots)
	c.look()
}
