package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

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
	if r := s.Restore; r != nil { // a second one would get the next number, and hide the first
		return plan.Restore{}, fmt.Errorf("a %s is under way, proposed by %s: see `holdfast status`, or abort it with "+
			"`holdfast restore --abort`", r.Title(), r.By)
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
	if why := o.Behind(); why != "" {
		return plan.Restore{}, fmt.Errorf("%s: run `holdfast rejoin --instead` there, or stop that node to continue without "+
			"what it holds", why)
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

// Reconfigure sets this node's wanted slots, sorted, or says that they are not set. The cluster decides what comes of
// them: see [plan.Resize].
func (c *Coordinator) Reconfigure(slots []string, unset bool) {
	c.observer.want(slots, unset)
	c.look()
}

// Pause stops, on all nodes, what they do to the cluster on their own. Operators' orders, fencing, stopping and backups
// continue. It is kept in etcd, so it needs a quorum. With dry it only checks whether it could. An error wraps
// plan.ErrConflict if another command came first.
func (c *Coordinator) Pause(ctx context.Context, p plan.Pause, dry bool) error {
	now, version, err := c.pausable()
	if err != nil {
		return err
	}
	if m, _ := c.world.Etcd.State(); m.Alarmed(plan.NoSpace) {
		return errors.New("a pause is a write, and etcd refuses writes under the alarm NOSPACE: make room first (see " +
			"`holdfast status --why`)")
	}
	if now != nil && (now.Return || !p.Return) { // going back is more than a pause
		return fmt.Errorf("the cluster is paused already, by %s since %s%s", now.By, now.Since.UTC().Format(time.RFC3339),
			reason(*now))
	}
	if r := c.holding.now().ledger.Record; r != nil {
		p.Record = r.ID
	}
	data, err := json.Marshal(p)
	if err != nil || dry {
		return err
	}
	return c.putPause(ctx, data, version)
}

// Resume ends a pause, and returns it. With dry it only checks whether it could.
func (c *Coordinator) Resume(ctx context.Context, dry bool) (plan.Pause, error) {
	now, version, err := c.pausable()
	if err != nil {
		return plan.Pause{}, err
	}
	if now == nil {
		return plan.Pause{}, errors.New("the cluster is not paused, as far as this node knows")
	}
	// The pause says what an adopted record would remember: that another program may run members.
	if r := c.holding.now().ledger.Record; now.Return && r != nil && r.Cause != plan.Adopted {
		o, _ := c.observer.observe()
		if foreign := o.Foreign(); len(foreign) > 0 {
			return plan.Pause{}, fmt.Errorf("another program may still run the members of slots %s, and they would count as "+
				"lost: start holdfast there first, or, if a machine is gone for good, remove its member with `holdfast "+
				"etcdctl member remove`", strings.Join(foreign, ", "))
		}
	}
	if dry {
		return *now, nil
	}
	return *now, c.putPause(ctx, nil, version)
}

// pausable returns the current pause, nil for none, and the version of its key, if it can be changed.
func (c *Coordinator) pausable() (*plan.Pause, int64, error) {
	m, _ := c.world.Etcd.State()
	switch {
	case !m.Running:
		return nil, 0, errors.New("a pause is kept in etcd, and this node runs no member: run the command on a node that " +
			"does (see `holdfast status`)")
	case !m.HasLead:
		return nil, 0, errors.New("a pause is kept in etcd, which needs a quorum, and this member has no leader; without a " +
			"quorum nothing is done to the members by itself anyway (see `holdfast status --why`)")
	}
	data, version, err := c.world.Etcd.Key(plan.KeyPaused)
	if err != nil || version == 0 {
		return nil, version, err
	}
	p := new(plan.Pause)
	if err := json.Unmarshal(data, p); err != nil {
		p.By = "somebody whose word this version cannot read"
	}
	if !p.Holds(c.holding.now().ledger.Record) {
		return nil, version, nil
	}
	return p, version, nil
}

func (c *Coordinator) putPause(ctx context.Context, value []byte, version int64) error {
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	if err := c.world.Etcd.PutKey(ctx, plan.KeyPaused, value, version); err != nil {
		if errors.Is(err, plan.ErrConflict) {
			return fmt.Errorf("another command came first, nothing was changed: %w", err)
		}
		return fmt.Errorf("%w; whether it took effect is not known: see `holdfast status`", err)
	}
	c.look()
	return nil
}

func reason(p plan.Pause) string {
	if p.Why == "" {
		return ""
	}
	return " (" + p.Why + ")"
}
