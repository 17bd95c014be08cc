package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// drainHandOver bounds the hand-over of a drain; it takes a tenth of a second if another voter can take over.
const drainHandOver = 10 * time.Second

// DrainOptions says how to drain.
type DrainOptions struct {
	Force bool // even if it puts the cluster at risk
	Dry   bool // only judge the risk
}

// DrainReport is the result of a drain.
type DrainReport struct {
	Slot    string `json:"slot"`
	Risk    string `json:"risk,omitempty"` // what is at risk without this member, or what it is busy with; "" if nothing
	Drained bool   `json:"drained"`        // etcd is stopped
}

// drained is the state of a drain on this node. A restart of the process ends it.
type drained struct {
	on    bool
	value []byte // of the disruption lock that is kept meanwhile; nil: none
}

// drainProof bounds how long a drain waits for the others to show that they serve without this member. A leader that
// stays shows it with its next heartbeats; an election takes a second or two.
const drainProof = 10 * time.Second

// Drain stops etcd on this node until Undrain or a restart of the process; the node stays in the gossip and keeps its
// volume. It takes the disruption lock, hands the leadership over, and keeps the lock while the member is down. If that
// would put the cluster at risk, it stops nothing and reports why; if the others then do not serve without the member,
// it lets etcd start again. Neither holds if it is forced. An action that takes longer than a moment is reported like a
// risk; if the drain is forced, it is an error.
func (c *Coordinator) Drain(ctx context.Context, how DrainOptions) (DrainReport, error) {
	switch err := c.beginDrain(ctx); {
	case errors.Is(err, errBusy) && !how.Force: // who waits asks again
		return DrainReport{Slot: c.Now().Volume.Slot, Risk: err.Error()}, nil
	case err != nil:
		return DrainReport{}, err
	}
	report, err := c.drain(ctx, how)
	c.holding.open()
	c.look()
	if report.Drained { // who asks for the status next is not to be told that the member serves
		ctx, cancel := context.WithTimeout(ctx, tick)
		defer cancel()
		for !c.Now().Observation.Drained && every(ctx, tick/50) {
		}
	}
	return report, err
}

// drain does the work of Drain.
func (c *Coordinator) drain(ctx context.Context, how DrainOptions) (DrainReport, error) {
	report := DrainReport{Slot: c.Now().Volume.Slot}
	if how.Dry {
		report.Risk = c.turn.risk(ctx)
		return report, nil
	}
	value, risk := c.turn.ask(ctx, "drain")
	if risk == "" {
		risk = c.turn.cede(ctx)
	}
	report.Risk = risk
	if report.Risk != "" && !how.Force {
		c.turn.unlock(ctx, value)
		return report, nil
	}
	c.lg.Warn("draining, as an operator has ordered", zap.String("slot", report.Slot), zap.Bool("force", how.Force),
		zap.String("risk", report.Risk))
	o, _ := c.turn.observer.observe()
	if o.Member.Returning() { // the next process must not take the cluster for wholly ours
		if err := c.holding.record(plan.Action{Kind: plan.Note, Return: true}); err != nil {
			c.turn.unlock(ctx, value)
			return report, fmt.Errorf("note that the cluster goes back: %w", err)
		}
	}
	c.holding.setDrained(drained{on: true, value: value})
	if err := c.world.Etcd.Stop(ctx, drainHandOver); err != nil {
		c.holding.setDrained(drained{})
		return report, fmt.Errorf("stop etcd: %w", err)
	}
	if how.Force { // what is at risk was told, and would only be waited for
		report.Drained = true
		return report, nil
	}
	if lacks := c.turn.lacks(context.WithoutCancel(ctx), o); lacks != "" {
		c.holding.setDrained(drained{})
		c.lg.Error("starting etcd again: the others do not serve without it", zap.String("risk", lacks))
		return report, fmt.Errorf("the others did not serve without this member, so etcd starts again here: %s", lacks)
	}
	report.Drained = true
	return report, nil
}

// lacks returns "" as soon as a leader reports that it hears enough voters without this member, which has stopped. o is
// from before that. Otherwise it says what is missing, after drainProof. Where another program runs voters, any of them
// may lead, and nobody reports it.
func (t *turn) lacks(ctx context.Context, o plan.Observation) (risk string) {
	ctx, cancel := context.WithTimeout(ctx, drainProof)
	defer cancel()
	for len(o.Foreign()) == 0 && !t.observer.ends() {
		risk = o.Disruption(t.leaderSees(ctx, o))
		if risk == "" || !every(ctx, drainProof/50) {
			return risk
		}
	}
	return ""
}

// Undrain lets etcd start again; dry only checks whether it would. The disruption lock is returned when the member
// serves. During a drain it is refused: an operator who interrupted the command would be told that the node is not
// drained, and then it would be.
func (c *Coordinator) Undrain(dry bool) error {
	switch now := c.holding.now(); {
	case now.gate.closed:
		return fmt.Errorf("%w with an order, such as a drain: try again in a moment", errBusy)
	case !now.drained.on:
		return errors.New("this node is not drained")
	case dry:
		return nil
	}
	c.holding.setDrained(drained{})
	c.lg.Warn("undrained, as an operator has ordered")
	c.look()
	return nil
}

// errBusy is wrapped if an order is refused because of an action in progress.
var errBusy = errors.New("this node is busy")

// drainPatience is how long a drain waits for an action in progress. Most take moments, for example returning the
// disruption lock after a start.
const drainPatience = 5 * time.Second

// beginDrain begins the order as soon as no action is in progress.
func (c *Coordinator) beginDrain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainPatience)
	defer cancel()
	_, err := c.holding.order(c.status, held.drainable)
	for errors.Is(err, errBusy) && every(ctx, drainPatience/50) {
		_, err = c.holding.order(c.status, held.drainable)
	}
	return err
}

// drainable returns an error if the member cannot be drained now.
func (h held) drainable(now Situation) error {
	switch {
	case h.volume == nil:
		return errors.New("this node holds no volume, and so runs no member: there is nothing to drain")
	case h.drained.on:
		return errors.New("this node is drained already")
	case h.engaged():
		return fmt.Errorf("%w (%s): try again in a moment", errBusy, now.Action.Text())
	}
	return nil
}

func (h *holding) setDrained(d drained) { h.set(func(now *held) { now.drained = d }) }

// lockRisk says what the failure to take the lock means.
func lockRisk(err error) string {
	if errors.Is(err, plan.ErrConflict) {
		return err.Error()
	}
	return "the disruption lock, which is kept in etcd and needs a quorum, could not be taken, so another member " +
		"may be about to go down: " + err.Error()
}
