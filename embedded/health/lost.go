package health

import (
	"fmt"
	"slices"

	"holdfast/embedded/plan"
)

// blame sets for each lost node whether its record keeps live nodes waiting, and what to do about it. A lost member of
// the same cluster blocks nothing.
func (s *ClusterStatus) blame() {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Blocks = ""; !n.Live && n.Record != nil {
			n.Blocks = s.blocks(*n)
		}
	}
}

func (s *ClusterStatus) blocks(lost NodeStatus) string {
	cure := fmt.Sprintf("if %s is gone for good, %s has all nodes forget it", lost.Node, plan.Forget(lost.Node))
	live := slices.DeleteFunc(slices.Clone(s.Nodes), func(n NodeStatus) bool { return !n.Live })
	known := slices.ContainsFunc(live, func(n NodeStatus) bool { return n.Record != nil })
	other := slices.IndexFunc(live, func(n NodeStatus) bool {
		return n.Record != nil && n.Record.Lineage() != lost.Record.Lineage()
	})
	blank := slices.IndexFunc(live, func(n NodeStatus) bool { return n.Reached && n.Volume != nil && n.Record == nil })
	token := lost.Record.Token()
	switch {
	case other >= 0:
		return fmt.Sprintf("its cluster %s is another one than that of %s (%s); %s",
			token, live[other].Node, live[other].Record.Token(), cure)
	case !known && blank >= 0:
		return fmt.Sprintf("no live node knows its cluster %s, so the blank disk of %s founds nothing; bring its disks "+
			"back; %s, and a new cluster may be founded", token, live[blank].Node, cure)
	}
	return ""
}
