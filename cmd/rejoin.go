package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/show"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

func newRejoinCommand() *cobra.Command {
	var f proposalFlags
	var instead bool
	c := &cobra.Command{
		Use:   "rejoin [--instead [--lost SLOTS]] [--dry-run]",
		Short: "Choose what becomes of data that the cluster continued without",
		Long: "Choose what becomes of data that the cluster continued without: the disk of this node was declared lost, and is back.\n" +
			"`holdfast status` on this node shows both ends, and nothing happens before somebody chooses.\n\n" +
			"Without a flag the data is set aside, and the slot joins the generation that the cluster is in by now. So it is with the\n" +
			"data of a member that differs from what a majority of the members has (finding member-differs, alarm CORRUPT).\n\n" +
			"--instead continues from this data, as the next generation, with a revision beyond both: what the present one has\n" +
			"written is set aside on its disks. Where that has a leader, it consents, for the operator confirms it by this command;\n" +
			"where it has none, its voters that are gone must be named with --lost.",
		Example: "  holdfast rejoin --dry-run\n  holdfast rejoin\n  holdfast rejoin --instead\n  holdfast rejoin --instead --lost a,b,c",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if (len(f.Lost) > 0 || len(f.Overrule) > 0) && !instead {
				return errors.New("--lost and --overrule belong to --instead")
			}
			if !instead {
				return rejoin(c, &f)
			}
			o, err := f.operator(c)
			if err != nil {
				return err
			}
			return o.Instead(c.Context())
		},
	}
	addClientFlags(c.Flags(), shownForStores...)
	f.add(c.Flags())
	c.Flags().BoolVar(&instead, "instead", false,
		"continue from the data of this node, instead of what the cluster continued with")
	c.Flags().BoolVar(&f.Yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&f.DryRun, "dry-run", false, "show what would be done, change nothing")
	c.Flags().StringSliceVar(&f.Lost, "lost", nil, "`slots` of the present generation whose voters are gone for good")
	return c
}

// rejoin gives up the data of this node: the cluster has continued without it, or it differs from what the others have.
func (n *process) rejoin(ctx context.Context, dry bool) error {
	apart := n.coord.Rejoin(dry)
	if !errors.Is(apart, coordinator.ErrNotApart) {
		return apart
	}
	s := n.statusOfAll(ctx)
	if err := s.Vote().Odd(n.cfg.Node.Name); err != nil {
		return fmt.Errorf("there is nothing to choose: %w, and %w", apart, err)
	}
	return n.coord.Part(dry)
}

// instead proposes to continue from the data of this node.
func (r *restoration) instead(ctx context.Context) error {
	if r.cluster = r.ask(ctx); r.cluster == nil {
		return errors.New("the node on this machine does not answer")
	}
	// A node that has just come back may not have found the leader of the present generation yet.
	alive, err := r.lives(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("look whether the present generation has a leader: %w; nothing was changed", err)
	case alive != nil && alive.beacon:
		return fmt.Errorf("the cluster lives: %s leads it (according to %s), and this node does not see it, so nobody could confirm that it ends; bring them together and try again; "+
			"if that is not this cluster, say --overrule %s; nothing was changed", alive.Stand, alive.from, alive.Disk)
	}
	var led *plan.Stand
	if alive != nil {
		led = &alive.Stand
	}
	query := url.Values{"lost": {strings.Join(r.flags.lost, ",")}, "revision": {strconv.FormatInt(r.shownRevision(), 10)}, "led": {strconv.FormatBool(led != nil)}}
	var p plan.Restore
	if err := r.node.Get(ctx, http.MethodGet, "/rejoin?"+query.Encode(), &p); err != nil {
		return err
	}
	p.By, p.Led, p.Lasts, p.Overruled = operator(), led, r.flags.timeout+overtime, r.flags.overrule
	r.say("generation %d would continue from the data of slot %s here, at revision %d or later; what generation %d has written is set aside on its disks",
		p.Generation, p.Survivor, p.Revision+p.Bump, p.Generation-1)
	if r.flags.dryRun {
		return nothingChanged(r.c, "would propose that")
	}
	if !r.flags.yes {
		if err := confirm(ctx, r.c, fmt.Sprintf("End generation %d?", p.Generation-1)); err != nil {
			return err
		}
	}
	if err := r.propose(ctx, p); err != nil {
		return err
	}
	return r.follow(ctx, p)
}

// withoutStore orders a recovery where majority and store are lost together, and follows it on this node.
func (r *restoration) withoutStore(ctx context.Context) error {
	query := url.Values{"lost": {strings.Join(r.flags.lost, ",")}, "by": {operator()}, "dry": {strconv.FormatBool(!r.flags.yes || r.flags.dryRun)}}
	var p plan.Restore
	if err := r.node.Get(ctx, http.MethodPost, "/recover/alone?"+query.Encode(), &p); err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	r.say("the store does not answer: nobody but this node sees the recovery, so every other voter (%s) must be gone for good", strings.Join(r.flags.lost, ", "))
	if !r.flags.yes || r.flags.dryRun {
		return nothingChanged(r.c, fmt.Sprintf("would continue from slot %s, as generation %d; to do it, say --yes", p.Survivor, p.Generation))
	}
	f := r.follower(p)
	bound, cancel := context.WithTimeout(ctx, r.flags.timeout)
	defer cancel()
	at := time.Now() // when the node was seen to be at it
	for {
		select {
		case <-bound.Done():
			return errors.New("the recovery is not done yet; the node continues with it unless it is restarted: see `holdfast status`")
		case <-time.After(followNode):
		}
		if done, err := f.watch(bound); done || err != nil {
			return err
		}
		switch {
		case f.record != nil || f.under():
			at = time.Now()
		case time.Since(at) > dropped:
			return errors.New("the node has dropped the recovery, most likely because the backup store answers again; nothing was changed: run `holdfast recover` without --without-store")
		}
	}
}

// dropped is for how long a node may not be at a recovery that it was ordered to do: longer than it takes to look at the world.
const dropped = 5 * time.Second

// under reports whether the node on this machine said last that it is at the restore or recovery, or did not answer.
func (f *follower) under() bool {
	if f.cluster == nil {
		return true
	}
	return slices.ContainsFunc(f.cluster.Nodes, func(n health.NodeStatus) bool {
		return n.Node == f.cluster.Asked && n.Restore != nil && n.Restore.ID == f.p.ID
	})
}

// rejoin has the node give up its data.
func rejoin(c *cobra.Command, f *proposalFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	_, client, err := loadClient(c)
	if err != nil {
		return err
	}
	path := "/rejoin?" + url.Values{"dry": {strconv.FormatBool(f.DryRun)}}.Encode()
	if err := client.Get(c.Context(), http.MethodPost, path, &struct{}{}); err != nil {
		return err
	}
	if f.DryRun {
		return show.NothingChanged(c.OutOrStdout(), "would set the data of this node aside, and join the cluster again")
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), "the data of this node is set aside, and its slot joins the cluster again; "+
		"see `holdfast status`")
	return err
}
