package cmd

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

func newFoundCommand() *cobra.Command {
	var abandon, anew, dryRun bool
	c := &cobra.Command{
		Use:   "found {--abandon | --new}",
		Short: "Decide what only an operator may decide about founding a cluster",
		Long: "Decide what only an operator may decide about founding a cluster. The node on this machine must hold a\n" +
			"disk without etcd data; data is never touched.\n\n" +
			"--abandon  this blank disk forgets which disks it promised to found with. Right when the others are gone\n" +
			"           for good. If one of them lives on elsewhere, it may found a second cluster with the same name.\n" +
			"--new      as --abandon, and the backup store's record of the former cluster is moved aside (it is kept).\n" +
			"           Right when that cluster is given up. Its backups stay.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if abandon == anew {
				return errors.New("say either --abandon or --new (see `holdfast found --help` for what each risks)")
			}
			_, node, err := loadClient(c)
			if err != nil {
				return err
			}
			if err := node.Get(c.Context(), http.MethodPost, fmt.Sprintf("/found?abandon=%t&new=%t&dry=%t", abandon, anew, dryRun), &struct{}{}); err != nil {
				return err
			}
			if dryRun {
				would := "this blank disk would forget which disks it promised to found with"
				if anew {
					would += ", and the backup store's record of the former cluster would be moved aside"
				}
				return nothingChanged(c, would)
			}
			fmt.Fprintln(c.OutOrStdout(), "ordered; `holdfast status` shows what the node does now")
			return nil
		},
	}
	addClientFlags(c.Flags())
	c.Flags().BoolVar(&abandon, "abandon", false, "this blank disk forgets its promises")
	c.Flags().BoolVar(&anew, "new", false, "the former cluster is given up")
	addDryRun(c.Flags(), &dryRun)
	return c
}
