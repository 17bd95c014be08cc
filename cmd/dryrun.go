package cmd

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// addDryRun adds the flag with which a command only says what it would do. Its exit code is 0 if the command could do
// it, and 1, with the reason, if it would be refused.
func addDryRun(fs *pflag.FlagSet, dryRun *bool) {
	fs.BoolVar(dryRun, "dry-run", false, "say what would be done, or why not, and change nothing")
}

// nothingChanged ends a dry run.
func nothingChanged(c *cobra.Command, would string) error {
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s\nnothing was changed (--dry-run)\n", would)
	return err
}
