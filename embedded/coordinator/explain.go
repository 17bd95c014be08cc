package coordinator

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"holdfast/embedded/plan"
)

// Next is what a node would do if an operator had not paused it.
type Next struct {
	Action plan.Kind `json:"action"`
	Why    string    `json:"why"`
}

// Next returns what the pause of the cluster holds this node back from, nil for nothing.
func (s Situation) Next() *Next {
	if s.Observation.Member.Paused == nil {
		return nil
	}
	a := plan.Resumed(s.Observation)
	if a.Kind == plan.Wait {
		return nil
	}
	return &Next{a.Kind, a.Why}
}

// explain sets what the node does, and what stops it, the most urgent first.
func (n *NodeStatus) explain() {
	n.Does, n.Obstacles = "", nil
	if n.Error != "" {
		n.Obstacles = append(n.Obstacles, "the last attempt failed: "+n.Error)
	}
	parts := sentences(n.Why)
	switch {
	case !n.Reached:
		n.Does, n.Obstacles = "unknown", append(n.Obstacles, parts...)
	case n.Action != plan.Wait:
		n.Does = fmt.Sprintf("%s: %s", n.Action, n.Why)
	case n.serves():
		n.Does, n.Obstacles = parts[0], append(n.Obstacles, parts[1:]...)
	default:
		n.Does, n.Obstacles = "waits", append(n.Obstacles, parts...)
	}
	if c := n.Claim; c != nil && n.Volume == nil && c.Volume != "" {
		n.Obstacles = append(n.Obstacles, fmt.Sprintf("the claim of %s is %s: %s", c.Volume, c.State, c.Why))
	}
	n.Obstacles = append(n.Obstacles, n.Problems...)
	n.Commands = nil
	for _, text := range n.Obstacles {
		for _, c := range commandPattern.FindAllString(text, -1) {
			if c = strings.Trim(c, "`"); !slices.Contains(n.Commands, c) {
				n.Commands = append(n.Commands, c)
			}
		}
	}
}

// commandPattern finds the commands that the reason of a decision names.
var commandPattern = regexp.MustCompile("`holdfast [^`]+`")

// sentences splits the reason of a decision at its semicolons, but for those in parentheses and backquotes. There is
// at least one part.
func sentences(why string) []string {
	var parts []string
	depth, quoted, from := 0, false, 0
	for i, r := range why {
		switch {
		case r == '`':
			quoted = !quoted
		case r == '(':
			depth++
		case r == ')':
			depth = max(0, depth-1)
		case r == ';' && depth == 0 && !quoted:
			parts = append(parts, strings.TrimSpace(why[from:i]))
			from = i + 1
		}
	}
	return append(parts, strings.TrimSpace(why[from:]))
}

// informed returns the first node of which f is true, a leader before all others; nil if there is none. What a leader
// has applied is as new as anything.
func (s *ClusterStatus) informed(f func(NodeStatus) bool) *NodeStatus {
	var found *NodeStatus
	for i, n := range s.Nodes {
		if n.Reached && n.Etcd != nil && f(n) && (found == nil || n.Etcd.Leader) {
			found = &s.Nodes[i]
		}
	}
	return found
}

// summarize gathers what the members know of the cluster, and returns the node that leads, nil if there is none.
func (s *ClusterStatus) summarize() (leader *NodeStatus) {
	for i := range s.Nodes {
		s.Nodes[i].explain()
	}
	s.Paused, s.Lock, s.Set, s.Leader = nil, nil, nil, ""
	if n := s.informed(func(n NodeStatus) bool { return n.Etcd.Leader && n.Etcd.HasLeader }); n != nil {
		s.Leader, s.Paused, s.Lock, s.Set = n.Node, n.Paused, n.Lock, n.Set
		return n
	}
	// Without a leader the word of any member counts, which may be old.
	if n := s.informed(func(n NodeStatus) bool { return n.Paused != nil }); n != nil {
		s.Paused = n.Paused
	}
	if n := s.informed(func(n NodeStatus) bool { return n.Lock != nil }); n != nil {
		s.Lock = n.Lock
	}
	if n := s.informed(func(n NodeStatus) bool { return n.Set != nil }); n != nil {
		s.Set = n.Set
	}
	return nil
}
