package cmd

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/show"
)

func newListCommand() *cobra.Command {
	return backupCommand("list", "List the backups in the store and in this machine's spool, oldest first",
		"The order is that of the clocks that made them. The newest by what they hold, which is `latest`, has the highest\n"+
			"generation and, of that, the highest revision. One that failed its last verify or drill, on whichever machine,\n"+
			"is not `latest`. PROVEN is the last proof since it was saved.\n\n"+
			"A backup is listed once, WHERE says in which places it is. Problems are shown and are no failure of the listing;\n"+
			"a place that cannot be read is: then the others are shown, and the exit code is 1.",
		cobra.NoArgs,
		func(c *cobra.Command, b *backups.Backups, format output, _ []string) error {
			all, err := b.Everywhere(c.Context())
			if len(all) == 0 && err != nil { // that there is none is not known
				return err
			}
			return errors.Join(err, format.write(c, all, func(w io.Writer) error {
				return show.Listing(w, b.Config.Cluster.Name, b.Config.Snapshot.Store, all, time.Now())
			}))
		})
}
