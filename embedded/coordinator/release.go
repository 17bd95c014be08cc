package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// GiveUp is the operator's order to release the held volume, so that another node can take it. The leadership is handed
// over, etcd is stopped, and the volume released. From then on, this process claims none. An error after that says what
// is left to do; the volume is no longer used in any case.
func (c *Coordinator) GiveUp(ctx context.Context) (plan.Volume, error) {
	v, err := c.holding.order(c.status, held.releasable)
	if err != nil {
		return plan.Volume{}, err
	}
	id, dropped, err := c.letGo(ctx, v, "as an operator has ordered")
	if dropped {
		c.holding.setDrained(drained{}) // there is no member to start again, and nobody keeps its lock
		c.holding.open()
		c.look()
	}
	return id, err
}

// HandBack releases the held volume as GiveUp does, because this machine is about to go, as why says. This node claims
// a volume again as soon as its provider allows it; unless must is set, it leaves its slot to other nodes for leftTime
// first. Without must, the disruption lock is needed; if the cluster would be at risk, or is paused, nothing is done,
// and the error says why. dropped says that the volume is no longer held, whatever the error says is left to do.
func (c *Coordinator) HandBack(ctx context.Context, why string, must bool) (id plan.Volume, dropped bool, err error) {
	v, err := c.holding.order(c.status, held.releasable)
	if err != nil {
		return plan.Volume{}, false, err
	}
	if o, _ := c.turn.observer.observe(); o.Member.Paused != nil && !must {
		c.holding.open()
		return v.Identity(), false, fmt.Errorf("%s has paused what nodes do by themselves", o.Member.Paused.By)
	}
	value, risk := c.turn.ask(ctx, "hand back") // the slot's next holder returns the lock, or it expires
	switch {
	case risk != "" && !must:
		c.turn.unlock(ctx, value)
		c.holding.open()
		return v.Identity(), false, errors.New(risk)
	case risk != "":
		c.lg.Warn("giving the volume back at a risk: the cluster may be without a quorum", zap.String("risk", risk))
	}
	id, dropped, err = c.letGo(ctx, v, why)
	if dropped {
		if !must {
			c.holding.set(func(now *held) { now.left = left{id.Slot, time.Now().Add(leftTime)} })
		}
		c.holding.unpark()
		c.look()
	}
	return id, dropped, err
}

// leftTime is how long a node leaves a slot to others. It is long enough for a standby that looks for volumes a few
// times a minute, and short enough if nobody comes.
const leftTime = 30 * time.Second

// left is a slot that this node has given back, although it could serve it, for another node to take.
type left struct {
	slot  string
	until time.Time
}

// avoided returns the slots that this node does not claim, with the reasons: those of the action, and the one left to
// others.
func (l left) avoided(also map[string]string) map[string]string {
	if !time.Now().Before(l.until) || also[l.slot] != "" {
		return also
	}
	all := maps.Clone(also)
	if all == nil {
		all = map[string]string{}
	}
	all[l.slot] = fmt.Sprintf("slot %s was given back for another node to take; this one claims it at %s if nobody has",
		l.slot, l.until.UTC().Format("15:04:05 UTC"))
	return all
}

// letGo stops etcd and releases the volume. If the member cannot be stopped, the volume stays held and dropped is
// false.
func (c *Coordinator) letGo(ctx context.Context, v Volume, why string) (id plan.Volume, dropped bool, err error) {
	id = v.Identity()
	c.holding.set(func(now *held) { now.parked = true })
	c.lg.Warn("releasing the volume", zap.String("why", why), zap.String("slot", id.Slot), zap.String("volume", id.ID))
	if err := c.world.Etcd.Stop(ctx, c.cfg.StopWait); err != nil {
		c.holding.unpark()
		return id, false, fmt.Errorf("stop etcd: %w; the volume stays held", err)
	}
	return id, true, c.holding.drop(ctx, v)
}

// drop releases a volume for any node to claim, after the last entries of its history. The volume is no longer used,
// whatever the error says is left to do.
//
// From the beginning of drop, the node says that it holds no volume. An unmounted volume would look like a blank disk
// to the others. Their leader would replace the member, and its data would be useless to the next holder.
func (h *holding) drop(ctx context.Context, v Volume) error {
	h.set(func(now *held) { now.leaving = true })
	h.history.leave()
	err := v.Release(ctx, Drop)
	h.forget()
	return err
}

// Releasable returns an error if GiveUp would be refused, otherwise the volume that would be released.
func (c *Coordinator) Releasable() (plan.Volume, error) {
	held := c.holding.now()
	if err := held.releasable(c.Now()); err != nil {
		return plan.Volume{}, err
	}
	return held.volume.Identity(), nil
}

// unpark undoes a release that failed.
func (h *holding) unpark() { h.set(func(now *held) { now.gate.closed, now.parked = false, false }) }

// releasable returns an error if the volume cannot be released now.
func (h held) releasable(now Situation) error {
	switch {
	case h.volume == nil:
		return errors.New("this node holds no volume; run the command on the node that holds the slot")
	case h.engaged():
		return fmt.Errorf("%w (%s): try again in a moment", errBusy, now.Action.Text())
	}
	return nil
}

// SetVolumeAside is the operator's order to set the whole content of the held volume aside. The volume becomes another,
// blank disk, and its slot starts over in whatever cluster exists. It is refused while etcd runs, and if nothing is
// wrong. Data on which etcd cannot be started is wrong, unless the reason is outside of the volume, such as an address
// that another process has, or a certificate. Once begun, it ignores the end of ctx: a volume of which only a part was
// set aside, or that is unmounted, is of no use.
func (c *Coordinator) SetVolumeAside(ctx context.Context) error {
	v, err := c.holding.order(c.status, held.keepsContent)
	if err != nil {
		return err
	}
	if err = c.holding.unused(v.Identity().Path); err == nil {
		err = v.SetAllAside(context.WithoutCancel(ctx))
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
	case h.drained.on:
		return fmt.Errorf("slot %s is drained, and nothing is known to be wrong with its content: run `holdfast undrain` "+
			"first, and `holdfast status` says what is wrong", o.Claim.Slot)
	case unfit && now.Outside:
		return fmt.Errorf("nothing is wrong with the content of slot %s: %s", o.Claim.Slot, now.Err)
	case now.Action.Kind != plan.Wait && !unfit || h.gate.busy || h.gate.closed:
		return fmt.Errorf("the content of slot %s need not be set aside: %s", o.Claim.Slot, now.Action.Text())
	case o.Claim.Mismatch == "" && o.Claim.Missing == "" && !o.Disk.WAL && o.Disk.Origin == nil &&
		o.Disk.Unknown == "" && !copied:
		return fmt.Errorf("the volume of slot %s holds nothing to set aside: %s", o.Claim.Slot, now.Action.Text())
	}
	return nil
}
