package cmd

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/show"
)

func newListCommand() *cobra.Command {
	return backupCommand("list", "List the backups in the store and in this machine's spool, oldest first",
		"The order is that of the clocks that made them. `latest` is the one with the highest generation and,\n"+
			"within that, the highest revision, unless its last verify or drill failed, on any machine. PROVEN is the\n"+
			"last proof since it was saved.\n\n"+
			"A backup is listed once; WHERE names the places that have it. Problems of backups are shown, and do not\n"+
			"change the exit code. If a place cannot be read, the others are shown and the exit code is 1.",
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
