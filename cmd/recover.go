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
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			switch {
			case abort:
				err = idle(c, "does nothing with --abort, which ends the recovery that is under way", "without-store", "lost",
					"survivor", "despite-backup", "overrule")
			case alone:
				err = idle(c, "does nothing with --without-store, which continues from this node, whatever the store holds",
					"survivor", "despite-backup", "overrule")
			case despite != "" && survivor == "":
				err = usage(errors.New("--despite-backup: say with --survivor which slot to continue from in place of that " +
					"backup"))
			}
			if err != nil {
				return err
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
	f.add(c)
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
