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
	c := &cobra.Command{
		Use:   "rehearse [DIR...]",
		Short: "Rehearse a takeover and the way back, with the newest backup or with copies of the data",
		Long: "Take a cluster over and give it back, made from its newest backup or from copies, and say what clients\n" +
			"notice: how long each step took, the longest time without an acknowledged write, lost writes, and\n" +
			"whether all members have the same data in the end.\n\n" +
			"It runs on any machine that reaches the store, in its own network namespace, from which no member of the\n" +
			"cluster can be reached; for that it needs Linux, and root or user namespaces. The etcd that plays the\n" +
			"other program is of this holdfast's version. DIR are copies of the directories or volumes of all\n" +
			"members: they keep their own IDs. A backup has no member's log, so its members get other IDs. Everything\n" +
			"is made in temporary files, which need room for a database and 200 MiB for each member, and are removed.\n" +
			"On the way back each member waits up to stop.hold for the previous one's disruption lock, as in\n" +
			"production.\n\n" +
			"Exit code: 0 if the rehearsal succeeded, 1 if something stopped it.",
		Example: "  holdfast takeover rehearse --config holdfast.yaml\n" +
			"  holdfast takeover rehearse --etcd.peer-url 'https://etcd-{slot}.internal.example:2380' copies/a copies/b " +
			"copies/c",
		RunE: configured(func(c *cobra.Command, loaded *config.Loaded, copies []string) error {
			if err := atLeast("members", 0, members); err != nil {
				return err
			}
			cfg := loaded.Config
			if len(copies) == 0 {
				var err error
				if cfg, err = node.WithSlots(c.Context(), cfg); err != nil {
					return err
				}
			}
			r, err := takeover.Rehearse(c.Context(), cfg, copies, min(members, config.MaxSlots), temp, c.ErrOrStderr())
			if err != nil {
				return fmt.Errorf("not rehearsed: %w", err)
			}
			return exitIf(r.Stopped != "", format.write(c, r, r.Text()))
		}),
	}
	addClientFlags(c.Flags(), append(shownForStores, "cluster.slots", "etcd.peer-url", "stop.hold")...)
	c.Flags().IntVar(&members, "members", 0, "`number` of members of a backup's cluster, 1–9 (default as the backup says)")
	c.Flags().StringVar(&temp, "dir", "", "`directory` for the temporary files (default that of the system)")
	format.add(c.Flags())
	return c
}
