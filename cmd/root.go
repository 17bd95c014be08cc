package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/gorunner"
)

// exitCode is an error that only sets the exit code: everything has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitUsage is the exit code where the command line or the configuration is wrong, so that nothing was tried: EX_USAGE
// of sysexits.h. No command uses it for anything else.
const exitUsage = 64

// usageError is a command line or a configuration that is wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage marks an error as one of the command line or the configuration.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// bounce is the time within which several signals to end count as one: timeout(1) and other wrappers signal the command
// and then its process group, the command among them.
const bounce = time.Second

// obey has the first signal cancel, and the next one that comes more than bounce later exit with 130.
func obey(signals <-chan os.Signal, cancel func(), exit func(int)) {
	<-signals
	first := time.Now()
	cancel()
	for s := range signals {
		if time.Since(first) > bounce {
			fmt.Fprintf(os.Stderr, "holdfast: a second %s: ending at once\n", s)
			exit(130)
			return
		}
	}
}

// Execute runs the command line and returns the exit code: 0 when all is well, 64 where the command line or the
// configuration is wrong, 1 on any other error, and what the command documents otherwise. SIGINT and SIGTERM end a
// command cleanly; one more after a second ends it at once.
//
// The name of the program says what it is as well: etcd-manager is the command of that name, and go-runner runs another
// program.
func Execute() int {
	args := os.Args[1:]
	switch filepath.Base(os.Args[0]) {
	case "go-runner":
		return gorunner.Run(args, os.Stdout, os.Stderr)
	case etcdManagerName:
		if !isChild(args) {
			args = append([]string{etcdManagerName}, args...)
		}
	}
	// Data, backups and keys are for nobody else, whichever command writes them. What others read, such as /etc/hosts,
	// is given its mode by name.
	syscall.Umask(0o077)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	go obey(signals, cancel, os.Exit)
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	fmt.Fprintf(os.Stderr, "holdfast: %v\n", err)
	return codeOf(err)
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	_, wrong := errors.AsType[usageError](err)
	if _, invalid := errors.AsType[config.Invalid](err); wrong || invalid {
		return exitUsage
	}
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
	group(root,
		newRunCommand(), newStatusCommand(), newHistoryCommand(), newDoctorCommand(), newPauseCommand(), newAuthCommand(),
		newResumeCommand(), newSnapshotCommand(), newRestoreCommand(), newRecoverCommand(), newRejoinCommand(),
		newDowngradeCommand(), newDrainCommand(), newUndrainCommand(), newFoundCommand(), newVolumeCommand(), newTLSCommand(),
		newDiscoverCommand(), newGossipCommand(), newTakeoverCommand(), newEtcdManagerCommand(),
		newConfigCommand(), newDemoCommand(), newEtcdctlCommand(), newEtcdutlCommand(), newVersionCommand(),
	)
	root.AddCommand(newChildCommands()...)
	markUsage(root)
	cobra.AddTemplateFunc("flagsText", config.FlagsText)
	root.SetUsageTemplate(strings.NewReplacer("{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}",
		"{{flagsText .LocalFlags}}",
		"{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}",
		"{{flagsText .InheritedFlags}}").Replace(root.UsageTemplate()))
	completeOutput(root)
	return root
}

// completeOutput has a shell complete the formats.
func completeOutput(c *cobra.Command) {
	if f := c.Flags().Lookup("output"); f != nil {
		if o, ok := f.Value.(*output); ok {
			// it fails for a flag that is not there
			_ = c.RegisterFlagCompletionFunc("output",
				cobra.FixedCompletions(o.formats, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for _, below := range c.Commands() {
		completeOutput(below)
	}
}

// markUsage marks what cobra finds wrong with flags and arguments.
func markUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, all []string) error { return usage(args(c, all)) }
	}
	for _, below := range c.Commands() {
		markUsage(below)
	}
}

// group makes c a command that only has others below it. Alone it shows its help; an unknown one below it is an error:
// a script with a typing mistake must not be told that all is well.
func group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.AddCommand(below...)
	c.DisableFlagsInUseLine, c.SuggestionsMinimumDistance, c.Args = true, 2, cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		hint := fmt.Sprintf("`%s --help` shows what there is", c.CommandPath())
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("did you mean %s?", near[0])
		}
		return usage(fmt.Errorf("unknown command %q for %q: %s", args[0], c.CommandPath(), hint))
	}
	return c
}
