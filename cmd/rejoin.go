package cmd

import (
	"github.com/spf13/cobra"

	"holdfast/cmd/control"
)

func newRejoinCommand() *cobra.Command {
	var f proposalFlags
	var instead bool
	c := &cobra.Command{
		Use:   "rejoin [--instead [--lost SLOTS]] [--dry-run]",
		Short: "Decide what happens to this node's data if the cluster continued without it",
		RunE: func(c *cobra.Command, _ []string) error {
			if !instead {
				if err := idle(c, "does nothing without --instead", "lost", "overrule", "output"); err != nil {
					return err
				}
				return rejoin(c, &f)
			}
			o, err := f.operator(c)
			if err != nil {
				return err
			}
			return o.Instead(c.Context())
		},
	}
	f.add(c)
	c.Flags().BoolVar(&instead, "instead", false,
		"continue from the data of this node, instead of what the cluster continued with")
	c.Flags().BoolVar(&f.Yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&f.DryRun, "dry-run", false, "show what would be done; change nothing")
	c.Flags().StringSliceVar(&f.Lost, "lost", nil, "`slots` of the current generation whose voters are gone for good")
	return c
}

// rejoin asks the node to set its data aside and join the cluster again.
func rejoin(c *cobra.Command, f *proposalFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	_, client, err := loadClient(c)
	if err != nil {
		return err
	}
	if err := client.Do(c.Context(), "POST /rejoin", control.Args{"dry": f.DryRun}); err != nil {
		return err
	}
	if f.DryRun {
		return sayDry(c, "would set the data of this node aside, and join the cluster again")
	}
	return say(c, "the data of this node is set aside, and its slot joins the cluster again; see `holdfast status`\n")
}
