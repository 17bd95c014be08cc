package cmd

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/show"
)

func newVerifyCommand() *cobra.Command {
	c := backupCommand("verify [NAME...|latest]",
		"Prove again that backups are whole: the named ones, or all of the cluster",
		"What is stored is read completely: its digest, its decompression, the database's own SHA-256, each page, and its\n"+
			"content against the sidecar. Of an encrypted backup without the right snapshot.identity-file only the digest is\n"+
			"checked, which is said. The result is recorded beside the backup: all nodes show it, and a bad one is no longer\n"+
			"`latest`. Exit code 1 if one is bad, or could not be checked.",
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
		"The backup, by default the newest verified one, is restored into a scratch directory in a process of its own,\n"+
			"started where it listens nowhere, and compared with what was recorded when it was saved. Of etcd-manager's\n"+
			"backups nothing is recorded: they are compared with what the database in them holds. Nothing that runs is\n"+
			"touched. The result is recorded beside the backup: all nodes show it, and a bad one is no longer `latest`. Of an\n"+
			"encrypted backup it needs snapshot.identity-file.",
		cobra.MaximumNArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, args []string) error {
			d, err := b.Drill(c.Context(), append(args, backups.Latest)[0])
			if err != nil {
				return err
			}
			err = format.write(c, d, func(w io.Writer) error {
				if d.Error == "" {
					fmt.Fprintf(w, "%s was restored and started in %s: %s\n", d.Name, d.Took.Round(time.Millisecond),
						show.ComparedText(d.Checked, d.Unrecorded))
				}
				return nil
			})
			if err == nil && d.Error != "" {
				err = fmt.Errorf("backup %s can NOT be restored: %s: restore from another%s", d.Name, d.Error,
					b.Instead(c.Context(), d.Name))
			}
			return err
		})
	c.ValidArgsFunction = completeBackups
	return c
}
