package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"holdfast/embedded/plan"
)

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
