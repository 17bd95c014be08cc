package proposal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// Recover proposes to continue from a survivor: the named one, or the most advanced. Without Yes it only shows what
// would be done. It returns an error if the cluster has a quorum.
func (o Operator) Recover(ctx context.Context, survivor, despite string) error {
	c := o.cluster()
	s, err := c.survey(ctx, survivor)
	if err != nil {
		return err
	}
	v := c.ask(ctx)
	if v.silent() {
		return errors.New("the node on this machine does not answer")
	}
	s.despite, s.overrule = despite, o.Overrule
	s.complete(v)
	s.weigh(ctx, o.Backups.Store)
	if s.Obstacle != "" {
		return fmt.Errorf("%s; nothing was changed", s.Obstacle)
	}
	act := o.Yes && !o.DryRun
	if !o.JSON {
		fmt.Fprint(o.Out, s.text(survivor, act))
	} else if !act {
		if err := show.JSON(o.Out, s); err != nil {
			return err
		}
	}
	undeclared := s.Able && len(o.Lost) == 0
	switch {
	case s.Refusal != "" && (act || !undeclared):
		return fmt.Errorf("%s; nothing was changed", s.Refusal)
	case s.poorer(survivor) != nil:
		return s.poorer(survivor)
	case !act:
		return nil
	}
	id, known, err := c.mirrored(ctx)
	if err != nil {
		return err
	}
	if p := known.Restore; p != nil {
		return underWay(*p)
	}
	if err := errors.Join(v.shared(id), v.settled(known)); err != nil {
		return err
	}
	if s.Record == nil || known.Record.ID != s.Record.ID {
		return fmt.Errorf("the store knows the cluster as %s, and the node here as another generation: see `holdfast "+
			"status`; nothing was changed", known.Record.Token())
	}
	q := plan.Request{By: o.Name, Lost: o.Lost, Survivor: s.Chosen.Slot, Disk: s.Chosen.Disk, Log: s.Chosen.Log}
	p := coordinator.NewRecovery(*known.Record, known.Attempts, q, s.Revisions[s.Chosen.Slot], s.raised(o.Bump))
	p.PeerURL = plan.SecureURL(*known.Record, o.Config.Etcd.PeerURL)
	o.fill(&p)
	alive, err := c.lives(ctx, &v)
	switch {
	case err != nil:
		return fmt.Errorf("look whether the cluster lives elsewhere: %w; nothing was changed", err)
	case alive != nil:
		return fmt.Errorf("the cluster lives: %s leads it (according to %s); a recovery is not needed, and nothing was "+
			"changed; if that is not this cluster, say --overrule %s", alive.Stand, alive.from, alive.Disk)
	}
	return c.carryOut(ctx, p, v)
}

// survey asks the node on this machine what the cluster could be recovered from. If others have just started, it makes
// the node look in the store for them.
func (c *cluster) survey(ctx context.Context, survivor string) (recovery, error) {
	bound, cancel := context.WithTimeout(ctx, mirrorTime)
	defer cancel()
	for {
		var s recovery
		args := control.Args{"lost": strings.Join(c.Lost, ","), "survivor": survivor}
		err := c.Node.Get(ctx, "GET /recover", &s, args)
		if err != nil || !s.Soon {
			return s, err
		}
		c.poke(ctx)
		select {
		case <-bound.Done():
			return s, ctx.Err()
		case <-time.After(followNode):
		}
	}
}

// Alone orders a recovery on this node when both the majority and the store are lost, and follows it.
func (o Operator) Alone(ctx context.Context) error {
	c := o.cluster()
	args := control.Args{"lost": strings.Join(o.Lost, ","), "by": o.Name, "dry": !o.Yes || o.DryRun}
	var p plan.Restore
	if err := c.Node.Get(ctx, "POST /recover/alone", &p, args); err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	o.say("this node cannot read the backup store: nobody else sees the recovery, so every other voter (%s) must be gone "+
		"for good", strings.Join(o.Lost, ", "))
	if !o.Yes || o.DryRun {
		return o.would(restored{Restore: p, DryRun: true}, fmt.Sprintf("would continue from slot %s, as generation %d; to "+
			"do it, say --yes", p.Survivor, p.Generation))
	}
	f := newFollower(proposal{p, c}, view{})
	bound, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	at := time.Now() // when the node was last seen working on it
	for {
		select {
		case <-bound.Done():
			return errors.New("the recovery is not done yet; the node continues with it unless it is restarted: see " +
				"`holdfast status`")
		case <-time.After(followNode):
		}
		if done, err := f.watch(bound); done || err != nil {
			return err
		}
		switch {
		case f.record != nil || f.under():
			at = time.Now()
		case time.Since(at) > dropped:
			return errors.New("the node has dropped the recovery, most likely because the backup store answers again; nothing " +
				"was changed: run `holdfast recover` without --without-store")
		}
	}
}

// dropped is how long a node may show nothing of the recovery before it counts as dropped: longer than the node takes
// to observe and decide.
const dropped = 5 * time.Second

// Instead proposes to continue from the data of this node.
func (o Operator) Instead(ctx context.Context) error {
	c := o.cluster()
	v := c.ask(ctx)
	if v.silent() {
		return errors.New("the node on this machine does not answer")
	}
	// A node that has just come back may not have found the leader of the current generation yet.
	alive, err := c.lives(ctx, &v)
	switch {
	case err != nil:
		return fmt.Errorf("look whether the present generation has a leader: %w; nothing was changed", err)
	case alive != nil && alive.beacon:
		return fmt.Errorf("the cluster lives: %s leads it (according to %s), and this node does not see it, so nobody "+
			"could confirm that it ends; bring them together and try again; "+
			"if that is not this cluster, say --overrule %s; nothing was changed", alive.Stand, alive.from, alive.Disk)
	}
	var led *plan.Stand
	if alive != nil {
		led = &alive.Stand
	}
	args := control.Args{"lost": strings.Join(o.Lost, ","), "revision": v.revision(), "led": led != nil}
	var p plan.Restore
	if err := c.Node.Get(ctx, "GET /rejoin", &p, args); err != nil {
		return err
	}
	p.Led = led
	o.fill(&p)
	o.say("generation %d would continue from the data of slot %s here, at revision %d or later; what generation %d has "+
		"written is set aside on its disks",
		p.Generation, p.Survivor, p.Revision+p.Bump, p.Generation-1)
	if o.DryRun {
		return o.would(restored{Restore: p, DryRun: true}, "would propose that")
	}
	if err := o.confirm(ctx, fmt.Sprintf("End generation %d?", p.Generation-1)); err != nil {
		return err
	}
	return c.carryOut(ctx, p, v)
}
