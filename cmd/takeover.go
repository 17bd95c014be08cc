package cmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/takeover"
)

func newTakeoverCommand() *cobra.Command {
	return group(&cobra.Command{Use: "takeover", Short: "Take a cluster over in place from etcd-manager or plain etcd, " +
		"and give it back"},
		newTakeoverCheckCommand(), newTakeoverPlanCommand(), newTakeoverRehearseCommand(), newTakeoverStatusCommand(),
		newTakeoverReleaseCommand())
}

func newTakeoverCheckCommand() *cobra.Command {
	var format output
	c := &cobra.Command{
		Use:   "check DIR...",
		Short: "Find out what would keep this etcd from running on the data of another",
		Long: "Find out what would keep this etcd from running on the data of another: members that only one of its\n" +
			"lists has (phantoms), a log that cannot be replayed, data of a newer etcd. Nothing is changed.\n\n" +
			"DIR holds etcd's directory `member`, or is a volume of etcd-manager, which has it in data/TOKEN, and whose file\n" +
			"`state` names the TOKEN. Name those of all members, for they may differ. Etcd must be stopped on each, or DIR\n" +
			"be a copy.\n\n" +
			"Exit code: 0 if nothing is in the way, 1 if something is.",
		Example: "  holdfast takeover check /mnt/master-vol-0123456789abcdef0",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, dirs []string) error {
			r := takeover.Check(dirs)
			err := format.write(c, r, func(w io.Writer) error {
				_, err := io.WriteString(w, takeoverText(r))
				return err
			})
			if err == nil && r.Obstacles > 0 {
				return exitCode(1)
			}
			return err
		},
	}
	format.add(c.Flags())
	return c
}

func takeoverText(r takeover.Report) string {
	var b strings.Builder
	for _, m := range r.Members {
		fmt.Fprintln(&b, m.Dir)
		if l := m.Lists; l != nil {
			fmt.Fprintf(&b, "[+] member %x of cluster %x, which has %d; its log ends at index %d, term %d\n", l.Member,
				l.Cluster, len(l.V3), l.Log.Index, l.Log.Term)
			fmt.Fprintf(&b, "[+] cluster version %s, storage version %s\n", cmp.Or(l.ClusterVersion, "not known"),
				cmp.Or(l.StorageVersion, "none, as before etcd 3.6"))
		}
		for _, f := range m.Findings {
			writeFinding(&b, f)
		}
		fmt.Fprintln(&b)
	}
	if r.Obstacles > 0 {
		fmt.Fprintf(&b, "in the way: %d of these\n", r.Obstacles)
	} else {
		fmt.Fprintln(&b, "nothing is in the way")
	}
	return b.String()
}

// writeFinding writes what is in the way, or worth to be known, and what to do about it.
func writeFinding(b *strings.Builder, f takeover.Finding) {
	mark := "[!]"
	if f.Blocks {
		mark = "[-]"
	}
	fmt.Fprintln(b, mark, f.Text)
	for _, line := range append(f.Means, f.Cure) {
		if line != "" {
			fmt.Fprintf(b, "      %s\n", line)
		}
	}
}
