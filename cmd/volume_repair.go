package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/embedded"
)

func newVolumeRepairWALCommand() *cobra.Command {
	var yes, dryRun bool
	var format output
	c := &cobra.Command{
		Use:   "repair-wal DIR",
		Short: "Convert a data directory of etcd 3.4 or 3.5 so that this etcd can start on it",
		Args:  cobra.ExactArgs(1),
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
			return exitIf(r.Obstacle != "", format.write(c, r, repairText(args[0], r)))
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be done, or why it cannot be done; change nothing")
	return format.add(c)
}

func repairText(dir string, r embedded.WALRepair) string {
	if r.Entries == 0 {
		return fmt.Sprintf("the log of %s has no entry that this etcd cannot replay: nothing is to be repaired\n", dir)
	}
	text := fmt.Sprintf("the log of %s has %d entries of etcd 3.5 or older, the last at index %d; the database has the "+
		"log up to %d (term %d)\n", dir, r.Entries, r.Last, r.Applied, r.Term)
	record := fmt.Sprintf("a snapshot record at index %d, with the voters %x,", r.Applied, r.Voters)
	switch {
	case r.Obstacle != "":
		return text + fmt.Sprintf("it cannot be repaired: %s\n", r.Obstacle)
	case r.Copy == "":
		return text + fmt.Sprintf("it can be repaired: %s would be appended; nothing was changed\n", record)
	}
	return text + fmt.Sprintf("repaired: %s was appended\nas it was: %s\n", record, r.Copy)
}
