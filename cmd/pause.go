package cmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/control"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

func newPauseCommand() *cobra.Command {
	var reason string
	var dryRun bool
	c := asking(&cobra.Command{
		Use:   "pause",
		Short: "Stop all nodes from changing the cluster on their own, until resume",
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		if err := snapshot.CheckReason(reason); err != nil {
			return usage(fmt.Errorf("--reason: %w", err))
		}
		args := control.Args{"why": reason, "by": operator(), "dry": dryRun}
		if err := client.Do(c.Context(), "POST /pause", args); err != nil {
			return fmt.Errorf("pause the cluster: %w", err)
		}
		if dryRun {
			return sayDry(c, "would pause the whole cluster, for all nodes, until `holdfast resume`")
		}
		return say(c, "paused: no node changes the cluster by itself until `holdfast resume`; `holdfast status --why` "+
			"shows what waits\n")
	})
	c.Flags().StringVar(&reason, "reason", "", "`text` to show in the status")
	return addDryRun(c, &dryRun)
}

func newResumeCommand() *cobra.Command {
	var dryRun bool
	c := asking(&cobra.Command{
		Use:   "resume",
		Short: "End a pause: nodes act on their own again",
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		var p plan.Pause
		if err := client.Get(c.Context(), "POST /resume", &p, control.Args{"dry": dryRun}); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		was := fmt.Sprintf("the pause by %s, since %s (%s ago)", p.By, p.Since.UTC().Format(time.RFC3339),
			health.Age(time.Now(), p.Since))
		if dryRun {
			return sayDry(c, "would end %s", was)
		}
		return say(c, "resumed: ended %s\n", was)
	})
	return addDryRun(c, &dryRun)
}
