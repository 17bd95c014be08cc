package cmd

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/proposal"
)

// forDirectory are the flags that belong to --to.
var forDirectory = []string{"member-name", "slot", "initial-cluster", "token"}

func newRestoreCommand() *cobra.Command {
	var f proposalFlags
	var abort, confirm bool
	var dir backups.Directory
	c := &cobra.Command{
		Use:   "restore {NAME | latest} [--to DIR] | --confirm [ID] | --abort",
		Short: "Replace the cluster's data with a backup, as a new generation",
		Args: func(_ *cobra.Command, args []string) error {
			if abort && confirm || abort != (len(args) == 0) && !confirm || len(args) > 1 {
				return errors.New("say which backup, or latest; or --confirm, with or without the proposal's ID, or --abort " +
					"alone (see `holdfast snapshot list` for the names)")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			switch {
			case abort, confirm:
				err = idle(c, "does nothing with --abort or --confirm, for the proposal is already made",
					append([]string{"to", "lost", "overrule", "force-foreign", "revision-bump"}, forDirectory...)...)
			case dir.Path == "":
				err = idle(c, "does nothing without --to: the whole cluster would be restored", forDirectory...)
			default:
				err = idle(c, "does nothing with --to, which restores no cluster", "lost", "overrule", "output")
			}
			if err == nil && c.Flags().Changed("revision-bump") {
				err = atLeast("revision-bump", 0, dir.Bump)
			}
			if err != nil {
				return err
			}
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
			}
			if err := notAFile(args[0]); err != nil {
				return err
			}
			if dir.Path != "" {
				return restoreTo(c, o, args[0], dir)
			}
			return o.Restore(c.Context(), args[0])
		},
	}
	f.add(c)
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

// notAFile returns an error if name is that of a file of this machine, most likely one that etcdctl saved.
func notAFile(name string) error {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is a file, and a backup is restored by its name in the store (`holdfast snapshot list`): "+
		"docs/restore.md, \"A file of etcdctl\", says how to put a file there", name)
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
