package cmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/show"
)

func newVerifyCommand() *cobra.Command {
	c := backupCommand("verify [NAME...|latest]",
		"Verify backups again: the named ones, or all of this cluster",
		cobra.ArbitraryArgs,
		func(c *cobra.Command, b *backups.Backups, format output, names []string) error {
			verdicts, err := b.Verify(c.Context(), names, func(v backups.Verdict) {
				if !format.json() {
					fmt.Fprintf(c.OutOrStdout(), "%s  %s\n", v.Name, v)
				}
			})
			if format.json() && verdicts != nil {
				return errors.Join(show.JSON(c.OutOrStdout(), verdicts), err)
			}
			return err
		})
	c.ValidArgsFunction = completeBackups
	return c
}

func newDrillCommand() *cobra.Command {
	c := backupCommand("drill [NAME|latest]", "Prove that a backup can be restored: restore it, start it, compare it",
		cobra.MaximumNArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, args []string) error {
			d, err := b.Drill(c.Context(), append(args, backups.Latest)[0])
			if err != nil {
				return err
			}
			text := ""
			if d.Error == "" {
				text = fmt.Sprintf("%s was restored and started in %s: %s\n", d.Name, d.Took.Round(time.Millisecond),
					show.ComparedText(d.Checked, d.Unrecorded))
			}
			if err = format.write(c, d, text); err == nil && d.Error != "" {
				err = fmt.Errorf("backup %s can NOT be restored: %s: restore from another%s", d.Name, d.Error,
					b.Instead(c.Context(), d.Name))
			}
			return err
		})
	c.ValidArgsFunction = completeBackups
	return c
}
