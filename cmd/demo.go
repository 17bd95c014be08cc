package cmd

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast/cmd/demo"
)

func newDemoCommand() *cobra.Command {
	var o demo.Options
	var dryRun bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a cluster of three nodes on this machine and watch it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for name, got := range map[string]int{"nodes": o.Nodes, "slots": o.Slots} {
				if c.Flags().Changed(name) {
					if err := atLeast(name, 1, got); err != nil {
						return err
					}
				}
			}
			if !dryRun {
				return runDemo(c, o)
			}
			would, err := demo.Would(o)
			if err != nil {
				return err
			}
			return sayDry(c, "%s", would)
		},
	}
	fs := c.Flags()
	fs.StringVar(&o.Dir, "dir", "./holdfast-demo", "`directory` for data, backups, configurations and logs")
	fs.IntVar(&o.Nodes, "nodes", 0, "`number` of nodes, 1–9 (default 3, or as many as before)")
	fs.IntVar(&o.Slots, "slots", 0, "`number` of slots, 1 to the number of nodes (default 3, or 1 with fewer nodes)")
	fs.StringVar(&o.Base, "address-base", "",
		"loopback `address` of the first node; the others follow (default 127.0.0.1, or as before)")
	fs.BoolVar(&o.Clean, "clean", false, "delete what an earlier demo left in the directory, then start over")
	return addDryRun(c, &dryRun)
}

// runDemo runs the demo with its own signal handling. The process must end after the nodes, even at the second Ctrl-C,
// which kills them.
func runDemo(c *cobra.Command, o demo.Options) error {
	signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	killing, kill := context.WithCancel(context.Background())
	defer kill()
	go obey(signals, stop, func(int) { kill() }) // ends with the process
	err := demo.Run(ctx, killing, o, c.OutOrStdout())
	if err == nil && killing.Err() != nil {
		return exitCode(130)
	}
	return err
}
