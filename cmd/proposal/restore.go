package proposal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/cmd/backups"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// Restore verifies a backup, proposes to restore it, and follows the proposal to its end.
func (o Operator) Restore(ctx context.Context, name string) error {
	c := o.cluster()
	id, known, err := c.known(ctx)
	if err != nil {
		return err
	}
	if p := known.Restore; p != nil {
		return underWay(*p)
	}
	v := c.ask(ctx)
	if err := errors.Join(v.shared(id), v.doubts(known)); err != nil {
		return err
	}
	if err := v.settled(known); err != nil {
		return err
	}
	found, checked, err := o.verify(ctx, name, *known.Record)
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	last, source, err := o.last(ctx, v, *known.Record)
	if err != nil {
		return err
	}
	p := coordinator.NewRestore(*known.Record, known.Attempts, checked, last, o.Bump)
	p.PeerURL = plan.SecureURL(*known.Record, o.Config.Etcd.PeerURL)
	p.Lost, p.Slots = o.Lost, v.founders(*known.Record)
	o.fill(&p)
	if p.Led, err = c.led(ctx, &v, *known.Record); err != nil {
		return err
	}
	s := summary{Restore: p, Found: found, Last: last, Source: source, changed: v.changed(*known.Record),
		Slots: v.weigh(v.slots(*known.Record), checked.Bytes), confirms: !v.silent()}
	if !o.JSON {
		fmt.Fprint(o.Out, s.text(o.Config, time.Now()))
	}
	if err := s.enough(o.Lost, !v.silent()); err != nil {
		return err
	}
	if o.DryRun {
		if o.JSON {
			return show.JSON(o.Out, s)
		}
		fmt.Fprintln(o.Out, "\nnothing was changed (--dry-run)")
		return nil
	}
	if err := o.confirm(ctx, "Restore?"); err != nil {
		return err
	}
	return c.carryOut(ctx, p, v)
}

// led returns the cluster's leader, or nil if none is seen. It returns an error if there is a leader, and no operator
// here could confirm the restore.
func (c *cluster) led(ctx context.Context, v *view, record plan.Record) (*plan.Stand, error) {
	alive, err := c.lives(ctx, v)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look whether the cluster lives: %w; nothing was changed", err)
	case alive == nil:
		return nil, nil
	case alive.beacon && (!v.silent() || len(c.Lost) > 0): // --lost contradicts a live leader
		return nil, fmt.Errorf("the cluster lives: %s leads %s (according to %s); nothing of it is lost, and nothing was "+
			"changed; to restore it all the same, run the command on that node, without --lost; "+
			"or without --lost where no node runs, and confirm it on that node with `holdfast restore --confirm`; if that is "+
			"not this cluster, say --overrule %s",
			alive.Stand, record.Token(), alive.from, alive.Disk)
	}
	return &alive.Stand, nil
}

// verify finds and verifies the backup. It changes nothing in the cluster.
func (o Operator) verify(ctx context.Context, name string, record plan.Record) (found snapshot.Backup,
	checked coordinator.Backup, err error) {
	if name == backups.Latest {
		name = ""
	}
	skipped := func(lines []string) { o.say("%s", strings.Join(lines, "\n")) }
	a := node.Archive{Store: o.Backups.Store, Cluster: o.Config.Cluster.Name, Force: o.Foreign, Skipped: skipped}
	if found, err = a.Find(ctx, name, record.Lineage()); err != nil {
		return found, checked, err
	}
	a.Skipped = nil // it has been said
	err = o.Backups.Progressing(func(opt snapshot.Options) (err error) {
		a.Options = opt
		checked, err = a.Check(ctx, found.Name, record.Lineage(), nil)
		return err
	})
	return found, checked, err
}

// Where the last known revision comes from.
const (
	fromMembers = "the members here"
	fromBackups = "the newest backup; no member could be asked, so more may be lost"
	fromAhead   = "a backup that is ahead of the members here, so more may be lost"
)

// last returns the last known revision of the cluster, and where it comes from.
func (o Operator) last(ctx context.Context, v view, record plan.Record) (revision int64, source string, err error) {
	revision, err = node.Archive{Store: o.Backups.Store, Cluster: o.Config.Cluster.Name}.Revision(ctx, record.Lineage())
	if err != nil {
		return 0, "", fmt.Errorf("find the last known revision: %w", err)
	}
	switch members := v.revision(); {
	case members == 0:
		return max(revision, record.Floor()), fromBackups, nil
	case members < revision:
		return revision, fromAhead, nil
	default:
		return members, fromMembers, nil
	}
}
