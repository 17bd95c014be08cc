package health

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/embedded/plan"
)

// Vote is how the members' data compares at the newest revision for which a majority of all voters has reported a hash.
// etcd also compares hashes, as the leader sees them, and raises CORRUPT. But it names no member if one of the correct
// ones did not answer just then, and sometimes names the wrong one (etcd-io/etcd #14849). Here only a majority of all
// voters counts.
type Vote struct {
	Revision int64
	Right    []string // nodes whose members have what a majority of all voters has; none: no majority agrees
	Differ   []string // the other nodes that have reported a hash
}

// Vote compares the hashes that the nodes report.
func (s *ClusterStatus) Vote() (v Vote) {
	if s.Record == nil {
		return Vote{}
	}
	type point struct{ revision, compacted int64 }
	type ballot map[string][]string // nodes by the hash that they report
	told := map[point]ballot{}
	voters, here := len(s.Slots()), 0
	for _, n := range s.Nodes {
		if !n.Reached || n.Etcd == nil || n.Etcd.Learner {
			continue
		}
		here++
		for _, h := range n.Etcd.Hashes {
			p := point{h.Revision, h.Compacted}
			if told[p] == nil {
				told[p] = ballot{}
			}
			told[p][h.Sum] = append(told[p][h.Sum], n.Node)
		}
	}
	majority := max(voters, here)/2 + 1
	for p, sums := range told {
		var all, right []string
		for _, nodes := range sums {
			all = append(all, nodes...)
			if len(nodes) >= majority {
				right = nodes
			}
		}
		if len(all) < majority || p.revision <= v.Revision {
			continue
		}
		v = Vote{Revision: p.revision, Right: right}
		for _, n := range s.Nodes { // to keep their order
			if slices.Contains(all, n.Node) && !slices.Contains(right, n.Node) {
				v.Differ = append(v.Differ, n.Node)
			}
		}
	}
	return v
}

func (s judged) judgeData(out *findings) {
	v := s.Vote()
	if len(v.Right) == 0 && len(v.Differ) > 0 {
		out.add(MemberDiffers, "", "the data of %s differs at revision %d, and no majority of the members agrees",
			strings.Join(v.Differ, ", "), v.Revision).then("Nobody can know what is right. Compare the members by hand, or " +
			"restore a verified backup: `holdfast restore latest`.")
		return
	}
	for _, node := range v.Differ {
		f := out.add(MemberDiffers, node, "at revision %d the data of %s differs from what %s have", v.Revision, node,
			strings.Join(v.Right, ", "))
		if len(v.Differ) == 1 {
			f.then("Run `holdfast rejoin` on %s: its data is set aside, and it gets the others' data. %s", node,
				s.disarmText())
		}
	}
}

// disarmText says what to do after the members agree again.
func (s judged) disarmText() string {
	for _, n := range s.Nodes {
		if n.Etcd != nil && n.Etcd.Alarmed(plan.Corrupt) {
			return "When it serves again: `holdfast etcdctl alarm disarm`."
		}
	}
	return "Look for the cause: most often the disk or the memory of that machine."
}

// Odd returns nil if only this node's member differs from what a majority of all voters has, so that its data may be
// given up.
func (v Vote) Odd(node string) error {
	switch {
	case !slices.Contains(v.Differ, node) && len(v.Right) == 0:
		return errors.New("no majority of the members reports the same hash at one revision, so nobody knows whose data " +
			"differs")
	case !slices.Contains(v.Differ, node):
		return fmt.Errorf("the data of %s does not differ from what a majority of the members has (revision %d)", node,
			v.Revision)
	case len(v.Right) == 0:
		return fmt.Errorf("the members differ at revision %d, and no majority agrees, so nobody knows which of them is right",
			v.Revision)
	case len(v.Differ) > 1:
		return fmt.Errorf("the data of %s differ from what the majority has: if there is more than one, fix them "+
			"by hand: see docs/upkeep.md", strings.Join(v.Differ, " and "))
	}
	return nil
}
