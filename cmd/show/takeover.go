package show

import (
	"cmp"
	"fmt"
	"strings"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// Takeover returns the state of a takeover.
func Takeover(t health.Takeover) string {
	var b strings.Builder
	switch t.Phase {
	case health.TakeoverNone:
		if len(t.Waiting) > 0 {
			fmt.Fprintln(&b, "NOT BEGUN: no node here has taken a member over, or founded a cluster")
		} else {
			fmt.Fprintln(&b, "no takeover: holdfast has founded this cluster, or this node knows none yet")
		}
	case health.TakeoverMixed:
		fmt.Fprintf(&b, "MIXED: cluster %s, %d of %d voters not taken over yet\n", t.Cluster, len(t.Foreign), len(t.Members))
	case health.TakeoverReturning:
		fmt.Fprintf(&b, "GOING BACK: cluster %s, %d of %d voters still run here\n", t.Cluster, ours(t), len(t.Members))
	case health.TakeoverOver:
		fmt.Fprintf(&b, "OVER: cluster %s is taken over as a whole\n", t.Cluster)
	}
	for _, m := range t.Members {
		fmt.Fprintf(&b, "  slot %s  member %s  %s\n", m.Slot, m.Member, whoRuns(m))
	}
	for _, line := range t.Waiting {
		fmt.Fprintf(&b, "waiting: %s\n", line)
	}
	if t.Frozen != "" {
		fmt.Fprintf(&b, "frozen: %s\n", t.Frozen)
	}
	if t.Next != "" {
		fmt.Fprintf(&b, "next: %s\n", t.Next)
	}
	return b.String()
}

func ours(t health.Takeover) (n int) {
	for _, m := range t.Members {
		if m.Ours {
			n++
		}
	}
	return n
}

func whoRuns(m health.TakeoverMember) string {
	leads := map[bool]string{true: ", leads"}[m.Leader]
	reached := map[bool]string{true: "raft is connected to it", false: "raft is not connected to it"}[m.Connected]
	if m.Unknown {
		reached = "not known whether raft is connected to it"
	}
	reached += leads
	switch {
	case m.Ours:
		return fmt.Sprintf("holdfast on %s, etcd %s%s", m.Node, m.Version, leads)
	case m.Connected:
		return "another program; " + reached
	case m.Why != "":
		return fmt.Sprintf("down on %s: %s", m.Node, m.Why)
	case m.Released:
		return fmt.Sprintf("not run by %s, which held its disk last; %s", m.Node, reached)
	}
	return "no node of holdfast runs it; " + reached
}

// Release returns the result of a release. With dry, it says what a release would do.
func Release(r health.Release, dry bool) string {
	var b strings.Builder
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	if !r.Released {
		if dry {
			fmt.Fprintf(&b, "would release slot %s to %s, which is to run etcd %s: a verified backup, a pause of the "+
				"cluster%s, and a drain of this member\nnothing was changed\n", r.Slot, r.Program, r.To,
				map[bool]string{true: ", the file `state` on " + r.Path}[r.Program == plan.EtcdManager])
		}
		return b.String()
	}
	etcd := "etcd " + r.To
	if r.Program == plan.EtcdManager {
		etcd = "etcd-manager with " + etcd
	}
	fmt.Fprintf(&b, "released: slot %s is down, and its data on %s is ready for %s\n", r.Slot, r.Path, etcd)
	if r.Risk != "" {
		fmt.Fprintf(&b, "by force, at this risk: %s\n", r.Risk)
	}
	fmt.Fprintf(&b, "backup: %s; the cluster is paused until `holdfast resume`\n", cmp.Or(r.Backup, "none"))
	fmt.Fprintln(&b, "next:")
	fmt.Fprintln(&b, "  1. stop holdfast on this machine, and make sure that nothing starts it again")
	if r.Program == plan.EtcdManager {
		fmt.Fprintln(&b, "  2. start etcd-manager here, and wait until its member serves")
	} else {
		fmt.Fprintf(&b, "  2. give the files to etcd's user (`chown -R etcd: %s`), start etcd here with "+
			"--data-dir=%s, and wait until it serves\n", r.Path, r.Data)
	}
	unknown := strings.Join(r.Unknown, ", ")
	switch {
	case len(r.Rest) > 0:
		fmt.Fprintf(&b, "  3. `holdfast takeover release` on %s, one at a time\n", strings.Join(r.Rest, ", then "))
	case unknown != "":
		fmt.Fprintln(&b, "  3. no other node that answers runs a member: this was the last one, if the slots below were "+
			"released before")
	default:
		fmt.Fprintln(&b, "  3. no node of holdfast runs a member any more: this was the last one")
	}
	if unknown != "" {
		fmt.Fprintf(&b, "not known: who runs %s, for no node that answers holds it; where holdfast still runs, release it "+
			"there too\n",
			unknown)
	}
	fmt.Fprintln(&b, "to abort: `holdfast undrain` here, before the other program starts; `holdfast resume` when all "+
		"members run here again")
	return b.String()
}
