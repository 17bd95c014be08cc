package cmd

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
)

func newTLSShowCommand() *cobra.Command {
	var format output
	c := &cobra.Command{
		Use:   "show",
		Short: "Show every certificate that the configuration names, when it ends, and the rotation of the authorities",
		Long: "Show every certificate that the configuration names, and when it ends: the node's own, and authorities.\n" +
			"With tls.mode auto also the rotation of the authorities that is open: since when, what it waits for, what\n" +
			"comes next. The node on this machine is asked for that; if it does not answer, the store is. The store also\n" +
			"knows the certificates that `holdfast tls client` has issued.\n\n" +
			"Exit code: 0, or 1 if a certificate of the configuration has expired or cannot be read.",
		Args: cobra.NoArgs,
		RunE: configured(func(c *cobra.Command, l *config.Loaded, _ []string) error {
			now := time.Now()
			shown := certificates.Look(c.Context(), l.Config, now)
			if err := format.write(c, shown, func(w io.Writer) error { return shown.Write(w, now) }); err != nil {
				return err
			}
			for _, s := range shown.Certificates {
				if s.Expired || s.Error != "" {
					return exitCode(1)
				}
			}
			return nil
		}),
	}
	addClientFlags(c.Flags(), shownForStores...)
	format.add(c.Flags())
	return c
}
