package cmd

import (
	"fmt"

	"github.com/spf13/cobra"
)

// nothingChanged ends a dry run.
func nothingChanged(c *cobra.Command, would string) error {
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s\nnothing was changed (--dry-run)\n", would)
	return err
}
