package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/cmd/takeover"
	"holdfast/embedded/health"
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
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, dirs []string) error {
			r := takeover.Check(dirs)
			return exitIf(r.Obstacles > 0, format.write(c, r, r.Text()))
		},
	}
	return format.add(c)
}

func newTakeoverPlanCommand() *cobra.Command {
	var format output
	c := configured(&cobra.Command{
		Use:   "plan [DIR]",
		Short: "Show what would stop the takeover of this machine, and what a node would do here, step by step",
		Args:  cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, loaded *config.Loaded, dirs []string) error {
		return planTakeover(c, loaded, strings.Join(dirs, ""), format)
	})
	return format.add(c)
}

// planTakeover prints the plan of a takeover of this machine with the configuration of its node.
func planTakeover(c *cobra.Command, loaded *config.Loaded, dir string, format output) error {
	p := takeover.Judge(takeover.Look(c.Context(), loaded, dir))
	return exitIf(p.Obstacles > 0, format.write(c, p, p.Text()))
}

func newTakeoverStatusCommand() *cobra.Command {
	var format output
	c := asking(&cobra.Command{
		Use:   "status",
		Short: "Show how far a takeover is: who runs which member, what is frozen, and what to do next",
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		var t health.Takeover
		if err := client.Get(c.Context(), "GET /takeover", &t); err != nil {
			return noAnswer(c, err)
		}
		open := t.Phase == health.TakeoverMixed || t.Phase == health.TakeoverReturning || len(t.Waiting) > 0
		return exitIf(open, format.write(c, t, show.Takeover(t)))
	})
	return format.add(c)
}
