package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/gossip"
)

func newGossipCommand() *cobra.Command {
	c := &cobra.Command{Use: "gossip", Short: "Forget lost nodes; make a key for a gossip without TLS"}
	return group(c, newGossipForgetCommand(), newGossipKeygenCommand())
}

func newGossipKeygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen",
		Short: "Print a new line for gossip.key-file (tls.mode off)",
		Long: "Print a new line for gossip.key-file, which must have mode 0600 and be the same on each node. It is for\n" +
			"clusters without TLS: with it, the gossip needs no key.\n\n" +
			"  (umask 077; holdfast gossip keygen > /etc/holdfast-gossip.key)",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), gossip.NewKey())
			return err
		},
	}
}
