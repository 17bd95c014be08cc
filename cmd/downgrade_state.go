package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"

	"holdfast/embedded"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// downgradeBackup is how old the newest backup may be when a downgrade begins.
const downgradeBackup = 5 * time.Minute

// downgradePhase is how far a downgrade is.
type downgradePhase string

const (
	downgradePossible downgradePhase = "possible" // nothing was done yet, and nothing is in its way
	downgradeRefused  downgradePhase = "refused"
	downgradeWaiting  downgradePhase = "waiting" // begun; not every member has the older version yet
	downgradeReady    downgradePhase = "ready"   // members of either minor can run: the binaries may be replaced
	downgradeDone     downgradePhase = "done"    // every member runs the older minor
)

// downgrade is what a node says of a downgrade.
type downgrade struct {
	Phase   downgradePhase `json:"phase"`
	To      string         `json:"to"`              // as 3.6
	Cluster string         `json:"cluster_version"` // that the cluster has agreed on
	Target  string         `json:"target,omitempty"`
	Why     []string       `json:"why,omitempty"`     // it is refused, or what it waits for
	Replace []string       `json:"replace,omitempty"` // nodes that run a newer etcd, in the order in which to replace their binaries
}

// downgrade says how far the downgrade to a minor is, as all members tell of themselves.
func (n *process) downgrade(ctx context.Context, to string) (downgrade, error) {
	e := n.etcd.Status()
	if !e.Running {
		return downgrade{}, fmt.Errorf("this node runs no member; ask one that does: %s", n.coord.Now().Action.Text())
	}
	return assessDowngrade(n.statusOfAll(ctx), n.etcd.Members(), n.etcd.MemberNames(), e, to)
}

// beginDowngrade makes sure of a backup and tells etcd. What has begun already is not begun again.
func (n *process) beginDowngrade(ctx context.Context, to string) error {
	d, err := n.downgrade(ctx, to)
	switch {
	case err != nil:
		return err
	case d.Phase == downgradeRefused:
		return fmt.Errorf("no downgrade to etcd %s: %s", d.To, strings.Join(d.Why, "; "))
	case d.Phase != downgradePossible:
		return nil
	}
	if _, err := n.keeper.Fresh(ctx, downgradeBackup); err != nil {
		return fmt.Errorf("no downgrade without a backup: %w", err)
	}
	return n.etcd.Downgrade(ctx, d.To)
}

// assessDowngrade judges a downgrade by what the nodes say, and by the asked node's own member list and status.
func assessDowngrade(s health.ClusterStatus, members []plan.MemberInfo, names map[uint64]string, self embedded.Status, to string) (downgrade, error) {
	d := downgrade{Cluster: self.ClusterVersion, Target: self.Downgrade}
	target, err := parseMinor(to)
	if err != nil {
		return d, fmt.Errorf("--to: %q is no version of etcd; say it as 3.6", to)
	}
	d.To = fmt.Sprintf("%d.%d", target.Major, target.Minor)
	agreed, err := parseMinor(self.ClusterVersion)
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
		d.Phase = downgradeDone
		if d.Target != "" { // until etcd has noticed, newer members would be kept down
			d.Phase, d.Why = downgradeWaiting, []string{"every member runs it, and etcd ends the downgrade within seconds"}
		}
	case d.Target != "" && len(behind)+len(missing) > 0:
		d.Phase, d.Why = downgradeWaiting, append(behind, missing...)
	case agreed.Equal(target) && (d.Target != "" || len(d.Replace) < len(nodes)):
		d.Phase, d.Why = downgradeReady, missing
	case d.Target != "":
		d.Phase, d.Why = downgradeWaiting, []string{fmt.Sprintf("the cluster is still at %s", d.Cluster)}
	case agreed.Equal(target):
		d.refuse("the cluster is at %s and every member runs a newer etcd, to which it rises any moment: ask again in a few seconds", d.Cluster)
	case !target.Equal(below):
		d.refuse("the cluster is at %s, and a downgrade goes one minor at a time: only %d.%d is possible", d.Cluster, below.Major, below.Minor)
	default:
		d.Why = append(missing, s.Reasons()...)
		if higher < len(nodes) {
			d.Why = append(d.Why, fmt.Sprintf("not every member runs etcd %d.%d: finish the upgrade first", agreed.Major, agreed.Minor))
		}
		d.Phase = downgradePossible
		if len(d.Why) > 0 {
			d.Phase = downgradeRefused
		}
	}
	return d, nil
}

func (d *downgrade) refuse(format string, args ...any) {
	d.Phase, d.Why = downgradeRefused, []string{fmt.Sprintf(format, args...)}
}

// runners returns the nodes that run the members, the leader last, and what is wrong with members that none runs as a
// voter.
func runners(s health.ClusterStatus, members []plan.MemberInfo, names map[uint64]string) (nodes []health.NodeStatus, missing []string) {
	for _, m := range members {
		id := fmt.Sprintf("%x", m.ID)
		i := slices.IndexFunc(s.Nodes, func(n health.NodeStatus) bool { return n.Reached && n.Etcd != nil && n.Etcd.Member == id })
		switch {
		case i < 0:
			missing = append(missing, fmt.Sprintf("no node that answers runs member %s (%s)", names[m.ID], id))
		case m.Learner:
			missing = append(missing, fmt.Sprintf("member %s on %s is a learner still", names[m.ID], s.Nodes[i].Node))
		default:
			nodes = append(nodes, s.Nodes[i])
		}
	}
	slices.SortFunc(nodes, func(a, b health.NodeStatus) int {
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
