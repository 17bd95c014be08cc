package cmd

import (
	"errors"

	"github.com/spf13/cobra"
)

func newRecoverCommand() *cobra.Command {
	var f proposalFlags
	var abort, alone bool
	var survivor, despite string
	c := &cobra.Command{
		Use:   "recover [--lost SLOTS] [--yes] | --abort",
		Short: "Continue after a majority is lost for good, from the most advanced member left",
		Long: "Continue after a majority of the members is lost for good, from the most advanced member left, as a new\n" +
			"generation of the cluster. Run it on a machine whose node runs. Without --yes it only shows what is\n" +
			"left, and what would be done.\n\n" +
			"The survivor with the most advanced log copies its data, applies its whole log to the copy, and founds\n" +
			"the new generation alone with it. All others join it, and what their disks held is set aside. Everything\n" +
			"in the survivor's log is kept, acknowledged or not. Leases, users and versions stay; the revision is\n" +
			"raised by restore.revision-bump, so that watchers start over.\n\n" +
			"Until the point of no return, --abort or Ctrl-C aborts the recovery. So does a leader: a cluster that\n" +
			"was only slow continues as it was.\n\n" +
			"--lost names every slot whose voter is not here. If a named member is alive after all, and serves\n" +
			"without the survivor, it stops when it sees the new generation, and keeps its data: decide about it with\n" +
			"`holdfast rejoin` on its node.\n\n" +
			"A survivor that holds less than the newest backup, by generation and then by revision, is refused:\n" +
			"`holdfast restore` then keeps more. To continue from it all the same, name both: --survivor SLOT\n" +
			"--despite-backup NAME. If the backups cannot be listed, or one is damaged so that it does not tell what\n" +
			"it holds, NAME is \"unknown\".\n\n" +
			"Exit code: 0 if the cluster serves again, or without --yes if it could be recovered.",
		Example: "  holdfast recover\n  holdfast recover --lost b,c --yes\n  holdfast recover --abort",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case abort && (len(f.Lost) > 0 || survivor != "" || despite != ""):
				return usage(errors.New("say --abort alone, or --lost, --survivor and --despite-backup"))
			case despite != "" && survivor == "":
				return usage(errors.New("--despite-backup: say with --survivor which slot to continue from in place of that " +
					"backup"))
			}
			o, err := f.operator(c)
			if err != nil {
				return err
			}
			switch {
			case abort:
				return o.Abort(c.Context())
			case alone:
				return o.Alone(c.Context())
			}
			return o.Recover(c.Context(), survivor, despite)
		},
	}
	addClientFlags(c.Flags(), shownForStores...)
	f.add(c.Flags())
	c.Flags().BoolVar(&f.Yes, "yes", false, "do it")
	c.Flags().BoolVar(&f.DryRun, "dry-run", false, "only show what would be done, even with --yes")
	c.Flags().BoolVar(&abort, "abort", false, "abort the recovery that is under way")
	c.Flags().StringSliceVar(&f.Lost, "lost", nil, "`slots` whose voters are gone for good")
	c.Flags().BoolVar(&alone, "without-store", false,
		"the store is lost as well: continue from this node, with every other voter named in --lost")
	c.Flags().StringVar(&survivor, "survivor", "",
		"`slot` to continue from: of several that are equally advanced (default: the first of them), or one that the "+
			"cluster had given up")
	c.Flags().StringVar(&despite, "despite-backup", "",
		"continue from --survivor although this newest backup holds more: its `NAME`, or unknown where the backups cannot "+
			"be listed")
	return c
}
