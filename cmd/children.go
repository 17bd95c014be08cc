package cmd

import (
	"slices"

	"github.com/spf13/cobra"

	"holdfast/cmd/child"
	"holdfast/cmd/takeover"
)

// works are what processes of this program are told to do by others of it.
var works = slices.Concat(child.Works, takeover.Works)

// newChildCommands are for this program itself, which runs in a process of its own what etcd or a crafted file may end
// the process over.
func newChildCommands() (all []*cobra.Command) {
	for _, w := range works {
		all = append(all, &cobra.Command{Use: w.Name, Short: w.Short, Hidden: true, Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				return w.Run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
			}})
	}
	return all
}

// isChild reports whether arguments are those of such a process.
func isChild(args []string) bool {
	return len(args) > 0 && slices.ContainsFunc(works, func(w child.Work) bool { return w.Name == args[0] })
}
