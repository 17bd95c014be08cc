package cmd

import (
	"slices"

	"github.com/spf13/cobra"

	"holdfast/cmd/child"
	"holdfast/cmd/takeover"
)

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
