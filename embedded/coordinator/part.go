package coordinator

import (
	"context"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

const (
	// lookToPart is how often a process that was told to end looks whether its member may go down now.
	lookToPart = 100 * time.Millisecond
	// tryToPart bounds one try of the disruption lock, and one question to the leader: a quorum that is being lost must not hold up the end.
	tryToPart = time.Second
)

// part waits until this member may go down: until it has the disruption lock and a majority is there without it. It
// waits for at most the greater part of stop.wait, and returns what is left for handing over. What it could not wait for
// it says, for the process ends all the same (R14). The lock is given back by this slot's next life.
func (c *Coordinator) part(ctx context.Context) (handOver time.Duration) {
	wait := c.cfg.StopWait
	if wait <= 0 {
		return 0
	}
	least := wait / 5
	begin, p := time.Now(), new(parting)
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	for {
		o, _ := c.observe()
		c.publish(o)
		c.name(o)
		c.world.Looked(c.looked(o))
		if why := o.Haste(); why != "" {
			c.lg.Info("stopping at once", zap.String("why", why))
			break
		}
		risk := c.ask(ctx, o, p)
		if risk == "" {
			break
		}
		if time.Since(begin) >= wait-least {
			c.lg.Warn("stopped although that is a risk: the cluster may be without a quorum", zap.String("risk", risk), zap.Duration("waited", time.Since(begin)))
			break
		}
		c.decide(plan.Action{Kind: plan.Wait, Why: "told to end, and waits for a moment to go down: " + risk}, false)
		select {
		case <-c.world.Mesh.Changed():
		case <-time.After(lookToPart):
		}
	}
	return max(wait-time.Since(begin), least)
}

// parting is the lock of a process that is about to end, and when it last had its whole time.
type parting struct {
	value []byte
	since time.Time
}

// ask takes the disruption lock, unless it is held already, and says what is at risk all the same.
func (c *Coordinator) ask(ctx context.Context, o plan.Observation, p *parting) (risk string) {
	if l := o.Member.Lock; l != nil && l.Slot != o.Claim.Slot {
		return l.String()
	}
	if p.value == nil || time.Since(p.since) > c.cfg.Hold/4 {
		ctx, cancel := context.WithTimeout(ctx, tryToPart)
		defer cancel()
		value, err := c.lock(ctx, "stop", c.cfg.Hold)
		if err != nil {
			return lockRisk(err)
		}
		p.value, p.since = value, time.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, tryToPart)
	defer cancel()
	return c.risk(ctx)
}
