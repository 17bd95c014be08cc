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
		"Everything that is stored is read and checked: the digest, the decompression, the database's own\n"+
			"SHA-256, each page, and the content against the sidecar. For an encrypted backup without the right\n"+
			"snapshot.identity-file, only the digest is checked, and the output says so. The result is recorded\n"+
			"beside the backup: all nodes show it, and a bad backup is no longer `latest`. Exit code 1 if one is bad,\n"+
			"or could not be checked.",
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
		"The backup, by default the newest verified one, is restored into a scratch directory in a separate\n"+
			"process, started without listening on any port, and compared with what was recorded when it was saved.\n"+
			"For etcd-manager's backups nothing is recorded: they are compared with what the database in them holds.\n"+
			"Nothing that runs is touched. The result is recorded beside the backup: all nodes show it, and a bad\n"+
			"backup is no longer `latest`. For an encrypted backup you need snapshot.identity-file.",
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
