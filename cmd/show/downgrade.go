package show

import (
	"fmt"
	"strings"
	"time"

	"holdfast/embedded/health"
)

// Downgrade says what a downgrade does, or what the operator must do next. fresh is the age up to which a backup
// counts.
func Downgrade(d health.Downgrade, fresh time.Duration) string {
	out := new(strings.Builder)
	switch d.Phase {
	case health.DowngradePossible:
		fmt.Fprintf(out, "the cluster is at etcd %s; to go down to %s\n"+
			"  1. a backup is made, unless one is younger than %s\n"+
			"  2. etcd is told to write its data as %s does, on every member\n"+
			"  3. then the binaries may be replaced, one at a time: %s\n", d.Cluster, d.To, fresh, d.To,
			strings.Join(d.Replace, ", "))
	case health.DowngradeDone:
		fmt.Fprintf(out, "every member runs etcd %s: nothing is left to do\n", d.To)
	case health.DowngradeWaiting:
		fmt.Fprintf(out, "the downgrade to etcd %s is under way and waits: %s\n", d.To, strings.Join(d.Why, ", "))
	case health.DowngradeReady:
		fmt.Fprintf(out,
			"the cluster is at etcd %s and every member's data with it. Now replace the binary, one node at a time, in this "+
				"order:\n", d.Cluster)
		for _, n := range d.Replace {
			fmt.Fprintf(out, "  %s\n", n)
		}
		for _, why := range d.Why {
			fmt.Fprintf(out, "  not yet, for %s\n", why)
		}
		fmt.Fprintf(out,
			"with a holdfast that embeds etcd %s, restart it, and wait until `holdfast status` says HEALTHY before the next.\n",
			d.To)
		if d.Adopted {
			fmt.Fprintf(out, "To give the cluster back to etcd-manager or plain etcd %s instead: `holdfast takeover release` "+
				"on one node\nafter the other, the leader last.\n", d.To)
		}
		if d.Target != "" {
			fmt.Fprintf(out,
				"When the last one runs give this command once more: it waits until etcd knows that it is over. Before that no "+
					"newer\n"+
					"etcd can raise the cluster again; `holdfast downgrade --cancel` gives the downgrade up, and the cluster rises "+
					"as soon as\n"+
					"no member runs etcd %s.\n", d.To)
		}
	}
	return out.String()
}
