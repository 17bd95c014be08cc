package cmd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/snapshot"
)

func newPruneCommand() *cobra.Command {
	var dryRun bool
	c := backupCommand("prune", "Remove the backups that snapshot.keep does not keep, and what failed saves left",
		cobra.NoArgs,
		func(c *cobra.Command, b *backups.Backups, format output, _ []string) error {
			now := time.Now()
			pruned, err := b.Prune(c.Context(), now, dryRun)
			if err != nil && len(pruned.Kept) == 0 { // nothing was tried
				return err
			}
			return errors.Join(err, format.write(c, pruned, show.Pruned(pruned, now, dryRun)))
		})
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be removed")
	return c
}

func newDeleteCommand() *cobra.Command {
	var force, dryRun bool
	c := backupCommand("delete NAME...", "Delete backups by name, in the store and in this machine's spool",
		cobra.MinimumNArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, names []string) error {
			if err := b.Deletable(c.Context(), names, force); err != nil {
				return err
			}
			if dryRun {
				return wouldBackups(c, format, map[string]any{"deleted": names}, "would be deleted", names...)
			}
			for _, name := range names {
				if err := b.Delete(c.Context(), name); err != nil {
					return err
				}
				if !format.json() {
					fmt.Fprintf(c.OutOrStdout(), "deleted %s\n", name)
				}
			}
			if format.json() {
				return show.JSON(c.OutOrStdout(), map[string][]string{"deleted": names})
			}
			return nil
		})
	c.Flags().BoolVar(&force, "force", false,
		"also delete pinned, unfinished, foreign and the newest verified backups, and what a restore needs")
	c.ValidArgsFunction = completeBackups
	return addDryRun(c, &dryRun)
}

func newCopyCommand() *cobra.Command {
	var from, to string
	var dryRun bool
	c := backupCommand("copy {NAME|latest}... {--to|--from} STORE",
		"Copy backups to or from another store, and check them there",
		cobra.MinimumNArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, names []string) error {
			if (from == "") == (to == "") {
				return usage(errors.New("say either --to STORE or --from STORE"))
			}
			target, err := b.At(c.Context(), from+to)
			if err != nil {
				return err
			}
			source := b
			if from != "" {
				source, target = target, b
			}
			at := target.Config.Snapshot.Store
			if dryRun {
				missing, err := source.Missing(c.Context(), names, target)
				if err != nil {
					return err
				}
				answer := map[string]any{"copied": missing, "to": at}
				return wouldBackups(c, format, answer, "would be copied to "+at, missing...)
			}
			copied := []snapshot.Meta{}
			for _, name := range names {
				meta, err := source.Copy(c.Context(), name, target)
				if err != nil {
					return err
				}
				copied = append(copied, meta)
				if !format.json() {
					fmt.Fprintf(c.OutOrStdout(), "copied %s to %s: %s, read back and found equal\n", meta.Name, at,
						health.Bytes(meta.Stored.Size))
				}
			}
			if format.json() {
				return show.JSON(c.OutOrStdout(), copied)
			}
			return nil
		})
	c.Flags().StringVar(&to, "to", "", "`store` to copy to")
	c.Flags().StringVar(&from, "from", "", "`store` to copy from")
	c.ValidArgsFunction = completeBackups
	return addDryRun(c, &dryRun)
}

func newPinCommand() *cobra.Command {
	var why string
	var dryRun bool
	c := backupCommand("pin {NAME|latest}", "Keep a backup from being pruned, for good", cobra.ExactArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, args []string) error {
			if err := snapshot.CheckReason(why); err != nil {
				return usage(fmt.Errorf("--why: %w", err))
			}
			at, err := b.Pin(c.Context(), args[0], why, dryRun)
			return showPlace(c, format, "pinned", at, err, dryRun)
		})
	c.Flags().StringVar(&why, "why", "", "`reason`, shown in the list")
	c.ValidArgsFunction = completeBackups
	return addDryRun(c, &dryRun)
}

func newUnpinCommand() *cobra.Command {
	var dryRun bool
	c := backupCommand("unpin {NAME|latest}", "Let a backup be pruned again", cobra.ExactArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, args []string) error {
			at, err := b.Unpin(c.Context(), args[0], dryRun)
			return showPlace(c, format, "unpinned", at, err, dryRun)
		})
	c.ValidArgsFunction = completeBackups
	return addDryRun(c, &dryRun)
}

// showPlace prints what was done to a backup, and in which places.
func showPlace(c *cobra.Command, format output, done string, at backups.Place, err error, dryRun bool) error {
	answer := map[string]any{done: at.Name, "where": at.Where}
	switch {
	case err != nil:
		return err
	case dryRun:
		return wouldBackups(c, format, answer, "would be "+done, at.Name)
	}
	return format.write(c, answer,
		fmt.Sprintf("%s %s (%s)\n", done, at.Name, strings.Join(at.Where, ", ")))
}
