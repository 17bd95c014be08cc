package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// exitCode is an error that only sets the exit code: everything has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Execute runs the command line and returns the exit code: 0 when all is well, 1 on an error, and what the
// command documents otherwise. SIGINT and SIGTERM end a command cleanly; the second one ends it at once.
func Execute() int {
	// Data, backups and keys are for nobody else, whichever command writes them. What others read, such as /etc/hosts, is
	// given its mode by name.
	syscall.Umask(0o077)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		<-signals
		cancel()
		s := <-signals
		fmt.Fprintf(os.Stderr, "holdfast: a second %s: ending at once\n", s)
		os.Exit(130)
	}()
	err := newRoot().ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(os.Stderr, "holdfast: %v\n", err)
	return 1
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "One binary that is a node of an etcd cluster: it runs, heals and backs it up",
		Long: "holdfast is a node of an etcd cluster in one binary. It embeds etcd, finds its peers by gossip instead of\n" +
			"DNS, claims the disk that gives it its identity, and saves verified snapshots.\n\n" +
			"To see it:   holdfast demo      three nodes on this machine\n" +
			"To use it:   holdfast run       one node; with --config FILE, one of several",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newRunCommand(), newStatusCommand(), newHistoryCommand(), newDoctorCommand(), newPauseCommand(), newAuthCommand(), newResumeCommand(), newSnapshotCommand(), newRestoreCommand(), newRecoverCommand(), newDowngradeCommand(), newDrainCommand(), newUndrainCommand(), newFoundCommand(), newVolumeCommand(), newTLSCommand(),
		newDiscoverCommand(), newGossipCommand(),
		newConfigCommand(), newDemoCommand(), newEtcdctlCommand(), newEtcdutlCommand(), newVersionCommand(),
		newDrillChildCommand(), newReplayChildCommand(), newExamineChildCommand(),
	)
	return root
}

// group makes c a command that only has others below it. Alone it shows its help; an unknown one below it is an error:
// a script with a typing mistake must not be told that all is well.
func group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.AddCommand(below...)
	c.DisableFlagsInUseLine, c.SuggestionsMinimumDistance = true, 2
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		hint := fmt.Sprintf("`%s --help` shows what there is", c.CommandPath())
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("did you mean %s?", near[0])
		}
		return fmt.Errorf("unknown command %q for %q: %s", args[0], c.CommandPath(), hint)
	}
	return c
}
