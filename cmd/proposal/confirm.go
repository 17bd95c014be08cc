package proposal

import (
	"context"
	"fmt"

	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/embedded/plan"
)

// Confirm confirms, on a node of the cluster, a proposal that was made elsewhere, and follows it. If id is "", it
// confirms the open proposal.
func (o Operator) Confirm(ctx context.Context, id string) error {
	c := o.cluster()
	_, known, err := c.asked(ctx)
	if err != nil {
		return err
	}
	p := known.Restore
	switch {
	case p == nil:
		return fmt.Errorf("no restore of cluster %s is proposed; the store knows it as %s", c.Config.Cluster.Name,
			known.Record.Token())
	case id != "" && p.ID != id:
		return fmt.Errorf("the open proposal is %s, the %s by %s, and not %s; nothing was changed", p.ID, p.Title(), p.By, id)
	case p.Led == nil:
		return fmt.Errorf("the %s by %s says that the cluster has no leader: it is not confirmed by anyone, and a leader "+
			"aborts it", p.Title(), p.By)
	}
	v := c.ask(ctx)
	if v.silent() {
		return fmt.Errorf("%w on %s; confirm it on a node of the cluster", control.ErrUnreachable, c.Node.At)
	}
	o.say("proposal %s: %s, as generation %d, by %s, who was shown that %s leads", p.ID, p.Title(), p.Generation, p.By,
		p.Led)
	if o.DryRun {
		return o.would(restored{Restore: *p, DryRun: true}, "would confirm that the cluster ends with that")
	}
	question := fmt.Sprintf("End generation %d and continue with %s?", known.Record.Generation, p.Source())
	if err := o.confirm(ctx, question); err != nil {
		return err
	}
	if err := c.consent(ctx, p.ID); err != nil {
		return fmt.Errorf("confirm the %s: %w; the proposal is still open: try again, or `holdfast restore --abort`",
			p.Title(), err)
	}
	open := proposal{*p, c}
	open.consented()
	f := newFollower(open, v)
	f.theirs = true
	return f.follow(ctx)
}

// Abort aborts the open proposal, unless it has passed the point of no return.
func (o Operator) Abort(ctx context.Context) error {
	c := o.cluster()
	_, known, err := c.asked(ctx)
	if err != nil {
		return err
	}
	if known.Restore == nil {
		if err := doubted(known, known.Record.Generation); err != nil {
			return err
		}
		if known.Record.Restore != nil {
			return fmt.Errorf("no restore or recovery of cluster %s is under way: %w", c.Config.Cluster.Name,
				tooLate(*known.Record))
		}
		return fmt.Errorf("no restore or recovery of cluster %s is under way; the store knows it as %s",
			c.Config.Cluster.Name, known.Record.Token())
	}
	if o.DryRun {
		return o.would(map[string]any{"aborted": known.Restore.Title(), "dry_run": true}, fmt.Sprintf("would abort the %s, "+
			"asked for by %s, if it has not passed the point of no return by then", known.Restore.Title(), known.Restore.By))
	}
	record, err := c.abort(ctx, *known.Restore, "aborted by "+o.Name)
	if err != nil {
		return fmt.Errorf("abort the %s: %w", known.Restore.Title(), err)
	}
	c.poke(ctx)
	if record != nil {
		return tooLate(*record)
	}
	if o.JSON {
		return show.JSON(o.Out, map[string]string{"aborted": known.Restore.Title()})
	}
	fmt.Fprintf(o.Out, "aborted the %s; the cluster continues as it was\n", known.Restore.Title())
	return nil
}

// abort aborts an open proposal. If it was concluded before, abort returns its record.
func (c *cluster) abort(ctx context.Context, p plan.Restore, why string) (*plan.Record, error) {
	ctx, cancel := inTime(ctx)
	defer cancel()
	return c.records.Abort(ctx, p, plan.Abort{ID: p.ID, Why: why})
}

// tooLate says that a proposal which has begun a generation can no longer be aborted, and what to do instead.
func tooLate(record plan.Record) error {
	p := record.Restore
	back := "what the members held before is set aside on their volumes (`holdfast status`)"
	if p.Survivor == "" {
		back = "to return to what was before, restore the backup that was made just before it (`holdfast snapshot list`)"
	}
	return fmt.Errorf("too late: the %s by %s passed the point of no return, and the cluster continues as %s; --abort "+
		"does not undo it; %s", p.Title(), p.By, record.Token(), back)
}
