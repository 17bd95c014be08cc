package proposal

import (
	"context"
	"errors"
	"fmt"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
)

// proposal is a proposal that this command makes, confirms or follows.
type proposal struct {
	plan.Restore
	cluster *cluster
}

// propose puts the proposal into the store. If the cluster has a leader and a node answers here, the cluster consents.
func (p proposal) propose(ctx context.Context) error {
	put, cancel := inTime(ctx)
	defer cancel()
	if err := p.cluster.records.Propose(put, p.Restore); errors.Is(err, plan.ErrConflict) {
		return fmt.Errorf("another one came first; this %s was not proposed: %w", p.Title(), err)
	} else if errors.Is(err, generations.ErrUnsigned) {
		return fmt.Errorf("the %s was not proposed, nothing was changed: %w", p.Title(), err)
	} else if err != nil {
		return fmt.Errorf("propose the %s: %w; whether it was proposed is not known: see `holdfast status`, and `holdfast "+
			"restore --abort`", p.Title(), err)
	}
	p.cluster.say("proposal %s: attempt %d to begin generation %d", p.ID, p.Attempt, p.Generation)
	if p.Led == nil {
		p.cluster.say("%s. No leader was seen: each voter waits %s for one that objects, and leaves; only then can the next "+
			"generation serve. --abort ends it until then",
			p.preparing(), coordinator.LeaderWait)
		return nil
	}
	switch err := p.cluster.consent(ctx, p.ID); {
	case err == nil:
		p.consented()
	case errors.Is(err, control.ErrUnreachable):
		p.cluster.say("%s leads the cluster, which continues until an operator confirms that it ends. Run on one of its "+
			"nodes:\n\n"+
			"  holdfast restore --confirm %s\n\n"+
			"(Or run that here, with a client's certificate that control.operators names and --control.remote.address: see "+
			"`holdfast tls client`.)\n"+
			"Waiting for that, for %s at most; Ctrl-C or --abort withdraws the proposal",
			p.Led, p.ID, config.FormatDuration(p.cluster.Timeout))
	default:
		return p.withdraw(ctx, fmt.Errorf("%s leads the cluster, which did not consent: %w", p.Led, err))
	}
	return nil
}

func (p proposal) consented() {
	p.cluster.say("the cluster consents: %s; --abort ends it until the point of no return", p.preparing())
}

// withdraw aborts a proposal to which the cluster did not consent, as far as is known here: the consent may have been
// given, and its answer lost.
func (p proposal) withdraw(ctx context.Context, why error) error {
	record, err := p.cluster.abort(context.WithoutCancel(ctx), p.Restore, "the cluster did not consent")
	if err != nil {
		return fmt.Errorf("%w; and the proposal could not be withdrawn: %w", why, err)
	}
	if record != nil {
		return fmt.Errorf("%w; %w", why, tooLate(*record))
	}
	return fmt.Errorf("%w; the proposal was withdrawn, nothing was changed", why)
}

// preparing returns a text about the first step of the proposal.
func (p proposal) preparing() string {
	if p.Survivor != "" {
		return "slot " + p.Survivor + " prepares a copy of its data"
	}
	if p.Led == nil {
		return "the members prepare"
	}
	return "the members prepare, and the cluster serves on"
}

// underWay returns the error of a command that cannot propose because another proposal is open.
func underWay(p plan.Restore) error {
	way := "see `holdfast status`, or abort it with `holdfast restore --abort`"
	if p.Led != nil {
		way += "; if it waits to be confirmed, run `holdfast restore --confirm " + p.ID + "` on a node of the cluster"
	}
	return fmt.Errorf("a %s is under way, proposed by %s: %s", p.Title(), p.By, way)
}
