package health

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/embedded/plan"
)

// DowngradePhase is how far a downgrade is.
type DowngradePhase string

const (
	DowngradePossible DowngradePhase = "possible" // not begun, and nothing prevents it
	DowngradeRefused  DowngradePhase = "refused"
	DowngradeWaiting  DowngradePhase = "waiting" // begun; not every member has the older version yet
	DowngradeReady    DowngradePhase = "ready"   // members of either minor version can run: replace the binaries
	DowngradeDone     DowngradePhase = "done"    // every member runs the older minor version
)

// Downgrade is what a node says of a downgrade.
type Downgrade struct {
	Phase   DowngradePhase `json:"phase"`
	To      string         `json:"to"`              // such as 3.6
	Cluster string         `json:"cluster_version"` // that the cluster has agreed on
	Target  string         `json:"target,omitempty"`
	Why     []string       `json:"why,omitempty"`     // why it is refused, or what it waits for
	Replace []string       `json:"replace,omitempty"` // nodes whose etcd must be replaced, in that order
	Adopted bool           `json:"adopted,omitempty"` // the cluster was taken over, so it may go back to the other program
}

// AssessDowngrade judges a downgrade by what the nodes say and by the asked node's own member list. cluster is the
// version that the cluster has agreed on. under is the version that it is being downgraded to, "" if none.
func AssessDowngrade(s ClusterStatus, members []plan.MemberInfo, names map[uint64]string, cluster, under,
	to string) (Downgrade, error) {
	d := Downgrade{Cluster: cluster, Target: under, Adopted: s.Record != nil && s.Record.Adopted != nil}
	target, known := plan.MinorOf(to)
	if !known {
		return d, fmt.Errorf("--to: %q is no version of etcd; say it as 3.6", to)
	}
	d.To = target.String()
	agreed, known := plan.MinorOf(cluster)
	if !known {
		return d, errors.New("the cluster has not agreed on a version yet; ask again in a few seconds")
	}
	nodes, missing := runners(s, members, names)
	behind, higher := []string{}, 0
	for _, n := range nodes {
		v, known := plan.MinorOf(n.Etcd.Version)
		if !known || target.Older(v) {
			d.Replace = append(d.Replace, n.Node)
			higher += boolCount(v == agreed)
		}
		for _, at := range []string{n.Etcd.ClusterVersion, n.Etcd.StorageVersion} {
			if v, _ := plan.MinorOf(at); v != target {
				behind = append(behind, fmt.Sprintf("%s is still at %s", n.Node, at))
				break
			}
		}
	}
	begun, _ := plan.MinorOf(d.Target)
	switch {
	case d.Target != "" && begun != target:
		d.refuse("a downgrade to %s is under way: finish it, or give it up with `holdfast downgrade --cancel`", d.Target)
	case agreed == target && len(d.Replace) == 0 && len(missing) == 0:
		d.Phase = DowngradeDone
		if d.Target != "" { // until etcd notices, it would keep newer members at the older version
			d.Phase, d.Why = DowngradeWaiting, []string{"every member runs it, and etcd ends the downgrade within seconds"}
		}
	case d.Target != "" && len(behind)+len(missing) > 0:
		d.Phase, d.Why = DowngradeWaiting, append(behind, missing...)
	case agreed == target && (d.Target != "" || len(d.Replace) < len(nodes)):
		d.Phase, d.Why = DowngradeReady, missing
	case d.Target != "":
		d.Phase, d.Why = DowngradeWaiting, []string{fmt.Sprintf("the cluster is still at %s", d.Cluster)}
	case agreed == target:
		d.refuse("the cluster is at %s and every member runs a newer etcd, to which it rises any moment: ask again in a "+
			"few seconds", d.Cluster)
	case !target.Adjacent(agreed):
		d.refuse("the cluster is at %s, and a downgrade goes one minor at a time: only %d.%d is possible", d.Cluster,
			agreed.Major, agreed.Minor-1)
	default:
		d.Why = append(missing, s.Reasons()...)
		if higher < len(nodes) {
			d.Why = append(d.Why, fmt.Sprintf("not every member runs etcd %s: finish the upgrade first", agreed))
		}
		d.Phase = DowngradePossible
		if len(d.Why) > 0 {
			d.Phase = DowngradeRefused
		}
	}
	return d, nil
}

func (d *Downgrade) refuse(format string, args ...any) {
	d.Phase, d.Why = DowngradeRefused, []string{fmt.Sprintf(format, args...)}
}

// runners returns the nodes that run voters, the leader last, and says what is wrong with the other members.
func runners(s ClusterStatus, members []plan.MemberInfo,
	names map[uint64]string) (nodes []NodeStatus, missing []string) {
	for _, m := range members {
		id := plan.ID(m.ID)
		i := slices.IndexFunc(s.Nodes, func(n NodeStatus) bool { return n.Reached && n.Etcd != nil && n.Etcd.Member == id })
		switch {
		case i < 0:
			missing = append(missing, fmt.Sprintf("no node that answers runs member %s (%s)", names[m.ID], id))
		case m.Learner:
			missing = append(missing, fmt.Sprintf("member %s on %s is a learner still", names[m.ID], s.Nodes[i].Node))
		default:
			nodes = append(nodes, s.Nodes[i])
		}
	}
	slices.SortFunc(nodes, func(a, b NodeStatus) int { return strings.Compare(a.Node, b.Node) })
	return leaderLast(nodes, NodeStatus.runsLeader), missing
}

// leaderLast moves the leader to the end, because to stop it causes an election.
func leaderLast[T any](all []T, leads func(T) bool) []T {
	slices.SortStableFunc(all, func(a, b T) int { return boolCount(leads(a)) - boolCount(leads(b)) })
	return all
}

// runsLeader reports whether the node's member leads by raft's last report.
func (n NodeStatus) runsLeader() bool { return n.Etcd != nil && n.Etcd.Leader }

func boolCount(b bool) int {
	if b {
		return 1
	}
	return 0
}
