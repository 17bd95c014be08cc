package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
)

func newConfigCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Print, check and explain the configuration",
	}
	config.AddFlags(c.PersistentFlags())
	return group(c, newConfigDefaultCommand(), newConfigCheckCommand(), newConfigShowCommand())
}

func newConfigDefaultCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "default",
		Short: "Print the default configuration file, with the meaning of each key",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return say(c, "%s", config.DefaultYAML)
		},
	}
}

func newConfigCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the configuration, and report everything that is wrong with it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := idle(c, "does nothing beside FILE", config.FileFlag); err != nil {
					return err
				}
			}
			l, err := config.Load(strings.Join(args, ""), c.Flags(), os.Environ())
			if err == nil {
				err = config.Refused(l)
			}
			if err == nil {
				err = usage(opens(c.Context(), l.Config))
			}
			if err != nil {
				return fmt.Errorf("check configuration: %d wrong\n%w", len(config.Errors(err)), err)
			}
			subject := l.File
			if subject == "" {
				subject = "configuration"
			}
			out := c.OutOrStdout()
			fmt.Fprintf(out, "%s: ok\n", subject)
			for _, w := range slices.Concat(l.Warnings, config.Lacking(l)) {
				fmt.Fprintf(out, "warning: %s\n", w)
			}
			return nil
		},
	}
}

// opens returns an error if a node could not open its store or its volumes, such as with AWS settings of this machine
// that contradict each other. It sends no request.
func opens(ctx context.Context, cfg config.Config) error {
	_, err := node.OpenStore(ctx, cfg)
	if err == nil {
		_, _, err = node.OpenProvider(ctx, cfg, prometheus.NewRegistry(), nil, zap.NewNop())
	}
	return err
}

func newConfigShowCommand() *cobra.Command {
	var format output
	c := &cobra.Command{
		Use:   "show",
		Short: "Print each key with its effective value and where it comes from",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := config.Load("", c.Flags(), os.Environ())
			if err != nil {
				return err
			}
			return map[string]func(*config.Loaded, io.Writer) error{
				"table": writeTable, "yaml": (*config.Loaded).WriteYAML, "json": (*config.Loaded).WriteJSON,
			}[format.format](l, c.OutOrStdout())
		},
	}
	return format.add(c, "yaml")
}

func writeTable(l *config.Loaded, w io.Writer) error {
	t := show.Table("key", "value", "origin")
	for _, k := range config.Keys() {
		t.AppendRow([]any{k.Name, l.Text(k), l.Origin[k.Name]})
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}
