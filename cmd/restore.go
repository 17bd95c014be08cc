package cmd

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/proposal"
)

func newRestoreCommand() *cobra.Command {
	var f proposalFlags
	var abort, confirm bool
	var dir backups.Directory
	c := &cobra.Command{
		Use:   "restore {NAME | latest} [--to DIR] | --confirm [ID] | --abort",
		Short: "Replace the cluster's data with a backup, as a new generation",
		Long: "Replace the cluster's data with a backup, as a new generation. It works from any machine with access to\n" +
			"the store, with a quorum or without. On a machine that runs a node it follows the restore to the end.\n\n" +
			"A cluster that has a leader ends only through that leader, when an operator confirms it on one of its\n" +
			"nodes. On a node this command is the confirmation; elsewhere run `holdfast restore --confirm` on a node,\n" +
			"or use control.remote with an operator's certificate. A cluster without a leader ends when its voters\n" +
			"have left it, which takes at least 15 s.\n\n" +
			"First the backup is verified completely. Then every member prepares: it fetches the backup, verifies it,\n" +
			"and builds its new data beside the data in use, while the cluster serves. Until a majority has prepared,\n" +
			"--abort or Ctrl-C aborts the restore and nothing has changed. After that there is no way back: the\n" +
			"members stop, set their data aside, and start with the new data. Keys, leases, users and versions are\n" +
			"those of the backup; the revision is raised, so that watchers start over. The data set aside is deleted\n" +
			"when the member has served for restore.reclaim-after.\n\n" +
			"--lost names slots whose disks are gone for good. It is needed if no majority of the members is here. If\n" +
			"a named member comes back after all, it serves the old data until it hears of the restore.\n\n" +
			"--to writes a data directory for any etcd instead, on any machine, and touches no cluster.\n\n" +
			"Exit code: 0 if the cluster is restored and healthy or, where no node answers, if the members will\n" +
			"restore it.",
		Example: "  holdfast restore latest --dry-run\n  holdfast restore 2026-07-01T00:15:03Z-000042\n" +
			"  holdfast restore latest --lost b,c --yes\n" +
			"  holdfast restore latest --to ./restored --revision-bump 0",
		Args: func(_ *cobra.Command, args []string) error {
			if abort && confirm || abort != (len(args) == 0) && !confirm || len(args) > 1 {
				return errors.New("say which backup, or latest; or --confirm, with or without the proposal's ID, or --abort " +
					"alone (see `holdfast snapshot list` for the names)")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o, err := f.operator(c)
			if err != nil {
				return err
			}
			if o.Bump, err = dir.Raise(o.Config); err != nil {
				return err
			}
			switch {
			case abort:
				return o.Abort(c.Context())
			case confirm:
				return o.Confirm(c.Context(), strings.Join(args, ""))
			case dir.Path != "":
				return restoreTo(c, o, args[0], dir)
			}
			return o.Restore(c.Context(), args[0])
		},
	}
	addClientFlags(c.Flags(), shownForStores...)
	f.add(c.Flags())
	c.Flags().BoolVar(&f.Yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&f.DryRun, "dry-run", false, "verify and show; change nothing")
	c.Flags().BoolVar(&abort, "abort", false, "abort the restore that is under way")
	c.Flags().BoolVar(&confirm, "confirm", false, "confirm on a node of the cluster what was proposed elsewhere")
	c.Flags().BoolVar(&f.Foreign, "force-foreign", false, "restore another cluster's backup")
	c.Flags().StringSliceVar(&f.Lost, "lost", nil, "`slots` whose disks are gone for good")
	c.Flags().StringVar(&dir.Path, "to", "", "write a data directory `DIR` from the backup; restore no cluster")
	c.Flags().StringVar(&dir.MemberName, "member-name", "",
		"with --to: the member's `name` in etcd (default cluster.member-name with the slot)")
	c.Flags().StringVar(&dir.Slot, "slot", "",
		"with --to: the `slot` in the member's name (default the first of cluster.slots)")
	c.Flags().StringVar(&dir.InitialCluster, "initial-cluster", "",
		"with --to: `name=URL,...` of all members of the new cluster (default this one alone at "+backups.DefaultPeerURL+")")
	c.Flags().StringVar(&dir.Token, "token", "",
		"with --to: the cluster's `token`, the same for all its members and never used before (default made of the "+
			"backup's name)")
	c.Flags().Int64Var(&dir.Bump, "revision-bump", -1,
		"raise the revision by this `number`, or more where that is not beyond the last known one (default "+
			"restore.revision-bump)")
	return c
}

// restoreTo makes a data directory from a backup, or with --dry-run shows which one it would make.
func restoreTo(c *cobra.Command, o proposal.Operator, name string, dir backups.Directory) error {
	dir.Foreign = o.Foreign
	if !o.DryRun {
		return o.Backups.Make(c.Context(), c.OutOrStdout(), name, dir)
	}
	would, err := o.Backups.Would(c.Context(), name, dir)
	if err != nil {
		return err
	}
	return sayDry(c, "%s", would)
}
