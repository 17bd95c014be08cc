package cmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/control"
	"holdfast/gossip"
)

func newGossipCommand() *cobra.Command {
	c := &cobra.Command{Use: "gossip", Short: "Forget lost nodes, and generate a key for gossip without TLS"}
	return group(c, newGossipForgetCommand(), newGossipKeygenCommand())
}

func newGossipKeygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen",
		Short: "Print a new line for gossip.key-file (tls.mode off)",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), gossip.NewKey())
			return err
		},
	}
}

func newGossipForgetCommand() *cobra.Command {
	var format output
	var dryRun bool
	c := asking(&cobra.Command{
		Use:   "forget NODE",
		Short: "Make all nodes forget a lost node, and what it knew",
		Args:  cobra.ExactArgs(1),
	}, func(c *cobra.Command, client *control.Client, args []string) error {
		var r gossip.Forgetting
		lost := control.Args{"node": args[0], "dry": dryRun}
		if err := client.Get(c.Context(), "POST /gossip/forget", &r, lost); err != nil {
			return fmt.Errorf("forget %s: %w", args[0], err)
		}
		err := format.write(c, r, forgottenText(r))
		if err == nil && !dryRun && len(r.Untold) > 0 {
			return fmt.Errorf("forget %s: %s did not confirm: give the command again",
				args[0], strings.Join(slices.Sorted(maps.Keys(r.Untold)), ", "))
		}
		return err
	})
	format.add(c)
	return addDryRun(c, &dryRun)
}

// forgottenText says which nodes have forgotten which, and what that one knew.
func forgottenText(r gossip.Forgetting) string {
	verb := "forgot"
	if r.Dry {
		verb = "would forget"
	}
	var b strings.Builder
	since := r.Since.UTC().Format(time.RFC3339)
	fmt.Fprintf(&b, "%s %s, lost since %s, on %s\n", verb, r.Node, since, strings.Join(r.Told, ", "))
	for _, node := range slices.Sorted(maps.Keys(r.Untold)) {
		fmt.Fprintf(&b, "not confirmed by %s: %s\n", node, r.Untold[node])
	}
	if r.Slot != "" {
		fmt.Fprintf(&b, "what it held: slot %s, disk %s\n", r.Slot, r.Disk)
	}
	if r.Record != "" {
		fmt.Fprintf(&b, "what it knew: the cluster %s\n", r.Record)
		fmt.Fprintln(&b, "if no other node, disk or store knows that cluster, blank disks may found a new one")
	}
	if r.Dry {
		fmt.Fprintln(&b, "nothing was changed (--dry-run)")
	}
	return b.String()
}
