package proposal

import (
	"context"
	"fmt"

	"holdfast/cmd/show"
	"holdfast/embedded/plan"
)

// Abort ends the restore that is under way, unless it is too late.
func (o Operator) Abort(ctx context.Context) error {
	c := o.cluster()
	_, known, err := c.known(ctx)
	if err != nil {
		return err
	}
	if known.Restore == nil {
		return fmt.Errorf("no restore or recovery of cluster %s is under way; the store knows it as %s", c.name,
			known.Record.Token())
	}
	if o.DryRun {
		return show.NothingChanged(o.Out, fmt.Sprintf("would abort the %s, asked for by %s, if it has not passed the point "+
			"of no return by then", known.Restore.Title(), known.Restore.By))
	}
	record, err := c.records.Abort(ctx, *known.Restore, plan.Abort{ID: known.Restore.ID, Why: "aborted by " + o.Name})
	if err != nil {
		return fmt.Errorf("abort the %s: %w", known.Restore.Title(), err)
	}
	c.poke(ctx)
	if record != nil {
		return fmt.Errorf("too late: the %s passed the point of no return, and the cluster continues as %s",
			known.Restore.Title(), record.Token())
	}
	if o.JSON {
		return show.JSON(o.Out, map[string]string{"aborted": known.Restore.Title()})
	}
	fmt.Fprintf(o.Out, "aborted the %s; the cluster continues as it was\n", known.Restore.Title())
	return nil
}
