package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/cmd/takeover"
)

func newTakeoverRehearseCommand() *cobra.Command {
	var format output
	var members int
	var temp string
	c := configured(&cobra.Command{
		Use:   "rehearse [DIR...]",
		Short: "Rehearse a takeover and the way back, with the newest backup or with copies of the data",
		Args:  cobra.ArbitraryArgs,
	}, func(c *cobra.Command, loaded *config.Loaded, copies []string) error {
		if members < 0 || members > config.MaxSlots {
			return usage(fmt.Errorf("--members: must be 0–%d, got %d", config.MaxSlots, members))
		}
		cfg := loaded.Config
		if len(copies) == 0 {
			var err error
			if cfg, err = node.WithSlots(c.Context(), cfg); err != nil {
				return err
			}
		}
		r, err := takeover.Rehearse(c.Context(), cfg, copies, members, temp, c.ErrOrStderr())
		if err != nil {
			return fmt.Errorf("not rehearsed: %w", err)
		}
		return exitIf(r.Stopped != "", format.write(c, r, r.Text()))
	})
	c.Flags().IntVar(&members, "members", 0, "`number` of members of a backup's cluster, 1–9 (default as the backup says)")
	c.Flags().StringVar(&temp, "dir", "", "`directory` for the temporary files (default that of the system)")
	return format.add(c)
}
