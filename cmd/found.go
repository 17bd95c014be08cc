package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/proposal"
)

func newFoundCommand() *cobra.Command {
	var abandon, giveUp, dryRun bool
	var overrule []string
	c := having(&cobra.Command{
		Use:   "found {--abandon | --new}",
		Short: "Make founding decisions that only an operator may make",
	}, func(c *cobra.Command, cfg config.Config, client *control.Client, _ []string) error {
		if abandon == giveUp {
			return usage(errors.New("say either --abandon or --new (see `holdfast found --help` for what each risks)"))
		}
		if abandon {
			if err := idle(c, "does nothing with --abandon, which asks no store", "overrule"); err != nil {
				return err
			}
		}
		if giveUp {
			if err := mayGiveUp(c, cfg, client, overrule); err != nil {
				return err
			}
		}
		args := control.Args{"abandon": abandon, "new": giveUp, "dry": dryRun}
		if err := client.Do(c.Context(), "POST /found", args); err != nil {
			return err
		}
		if dryRun {
			would := "this blank disk would forget which disks it promised to found with"
			if giveUp {
				would += ", the backup store's record of the former cluster would be moved aside, and one could be founded " +
					"beside etcd-manager's"
			}
			return sayDry(c, "%s", would)
		}
		return say(c, "ordered; `holdfast status` shows what the node does now\n")
	})
	c.Flags().StringSliceVar(&overrule, "overrule", nil, "`disks` whose leaders may write into the store all the same")
	c.Flags().BoolVar(&abandon, "abandon", false, "forget what this blank disk has promised")
	c.Flags().BoolVar(&giveUp, "new", false, "give up the former cluster")
	return addDryRun(c, &dryRun)
}

// mayGiveUp returns an error if the cluster in the store is alive, although this node does not hear it.
func mayGiveUp(c *cobra.Command, cfg config.Config, client *control.Client, overrule []string) error {
	o := proposal.Operator{Name: operator(), Config: cfg, Node: client, Options: proposal.Options{Overrule: overrule},
		Terminal: proposal.Terminal{Out: c.OutOrStdout(), Err: c.ErrOrStderr()}}
	var err error
	if o.Backups, err = backups.Open(c.Context(), cfg, o.Name, o.Err); err != nil {
		return err
	}
	return o.MayGiveUp(c.Context())
}
