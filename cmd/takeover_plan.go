package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/takeover"
)

func newTakeoverPlanCommand() *cobra.Command {
	var format output
	c := &cobra.Command{
		Use:   "plan [DIR]",
		Short: "Show what would stop the takeover of this machine, and what a node would do here, step by step",
		Long: "Show what would stop the takeover of this machine, and what a node would do here, step by step. Use the\n" +
			"configuration that `holdfast run` will have; for etcd-manager's flags, use `holdfast etcd-manager FLAGS\n" +
			"--plan`. The other program may run: it is asked for its members at the client address in the\n" +
			"configuration. Nothing is changed.\n\n" +
			"DIR is the directory of etcd's data, or the volume of etcd-manager; by default it comes from the\n" +
			"configuration.\n\n" +
			"Exit code: 0 if nothing is in the way, 1 if something is.",
		Example: "  holdfast takeover plan --config holdfast.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: configured(func(c *cobra.Command, loaded *config.Loaded, dirs []string) error {
			return planTakeover(c, loaded, strings.Join(dirs, ""), format)
		}),
	}
	addClientFlags(c.Flags(), append(providerFlags, "cluster.name", "cluster.slots", "etcd.peer-url", "snapshot.store")...)
	format.add(c.Flags())
	return c
}

// planTakeover prints the plan of a takeover of this machine with the configuration of its node.
func planTakeover(c *cobra.Command, loaded *config.Loaded, dir string, format output) error {
	p := takeover.Judge(takeover.Look(c.Context(), loaded, dir))
	return exitIf(p.Obstacles > 0, format.write(c, p, p.Text()))
}
