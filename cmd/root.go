package cmd

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/cmd/child"
	"holdfast/cmd/config"
	"holdfast/cmd/gorunner"
	"holdfast/cmd/takeover"
)

// exitCode is an error that only sets the exit code. The command has already printed the reason.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitUsage is the exit code for a wrong command line or configuration (EX_USAGE of sysexits.h). Nothing was tried. No
// command uses this code for anything else.
const exitUsage = 64

// exitIf returns err or, if it is nil and the result is bad, exit code 1. The command has printed the result.
func exitIf(bad bool, err error) error {
	if err == nil && bad {
		return exitCode(1)
	}
	return err
}

// usageError marks an error in the command line or the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// bounce is the time within which several signals count as one. timeout(1) and other wrappers signal the command first
// and then its process group, so the command gets the signal twice.
const bounce = time.Second

// obey calls cancel on the first signal, and exit(130) on the next one that comes more than bounce later.
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

// Execute runs the command line and returns the exit code: 0 on success, 64 if the command line or the configuration is
// wrong, and 1 on any other error, unless the command documents other codes. SIGINT or SIGTERM ends a command cleanly;
// another one, more than a second later, ends it at once.
//
// If the binary is called etcd-manager, it runs the command of that name. If it is called go-runner, it runs the
// program in its arguments.
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
	// No other user may read data, backups and keys, whichever command writes them. Files that others must read, such as
	// /etc/hosts, get their mode explicitly.
	syscall.Umask(0o077)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	go obey(signals, cancel, os.Exit)
	cobra.EnablePrefixMatching = false // etcdctl's package turns it on, and `snapshot pr` would prune
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

func codeOf(err error) int {
	_, wrong := errors.AsType[usageError](err)
	if _, invalid := errors.AsType[config.Invalid](err); wrong || invalid {
		return exitUsage
	}
	return 1
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "holdfast",
		Short:         "One binary that is a node of an etcd cluster: it runs, heals and backs it up",
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
	finish(root, keyFlags())
	cobra.AddTemplateFunc("flagsText", config.FlagsText)
	root.SetUsageTemplate(strings.NewReplacer("{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}",
		"{{flagsText .LocalFlags}}",
		"{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}",
		"{{flagsText .InheritedFlags}}").Replace(root.UsageTemplate()))
	return root
}

// helpText has the help of the commands, and their examples, in a section for each command.
//
//go:embed help.md
var helpText string

// helpOf returns the help and the examples of the command with this path, such as "holdfast tls show".
func helpOf(path string) (long, example string) {
	_, section, _ := strings.Cut(helpText, "\n## "+path+"\n\n")
	section, _, _ = strings.Cut(strings.TrimRight(section, "\n"), "\n\n## ")
	long, example, _ = strings.Cut(section, "\n\nExamples:\n\n")
	return long, example
}

// finish gives c and all commands below it their help, and those that read the configuration its flags. It makes
// cobra's errors about flags and arguments usage errors, and completes the formats of --output in a shell.
func finish(c *cobra.Command, keys *pflag.FlagSet) {
	if _, reads := c.Annotations[readsConfigKey]; reads {
		c.Flags().AddFlagSet(keys)
	}
	if long, example := helpOf(c.CommandPath()); long != "" {
		c.Long, c.Example = long, example
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c.HasSubCommands() && c.Flags().NArg() > 0 { // the command is unknown, and so are its flags
			return c.RunE(c, c.Flags().Args())
		}
		return usage(err)
	})
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, all []string) error {
			if err := filled(c, all, keys); err != nil {
				return usage(err)
			}
			return usage(args(c, all))
		}
	}
	if f := c.Flags().Lookup("output"); f != nil {
		if o, ok := f.Value.(*output); ok {
			// It fails only for a flag that does not exist.
			_ = c.RegisterFlagCompletionFunc("output",
				cobra.FixedCompletions(o.formats, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for _, below := range c.Commands() {
		finish(below, keys)
	}
}

// filled returns an error if an argument, or the value of a flag that is no key, is empty. Most often a variable of a
// script is not set, and what is left means something else: `restore "$NAME"` would restore the latest backup, and
// `restore latest --to "$DIR"` the whole cluster.
func filled(c *cobra.Command, args []string, keys *pflag.FlagSet) (err error) {
	if slices.Contains(args, "") {
		return fmt.Errorf("an argument is empty; usage: %s", c.UseLine())
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		key := keys.Lookup(f.Name) != nil && f.Name != config.FileFlag
		if v := f.Value.String(); !key && (v == "" || v == "[]") {
			err = fmt.Errorf("--%s: must not be empty", f.Name)
		}
	})
	return err
}

// group makes c a command that only has subcommands. Without arguments it shows its help. An unknown subcommand is an
// error, so that a script with a typing mistake does not succeed.
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

// works are the hidden commands that this program runs as child processes.
var works = slices.Concat(child.Works, takeover.Works)

// newChildCommands returns the hidden commands for child processes. They do work in which etcd or a crafted file may
// end the process.
func newChildCommands() (all []*cobra.Command) {
	for _, w := range works {
		all = append(all, &cobra.Command{Use: w.Name, Short: w.Short, Hidden: true, Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				return w.Run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
			}})
	}
	return all
}

// isChild reports whether the arguments are those of a child process.
func isChild(args []string) bool {
	return len(args) > 0 && slices.ContainsFunc(works, func(w child.Work) bool { return w.Name == args[0] })
}
