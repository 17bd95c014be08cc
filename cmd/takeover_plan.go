package cmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/takeover"
)

func newTakeoverPlanCommand() *cobra.Command {
	var format output
	c := &cobra.Command{
		Use:   "plan [DIR]",
		Short: "Say what would stop the takeover of this machine, and what a node would do here, step by step",
		Long: "Say what would stop the takeover of this machine, and what a node would do here, step by step. Give it the\n" +
			"configuration that `holdfast run` will have; of etcd-manager's flags, `holdfast etcd-manager FLAGS --plan`\n" +
			"does the same. The other program may run: it is asked for its members where the configuration has etcd\n" +
			"listen for clients. Nothing is changed.\n\n" +
			"DIR is the directory of etcd's data, or the volume of etcd-manager; without it the configuration says where\n" +
			"it is.\n\n" +
			"Exit code: 0 if nothing is in the way, 1 if something is.",
		Example: "  holdfast takeover plan --config holdfast.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: configured(func(c *cobra.Command, loaded *config.Loaded, dirs []string) error {
			return planTakeover(c, loaded, strings.Join(dirs, ""), format)
		}),
	}
	addClientFlags(c.Flags(), append(providerFlags, "cluster.name", "cluster.slots", "etcd.peer-url", "snapshot.store")...)
	format.add(c.Flags())
	return c
}

// planTakeover plans the takeover of this machine with the configuration of its node.
func planTakeover(c *cobra.Command, loaded *config.Loaded, dir string, format output) error {
	p := takeover.Judge(takeover.Look(c.Context(), loaded, dir))
	err := format.write(c, p, func(w io.Writer) error {
		_, err := io.WriteString(w, planText(p))
		return err
	})
	if err == nil && p.Obstacles > 0 {
		return exitCode(1)
	}
	return err
}

func planText(p takeover.Plan) string {
	var b strings.Builder
	for _, f := range p.Findings {
		writeFinding(&b, f)
	}
	if len(p.Findings) > 0 {
		fmt.Fprintln(&b)
	}
	if p.Program != "" {
		fmt.Fprintf(&b, "slot %s: member %s of cluster %s, which %s has made\n", cmp.Or(p.Slot, "?"), cmp.Or(p.Member, "?"),
			cmp.Or(p.Cluster, "?"), p.Program)
		fmt.Fprintf(&b, "data: %s in %s; token %s\n", p.Path, p.Volume, cmp.Or(p.Token, "not on the disk"))
		from := "the data"
		if p.Endpoint != "" {
			from = p.Endpoint
		} else if p.Version == "" {
			from = "etcd-manager's file `state`"
		}
		if len(p.Members) > 0 {
			fmt.Fprintf(&b, "members, by %s; cluster version %s\n", from, cmp.Or(p.Version, "not known"))
		}
		for _, m := range p.Members {
			fmt.Fprintf(&b, "  %s  %s  %s  %s%s%s\n", cmp.Or(m.Slot, "-"), cmp.Or(m.ID, "ID not known"), cmp.Or(m.Name,
				"no name"),
				m.PeerURL, map[bool]string{true: "  this machine"}[m.Own], map[bool]string{true: "  leads"}[m.Leads])
		}
		fmt.Fprintln(&b, "\nwhat happens:")
		for i, step := range p.Steps {
			fmt.Fprintf(&b, "  %d. %s\n", i+1, step)
		}
		fmt.Fprintf(&b, "frozen: %s\n\n", p.Frozen)
	}
	if p.Obstacles > 0 {
		fmt.Fprintf(&b, "in the way: %d of these\n", p.Obstacles)
	} else {
		fmt.Fprintln(&b, "nothing is in the way")
	}
	return b.String()
}
