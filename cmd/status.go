package cmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

func newStatusCommand() *cobra.Command {
	var format output
	var why bool
	c := having(&cobra.Command{
		Use:   "status",
		Short: "Show the cluster: nodes, slots, and what each node does and why",
	}, func(c *cobra.Command, cfg config.Config, client *control.Client, _ []string) error {
		var s health.ClusterStatus
		if err := client.Get(c.Context(), "GET /status", &s); err != nil {
			code := noAnswer(c, err)
			if why := node.LastEnd(cfg); why != "" && errors.Is(err, control.ErrUnreachable) {
				fmt.Fprintf(c.ErrOrStderr(), "holdfast: %s\n", why)
			}
			return code
		}
		text := show.Status
		if why {
			text = show.Why
		}
		if err := format.write(c, s, text(s, time.Now())); err != nil {
			return err
		}
		switch s.Health {
		case health.Healthy:
			return nil
		case health.Degraded:
			return exitCode(1)
		}
		return exitCode(2) // also for what a node of another version may say
	})
	c.Flags().BoolVar(&why, "why", false, "explain what each node does, what comes next, and what stops it")
	return format.add(c)
}
