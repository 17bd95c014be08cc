package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// drainHandOver is the time a drain has to hand over; it takes a tenth of a second where there is an heir.
const drainHandOver = 10 * time.Second

// DrainOptions say how to drain.
type DrainOptions struct {
	Force bool // also where it puts the cluster at risk
	Dry   bool // only judge
}

// DrainReport is what a drain came to.
type DrainReport struct {
	Slot    string `json:"slot"`
	Risk    string `json:"risk,omitempty"` // what is at risk without this member, "" if nothing
	Drained bool   `json:"drained"`        // etcd is stopped
}

// drained is the drain of this node. A restart of the process ends it.
type drained struct {
	on    bool
	value []byte // of the disruption lock that is kept meanwhile; nil: none is
}

// Drain stops etcd on this node until Undrain or a restart of the process; the node stays in the gossip and keeps its
// volume. It takes the disruption lock, hands the leadership over, and keeps the lock as long as the member is down.
// Where that puts the cluster at risk nothing is done, and the report says why, unless it is forced.
func (c *Coordinator) Drain(ctx context.Context, how DrainOptions) (DrainReport, error) {
	if err := c.beginDrain(); err != nil {
		return DrainReport{}, err
	}
	defer c.endDrain()
	report := DrainReport{Slot: c.Now().Volume.Slot}
	if how.Dry {
		report.Risk = c.risk(ctx)
		return report, nil
	}
	value, err := c.lock(ctx, "drain", c.cfg.Hold)
	if err != nil {
		report.Risk = lockRisk(err)
	} else {
		report.Risk = c.risk(ctx)
	}
	if report.Risk != "" && !how.Force {
		if value != nil {
			c.unlock(ctx, value)
		}
		return report, nil
	}
	c.lg.Warn("draining, as an operator has ordered", zap.String("slot", report.Slot), zap.Bool("force", how.Force), zap.String("risk", report.Risk))
	c.setDrained(drained{on: true, value: value})
	if err := c.world.Etcd.Leave(ctx, drainHandOver); err != nil {
		c.setDrained(drained{})
		return report, fmt.Errorf("stop etcd: %w", err)
	}
	report.Drained = true
	return report, nil
}

// Undrain lets etcd start again; dry only says whether it would. The disruption lock is given back when the member serves.
func (c *Coordinator) Undrain(dry bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.drained.on {
		return errors.New("this node is not drained")
	}
	if dry {
		return nil
	}
	c.drained = drained{}
	c.lg.Warn("undrained, as an operator has ordered")
	c.Look()
	return nil
}

// beginDrain makes sure that no action begins until endDrain.
func (c *Coordinator) beginDrain() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.volume == nil:
		return errors.New("this node holds no volume, and so runs no member: there is nothing to drain")
	case c.drained.on:
		return errors.New("this node is drained already")
	case c.now.Busy || c.adopting || c.dead:
		return fmt.Errorf("this node is busy (%s): try again in a moment", c.now.Action.Text())
	}
	c.disturb()
	return nil
}

func (c *Coordinator) endDrain() {
	c.mu.Lock()
	c.adopting = false
	c.mu.Unlock()
	c.Look()
}

func (c *Coordinator) setDrained(d drained) {
	c.mu.Lock()
	c.drained = d
	c.mu.Unlock()
}

// lockRisk is what it means that the lock could not be taken.
func lockRisk(err error) string {
	if errors.Is(err, ErrConflict) {
		return strings.TrimSuffix(err.Error(), ": "+ErrConflict.Error())
	}
	return "the disruption lock, which is kept in etcd and needs a quorum, could not be taken, so another member may be about to go down: " + err.Error()
}

// risk asks what is at risk without this member, by what the leader sees just now.
func (c *Coordinator) risk(ctx context.Context) string {
	o, _ := c.observe()
	return o.Disruption(c.leaderSees(ctx, o))
}

// leaderSees is what the leader sees of the members; nil if no leader answers.
func (c *Coordinator) leaderSees(ctx context.Context, o plan.Observation) []plan.MemberInfo {
	if o.Member.Leader {
		return o.Facts(nil).Seen()
	}
	for _, node := range c.running(o) {
		// Whoever leads by now may not have said so yet.
		if f, err := c.askFacts(ctx, node); err == nil && f.Leader && f.CID == o.Disk.ClusterID {
			return f.Seen()
		}
	}
	return nil
}

// running are the live nodes that say they run a member, the leader first: one that hangs may take all the time there is.
// Last come the processes that another of the same name hides: gossip does not say which of them serves, so each is asked.
func (c *Coordinator) running(o plan.Observation) (nodes []string) {
	peers := slices.DeleteFunc(slices.Clone(o.Peers), func(p plan.Peer) bool { return !p.Live || p.Facts == nil || !p.Facts.Running })
	slices.SortStableFunc(peers, func(p, q plan.Peer) int {
		switch {
		case p.Facts.Leader == q.Facts.Leader:
			return 0
		case p.Facts.Leader:
			return -1
		}
		return 1
	})
	for _, p := range peers {
		nodes = append(nodes, p.Node)
	}
	return append(nodes, c.world.Mesh.Twins()...)
}

// keepLock refreshes the lock of a drained node until ctx ends. Etcd does not run here, so a running member does it.
func (c *Coordinator) keepLock(ctx context.Context) {
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(c.cfg.Hold/4, tick)):
		}
		c.mu.Lock()
		value := c.drained.value
		c.mu.Unlock()
		if value == nil {
			failed = false
			continue
		}
		err := c.refreshElsewhere(ctx, value)
		if err != nil && !failed && ctx.Err() == nil {
			c.lg.Warn("the disruption lock could not be refreshed: when it ends, another member may be taken down although this one is", zap.Error(err))
		}
		failed = err != nil
	}
}

// refreshElsewhere asks the running members one after the other.
func (c *Coordinator) refreshElsewhere(ctx context.Context, value []byte) error {
	last := errors.New("no other node runs a member")
	o, _ := c.observe()
	for _, node := range c.running(o) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		_, err := c.world.Mesh.Ask(ctx, node, append([]byte(askToRefresh), value...))
		cancel()
		if err == nil {
			return nil
		}
		last = fmt.Errorf("node %s: %w", node, err)
	}
	return last
}
