package health

import (
	"cmp"
	"fmt"
	"slices"

	"holdfast/embedded/plan"
)

// Next is what a node would do if an operator had not paused it.
type Next struct {
	Action plan.Kind `json:"action"`
	Why    string    `json:"why"`
}

// Decision is what a node has decided: what it does or waits for, and further obstacles, one sentence each. Commands
// are those that the sentences name.
type Decision struct {
	Why       string   `json:"why"`
	Obstacles []string `json:"obstacles,omitempty"`
	Commands  []string `json:"commands,omitempty"`
}

// Decided returns the decision of an action.
func Decided(a plan.Action) *Decision {
	d := &Decision{Why: a.Why, Obstacles: a.Obstacles}
	for _, c := range a.Commands {
		d.Commands = append(d.Commands, c.Line())
	}
	return d
}

// explain sets what the node does, and what stops it, the most urgent first.
func (n *NodeStatus) explain() {
	n.Does, n.Obstacles, n.Commands = "", nil, nil
	if n.Error != "" && !n.unable() {
		n.Obstacles = append(n.Obstacles, "the last attempt failed: "+n.Error)
	}
	if text := n.Stalls(); text != "" {
		n.Obstacles = append(n.Obstacles, text)
	}
	d := cmp.Or(n.Decision, &Decision{Why: n.Why})
	switch {
	case !n.Reached:
		n.Does, n.Obstacles = "unknown", append(n.Obstacles, d.Why)
	case n.Action == "": // it has decided nothing yet
		n.Does = d.Why
	case n.Action != plan.Wait:
		n.Does = n.acting(d.Why)
	case n.serves():
		n.Does = d.Why
	default:
		n.Does, n.Obstacles = "waits", append(n.Obstacles, d.Why)
	}
	n.Obstacles = append(n.Obstacles, d.Obstacles...)
	n.Commands = append(n.Commands, d.Commands...)
	if n.Next != nil {
		n.Commands = append(n.Commands, plan.Command("resume").Line())
	}
	if c := n.Claim; c != nil && n.Volume == nil && c.Volume != "" {
		n.Obstacles = append(n.Obstacles, fmt.Sprintf("the claim of %s is %s: %s", c.Volume, c.State, c.Why))
	}
	if n.Blocks != "" {
		n.Obstacles, n.Commands = append(n.Obstacles, n.Blocks), append(n.Commands, plan.Forget(n.Node).Line())
	}
	for _, f := range n.Found {
		if !n.serves() || f.Severity.rank() >= Degrading.rank() { // a warning stops no member that serves
			n.Obstacles = append(n.Obstacles, f.String())
		}
	}
}

// Doing says in one line what the node does or waits for, and why.
func (n NodeStatus) Doing() string {
	switch {
	case !n.Reached || n.Action == "":
		return fmt.Sprintf("%s: %s", n.State, n.Why)
	case n.Action != plan.Wait:
		return n.acting(n.Why)
	case n.serves():
		return n.Why
	}
	return "waits: " + n.Why
}

// acting says which action is in progress, and why. For a claim, the reason already names the action.
func (n NodeStatus) acting(why string) string {
	if n.Action == plan.Acquire {
		return why
	}
	return fmt.Sprintf("%s: %s", n.Action, why)
}

// informed returns the first node for which f is true, a leader before all others; nil if there is none. A leader has
// applied the newest state.
func (s *ClusterStatus) informed(f func(NodeStatus) bool) *NodeStatus {
	var found *NodeStatus
	for i, n := range s.Nodes {
		if n.Reached && n.Etcd != nil && !s.stranger(n) && f(n) && (found == nil || n.leads()) {
			found = &s.Nodes[i]
		}
	}
	return found
}

// summarize collects what the members know of the cluster, and returns the node that leads, nil if there is none.
func (s *ClusterStatus) summarize() (leader *NodeStatus) {
	for i := range s.Nodes {
		s.Nodes[i].explain()
	}
	s.Paused, s.Lock, s.Set, s.Leader, s.Rotation = nil, nil, nil, "", openRotation(s.Nodes)
	for i, n := range s.Nodes { // of two, take the later term: the other was confirmed before that began
		if n.leads() && !s.stranger(n) && (leader == nil || n.Etcd.Term > leader.Etcd.Term) {
			leader = &s.Nodes[i]
		}
	}
	if leader != nil {
		s.Leader, s.Paused, s.Lock, s.Set = leader.Node, leader.Paused, leader.Lock, leader.Set
		return leader
	}
	// Without a leader, any member's state counts, although it may be old.
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
