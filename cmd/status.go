package cmd

import (
	"errors"
	"fmt"
	"net/http"
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
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the cluster: nodes, slots, and what each node does and why",
		Long: "Show the cluster as the node on this machine sees it: nodes, slots, states, what each node does and why.\n\n" +
			"With --why, explain instead: what is wrong with the cluster, what holds it back, and for each node what\n" +
			"it does, what comes next, and what stops it, most urgent first. JSON has all of it in either case.\n\n" +
			"Exit code: 0 healthy (also with warnings), 1 degraded, 2 no quorum, electing, or unknown because the\n" +
			"node has just started, 3 no node answers here.",
		Args: cobra.NoArgs,
		RunE: having(func(c *cobra.Command, cfg config.Config, client *control.Client, _ []string) error {
			var s health.ClusterStatus
			if err := client.Get(c.Context(), http.MethodGet, "/status", &s); err != nil {
				fmt.Fprintf(c.ErrOrStderr(), "holdfast: %v\n", err)
				if !errors.Is(err, control.ErrUnreachable) {
					return exitCode(1)
				}
				if why := node.LastEnd(cfg); why != "" {
					fmt.Fprintf(c.ErrOrStderr(), "holdfast: %s\n", why)
				}
				return exitCode(3)
			}
			text := show.Status
			if why {
				text = show.Why
			}
			if err := format.write(c, s, text(s, time.Now())); err != nil {
				return err
			}
			return map[health.Verdict]error{health.Degraded: exitCode(1), health.NoLeaderYet: exitCode(2),
				health.NoQuorum: exitCode(2), health.Unknown: exitCode(2)}[s.Health]
		}),
	}
	addClientFlags(c.Flags())
	format.add(c.Flags())
	c.Flags().BoolVar(&why, "why", false, "explain what each node does, what comes next, and what stops it")
	return c
}
