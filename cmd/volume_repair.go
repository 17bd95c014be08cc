package cmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"holdfast/embedded"
)

func newVolumeRepairWALCommand() *cobra.Command {
	var yes, dryRun bool
	var format output
	c := &cobra.Command{
		Use:   "repair-wal DIR",
		Short: "Make a data directory of etcd 3.4 or 3.5 one that this etcd can be started on",
		Long: "Make a data directory of etcd 3.4 or 3.5 one that this etcd can be started on. DIR holds etcd's directory\n" +
			"`member`.\n\n" +
			"The log of such a directory has entries on which etcd 3.7 panics. All of them are in the database already; a\n" +
			"record that says so is appended to the log, after DIR was copied to aside/ beside it. It is refused where\n" +
			"the database does not have all of them, and where it lists members that the cluster does not have, as etcd\n" +
			"up to 3.5.25 may leave there; then the command says what to do instead.\n\n" +
			"Stop etcd on every member first, repair each directory, and start no etcd 3.5 on any of them afterwards. A\n" +
			"node that waits for this looks again every few seconds.\n\n" +
			"Exit code: 0 if the directory is, or with --dry-run can be made, fit to be started on.",
		Example: "  holdfast volume repair-wal /var/lib/holdfast/volumes/a/etcd --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := embedded.RepairWAL(args[0], true)
			if err == nil && r.Obstacle == "" && r.Entries > 0 && !dryRun {
				if err := confirmUnless(yes, c, fmt.Sprintf("Copy %s aside and repair its log?", args[0])); err != nil {
					return err
				}
				r, err = embedded.RepairWAL(args[0], false)
			}
			if err != nil {
				return err
			}
			err = format.write(c, r, func(w io.Writer) error { return writeRepair(w, args[0], r) })
			if err == nil && r.Obstacle != "" {
				return exitCode(1)
			}
			return err
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, or why it cannot be, and change nothing")
	format.add(c.Flags())
	return c
}

func writeRepair(w io.Writer, dir string, r embedded.WALRepair) error {
	if r.Entries == 0 {
		_, err := fmt.Fprintf(w, "the log of %s has no entry that this etcd cannot replay: nothing is to be repaired\n", dir)
		return err
	}
	fmt.Fprintf(w,
		"the log of %s has %d entries of etcd 3.5 or older, the last at index %d; the database has the log up to %d (term "+
			"%d)\n",
		dir, r.Entries, r.Last, r.Applied, r.Term)
	switch {
	case r.Obstacle != "":
		_, err := fmt.Fprintf(w, "it cannot be repaired: %s\n", r.Obstacle)
		return err
	case r.Copy == "":
		_, err := fmt.Fprintf(w,
			"it can be repaired: a snapshot record at index %d, with the voters %x, would be appended; nothing was changed\n",
			r.Applied, r.Voters)
		return err
	}
	_, err := fmt.Fprintf(w, "repaired: a snapshot record at index %d, with the voters %x, was appended\nas it was: %s\n",
		r.Applied, r.Voters, r.Copy)
	return err
}
