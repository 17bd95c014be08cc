package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/cmd/config"
	"holdfast/cmd/show"
)

// addDryRun gives c, which it returns, --dry-run, with which it only shows what it would do. The exit code is then 0 if
// the command could do it, and 1, with the reason, if it would be refused.
func addDryRun(c *cobra.Command, dryRun *bool) *cobra.Command {
	c.Flags().BoolVar(dryRun, "dry-run", false, "show what would be done, or why it is refused; change nothing")
	return c
}

// output is the value of --output: a table or another text for people, or JSON for programs.
type output struct {
	format  string
	formats []string
}

// add gives c, which it returns, the flag --output, which takes table (the default), the other formats, and json.
func (o *output) add(c *cobra.Command, others ...string) *cobra.Command {
	o.format, o.formats = "table", slices.Concat([]string{"table"}, others, []string{"json"})
	c.Flags().VarP(o, "output", "o", "`format`: "+o.allowed())
	return c
}

func (o *output) allowed() string {
	last := len(o.formats) - 1
	return strings.Join(o.formats[:last], ", ") + " or " + o.formats[last]
}

func (o *output) String() string { return o.format }
func (o *output) Type() string   { return "string" }

func (o *output) Set(format string) error {
	if !slices.Contains(o.formats, format) {
		return errors.New("must be " + o.allowed())
	}
	o.format = format
	return nil
}

func (o output) json() bool { return o.format == "json" }

// write prints an answer: as JSON for programs, or as text for people.
func (o output) write(c *cobra.Command, answer any, text string) error {
	if o.json() {
		return show.JSON(c.OutOrStdout(), answer)
	}
	return say(c, "%s", text)
}

func say(c *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(c.OutOrStdout(), format, args...)
	return err
}

// sayDry prints what a command would do without --dry-run.
func sayDry(c *cobra.Command, format string, args ...any) error {
	return show.NothingChanged(c.OutOrStdout(), fmt.Sprintf(format, args...))
}

// atLeast returns an error if the value of a flag is less than the least one allowed.
func atLeast[T int | int64 | time.Duration](flag string, least, got T) error {
	if got < least {
		return usage(fmt.Errorf("--%s: must be %v or more, got %v", flag, least, got))
	}
	return nil
}

// durationFlag is a flag that takes days, weeks and years as well, as the configuration does.
type durationFlag struct{ d *time.Duration }

func (f *durationFlag) String() string {
	if f.d == nil {
		return ""
	}
	return config.FormatDuration(*f.d)
}

func (f *durationFlag) Type() string { return "duration" }

// Set implements [pflag.Value], in the syntax of the configuration.
func (f *durationFlag) Set(text string) error {
	d, err := config.ParseDuration(text)
	if err == nil {
		*f.d = d
	}
	return err
}

// readsConfigKey annotates a command that reads the configuration.
const readsConfigKey = "holdfast-reads-config"

// readsConfig gives a command --config and a flag for each key. finish adds them, the same to all such commands: making
// them for each would take most of the time of a short command. If c.Args is not set, the command takes no arguments.
func readsConfig(c *cobra.Command) {
	c.Annotations = map[string]string{readsConfigKey: ""}
	if c.Args == nil {
		c.Args = cobra.NoArgs
	}
}

// offeredKeys are the keys that a shell completes: those that name a node, a store, or volumes. The others work as
// well, but seldom matter to a command.
var offeredKeys = []string{
	config.FileFlag, "control.socket", "control.remote.address", "cluster.name", "cluster.slots", "etcd.peer-url",
	"snapshot.store", "snapshot.scratch", "snapshot.identity-file", "snapshot.s3.region", "snapshot.s3.endpoint",
	"snapshot.s3.path-style", "snapshot.keep.all", "snapshot.keep.hourly", "snapshot.keep.daily", "snapshot.keep.newest",
	"volume.provider", "volume.local.root", "volume.local.directory", "volume.ebs.tags", "volume.ebs.kubernetes-cluster",
	"volume.ebs.region", "volume.ebs.endpoint",
}

// keyFlags returns the flags of the commands that read the configuration.
func keyFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) { f.Hidden = !slices.Contains(offeredKeys, f.Name) })
	return fs
}

// idle returns an error if one of the flags was given, because it would do nothing.
func idle(c *cobra.Command, why string, flags ...string) error {
	for _, name := range flags {
		if c.Flags().Changed(name) {
			return usage(fmt.Errorf("--%s: %s", name, why))
		}
	}
	return nil
}

// notBoth accepts no arguments, and not both of two flags. cobra's own check of that is no usage error.
func notBoth(one, other, why string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := cobra.NoArgs(c, args); err != nil {
			return err
		}
		if c.Flags().Changed(one) && c.Flags().Changed(other) {
			return fmt.Errorf("say --%s or --%s, not both: %s", one, other, why)
		}
		return nil
	}
}
