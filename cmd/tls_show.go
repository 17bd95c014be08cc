package cmd

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/cmd/show"
)

func newTLSShowCommand() *cobra.Command {
	var format output
	c := &cobra.Command{
		Use:   "show",
		Short: "Show every configured certificate with its expiry, and an open rotation of the authorities",
		Long: "Show every configured certificate with its expiry: the node's own, and the authorities. With tls.mode\n" +
			"auto, also show an open rotation of the authorities: since when, what it waits for, what comes next. The\n" +
			"node on this machine is asked for that; if it does not answer, the store is read. The store also lists\n" +
			"the certificates that `holdfast tls client` has issued.\n\n" +
			"Exit code: 0, or 1 if a configured certificate has expired or cannot be read.",
		Args: cobra.NoArgs,
		RunE: configured(func(c *cobra.Command, l *config.Loaded, _ []string) error {
			now := time.Now()
			shown := certificates.Look(c.Context(), l.Config, now)
			bad := func(s show.Certificate) bool { return s.Expired || s.Error != "" }
			return exitIf(slices.ContainsFunc(shown.Certificates, bad), format.write(c, shown, shown.Text(now)))
		}),
	}
	addClientFlags(c.Flags(), shownForStores...)
	format.add(c.Flags())
	return c
}
