package cmd

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

func newTakeoverStatusCommand() *cobra.Command {
	var format output
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how far a takeover is: who runs which member, what is frozen, and what to do next",
		Long: "Show how far a takeover is: who runs which member, what is frozen until the end, and what to do next.\n" +
			"Only the node on this machine is asked. On the way back it shows which members still run here.\n\n" +
			"Exit code: 0 the takeover is over, or there is none, 1 another program runs members, 3 no node answers\n" +
			"here.",
		Args: cobra.NoArgs,
		RunE: asking(func(c *cobra.Command, client *control.Client, _ []string) error {
			var t health.Takeover
			if err := client.Get(c.Context(), http.MethodGet, "/takeover", &t); err != nil {
				if errors.Is(err, control.ErrUnreachable) {
					fmt.Fprintf(c.ErrOrStderr(), "holdfast: %v\n", err)
					return exitCode(3)
				}
				return err
			}
			open := t.Phase == health.TakeoverMixed || t.Phase == health.TakeoverReturning || len(t.Waiting) > 0
			return exitIf(open, format.write(c, t, show.Takeover(t)))
		}),
	}
	addClientFlags(c.Flags())
	format.add(c.Flags())
	return c
}
