package cmd

import (
	"github.com/spf13/cobra"

	"holdfast/cmd/takeover"
)

func newTakeoverCommand() *cobra.Command {
	return group(&cobra.Command{Use: "takeover", Short: "Take a cluster over in place from etcd-manager or plain etcd, " +
		"and give it back"},
		newTakeoverCheckCommand(), newTakeoverPlanCommand(), newTakeoverRehearseCommand(), newTakeoverStatusCommand(),
		newTakeoverReleaseCommand())
}

func newTakeoverCheckCommand() *cobra.Command {
	var format output
	c := &cobra.Command{
		Use:   "check DIR...",
		Short: "Find out what would keep this etcd from running on another etcd's data",
		Long: "Find out what would keep this etcd from running on another etcd's data: members that only one of its\n" +
			"lists has (phantoms), a log that cannot be replayed, data of a newer etcd. Nothing is changed.\n\n" +
			"DIR contains etcd's directory `member`, or is a volume of etcd-manager, which has it in data/TOKEN and\n" +
			"names the TOKEN in its file `state`. Name the directories of all members, because they may differ. Stop\n" +
			"etcd on each of them first, or use copies.\n\n" +
			"Exit code: 0 if nothing is in the way, 1 if something is.",
		Example: "  holdfast takeover check /mnt/master-vol-0123456789abcdef0",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, dirs []string) error {
			r := takeover.Check(dirs)
			return exitIf(r.Obstacles > 0, format.write(c, r, r.Text()))
		},
	}
	format.add(c.Flags())
	return c
}
