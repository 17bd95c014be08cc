package cmd

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
)

func newRunCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "Run a node until SIGTERM",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			load := func() (*config.Loaded, error) { return config.Load("", c.Flags(), os.Environ()) }
			loaded, err := load()
			if err != nil {
				return err
			}
			return run(c, loaded, load)
		},
	}
	config.AddFlags(c.Flags())
	return c
}

func run(c *cobra.Command, loaded *config.Loaded, reload func() (*config.Loaded, error)) error {
	c.Root().ResetCommands() // frees 1 MB: the other commands have their flags as well
	cfg := loaded.Config
	// SIGHUP kills by default. Catch it also before config.Watch begins and after it has ended.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	lg, level, err := node.NewLogger(cfg.Log)
	if err != nil {
		return err
	}
	defer lg.Sync() //nolint:errcheck // standard error cannot be synced on a terminal
	if err := node.Run(c.Context(), buildVersion(), loaded, reload, lg, level); err != nil {
		if cfg.Log.Format == config.LogConsole {
			return err // printed as text for people
		}
		lg.Error("the node ends", zap.Error(err))
		return exitCode(codeOf(err))
	}
	lg.Info("stopped")
	return nil
}
