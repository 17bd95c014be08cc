package health

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-semver/semver"

	"holdfast/embedded/plan"
)

// DowngradePhase is how far a downgrade is.
type DowngradePhase string

// The phases.
const (
	DowngradePossible DowngradePhase = "possible" // nothing was done yet, and nothing is in its way
	DowngradeRefused  DowngradePhase = "refused"
	DowngradeWaiting  DowngradePhase = "waiting" // begun; not every member has the older version yet
	DowngradeReady    DowngradePhase = "ready"   // members of either minor can run: the binaries may be replaced
	DowngradeDone     DowngradePhase = "done"    // every member runs the older minor
)

// Downgrade is what a node says of a downgrade.
type Downgrade struct {
	Phase   DowngradePhase `json:"phase"`
	To      string         `json:"to"`              // as 3.6
	Cluster string         `json:"cluster_version"` // that the cluster has agreed on
	Target  string         `json:"target,omitempty"`
	Why     []string       `json:"why,omitempty"`     // it is refused, or what it waits for
	Replace []string       `json:"replace,omitempty"` // nodes with a newer etcd, in the order in which to replace it
}

// AssessDowngrade judges a downgrade by what the nodes say, and by the asked node's own member list. cluster is the
// version that the cluster has agreed on, under the one that it is being downgraded to, "" if it is not.
func AssessDowngrade(s ClusterStatus, members []plan.MemberInfo, names map[uint64]string, cluster, under,
	to string) (Downgrade, error) {
	d := Downgrade{Cluster: cluster, Target: under}
	target, err := parseMinor(to)
	if err != nil {
		return d, fmt.Errorf("--to: %q is no version of etcd; say it as 3.6", to)
	}
	d.To = fmt.Sprintf("%d.%d", target.Major, target.Minor)
	agreed, err := parseMinor(cluster)
	if err != nil {
		return d, errors.New("the cluster has not agreed on a version yet; ask again in a few seconds")
	}
	nodes, missing := runners(s, members, names)
	behind, higher := []string{}, 0
	for _, n := range nodes {
		v, err := parseMinor(n.Etcd.Version)
		if err != nil || target.LessThan(v) {
			d.Replace = append(d.Replace, n.Node)
			higher += boolCount(err == nil && v.Equal(agreed))
		}
		for _, at := range []string{n.Etcd.ClusterVersion, n.Etcd.StorageVersion} {
			if v, err := parseMinor(at); err != nil || !v.Equal(target) {
				behind = append(behind, fmt.Sprintf("%s is still at %s", n.Node, at))
				break
			}
		}
	}
	switch below := (semver.Version{Major: agreed.Major, Minor: agreed.Minor - 1}); {
	case d.Target != "" && !sameMinor(d.Target, target):
		d.refuse("a downgrade to %s is under way: finish it, or give it up with `holdfast downgrade --cancel`", d.Target)
	case agreed.Equal(target) && len(d.Replace) == 0 && len(missing) == 0:
		d.Phase = DowngradeDone
		if d.Target != "" { // until etcd has noticed, newer members would be kept down
			d.Phase, d.Why = DowngradeWaiting, []string{"every member runs it, and etcd ends the downgrade within seconds"}
		}
	case d.Target != "" && len(behind)+len(missing) > 0:
		d.Phase, d.Why = DowngradeWaiting, append(behind, missing...)
	case agreed.Equal(target) && (d.Target != "" || len(d.Replace) < len(nodes)):
		d.Phase, d.Why = DowngradeReady, missing
	case d.Target != "":
		d.Phase, d.Why = DowngradeWaiting, []string{fmt.Sprintf("the cluster is still at %s", d.Cluster)}
	case agreed.Equal(target):
		d.refuse("the cluster is at %s and every member runs a newer etcd, to which it rises any moment: ask again in a "+
			"few seconds", d.Cluster)
	case !target.Equal(below):
		d.refuse("the cluster is at %s, and a downgrade goes one minor at a time: only %d.%d is possible", d.Cluster,
			below.Major, below.Minor)
	default:
		d.Why = append(missing, s.Reasons()...)
		if higher < len(nodes) {
			d.Why = append(d.Why, fmt.Sprintf("not every member runs etcd %d.%d: finish the upgrade first", agreed.Major,
				agreed.Minor))
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

// runners returns the nodes that run the members, the leader last, and what is wrong with members that none runs as a
// voter.
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
	slices.SortFunc(nodes, func(a, b NodeStatus) int {
		if a.Etcd.Leader != b.Etcd.Leader {
			return boolCount(a.Etcd.Leader) - boolCount(b.Etcd.Leader)
		}
		return strings.Compare(a.Node, b.Node)
	})
	return nodes, missing
}

// parseMinor reads a version and forgets its patch level, which it may lack.
func parseMinor(text string) (semver.Version, error) {
	if strings.Count(text, ".") == 1 {
		text += ".0"
	}
	v, err := semver.NewVersion(strings.TrimPrefix(text, "v"))
	if err != nil {
		return semver.Version{}, err
	}
	return semver.Version{Major: v.Major, Minor: v.Minor}, nil
}

// NewerMinor reports whether a version is of a later minor than another. What is no version is not.
func NewerMinor(a, b string) bool {
	x, err1 := parseMinor(a)
	y, err2 := parseMinor(b)
	return err1 == nil && err2 == nil && y.LessThan(x)
}

func sameMinor(text string, v semver.Version) bool {
	m, err := parseMinor(text)
	return err == nil && m.Equal(v)
}

func boolCount(b bool) int {
	if b {
		return 1
	}
	return 0
}
