package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

func newSnapshotCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Save, list, verify, drill, prune, copy and pin backups",
	}
	return group(c, newSaveCommand(), newListCommand(), newVerifyCommand(), newDrillCommand(), newPruneCommand(),
		newDeleteCommand(), newCopyCommand(), newPinCommand(), newUnpinCommand())
}

// backupCommand returns a command that needs only the store and the spool, and so works on any machine.
func backupCommand(use, short string, args cobra.PositionalArgs,
	do func(c *cobra.Command, b *backups.Backups, format output, args []string) error) *cobra.Command {
	var format output
	c := configured(&cobra.Command{
		Use: use, Short: short, Args: args,
	}, func(c *cobra.Command, l *config.Loaded, args []string) error {
		b, err := backups.Open(c.Context(), l.Config, operator(), c.ErrOrStderr())
		if err != nil {
			return err
		}
		return do(c, b, format, args)
	})
	return format.add(c)
}

// wouldBackups prints the result of a dry run: what would be done, and to which backups. Programs get answer.
func wouldBackups(c *cobra.Command, format output, answer map[string]any, what string, names ...string) error {
	lines := make([]string, 0, len(names))
	for _, name := range names {
		lines = append(lines, name+" "+what)
	}
	if len(lines) == 0 {
		lines = []string{"nothing " + what}
	}
	answer["dry_run"] = true
	return format.write(c, answer, show.DryRun(strings.Join(lines, "\n")))
}

// completeBackups completes the names of backups, the newest first, if the store answers within 3 s.
func completeBackups(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	cfg, _, err := loadClient(c)
	if err != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(c.Context(), 3*time.Second)
	defer cancel()
	b, err := backups.Open(ctx, cfg, "", io.Discard)
	if err != nil {
		return nil, none
	}
	all, _ := b.Everywhere(ctx)
	names := []string{}
	for _, a := range slices.Backward(all) {
		names = append(names, fmt.Sprintf("%s\t%s ago, revision %d %s", a.Name, health.Age(time.Now(), a.Created),
			a.Content.Revision, a.Problem))
	}
	return names, none
}

func newListCommand() *cobra.Command {
	return backupCommand("list", "List the backups in the store and in this machine's spool, oldest first",
		cobra.NoArgs,
		func(c *cobra.Command, b *backups.Backups, format output, _ []string) error {
			all, err := b.Everywhere(c.Context())
			if len(all) == 0 && err != nil { // there may be backups that could not be read
				return err
			}
			return errors.Join(err, format.write(c, all,
				show.Listing(b.Config.Cluster.Name, b.Config.Snapshot.Store, all, time.Now())))
		})
}
