package proposal

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/cmd/node"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// view is the status that the node on this machine shows. It is nil if no node answers.
type view struct{ *health.ClusterStatus }

// silent reports whether no node answers.
func (v view) silent() bool { return v.ClusterStatus == nil }

func (v view) nodes() []health.NodeStatus {
	if v.silent() {
		return nil
	}
	return v.Nodes
}

// shared returns an error if a node uses another store than this command, because that node would not see the proposal.
func (v view) shared(id string) error {
	var others []string
	for _, n := range v.nodes() {
		if n.Live && n.Reached && n.Store != "" && n.Store != id {
			others = append(others, n.Node)
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("the nodes do not share a store: %s, and this command, keep backups in different ones, so not "+
			"all would see this restore; set snapshot.store to the same place everywhere and restart these nodes; nothing "+
			"was changed",
			strings.Join(others, ", "))
	}
	return nil
}

// doubts returns an error if the store has unsigned objects about a later generation than the nodes here know.
func (v view) doubts(known plan.Store) error {
	if v.silent() || v.Record == nil {
		return nil
	}
	return doubted(known, v.Record.Generation)
}

// settled returns an error if the members are already on their way to another generation. A node may not have read the
// store since a proposal was aborted there.
func (v view) settled(known plan.Store) error {
	if v.silent() {
		return nil
	}
	if s := v.Record; s != nil && s.Generation > known.Record.Generation {
		return fmt.Errorf("another restore came first: the cluster is %s by now; nothing was changed by this one", s.Token())
	}
	for _, n := range v.nodes() {
		aborted := func(a plan.Abort) bool { return a.ID == n.Restore.ID }
		if n.Restore != nil && !slices.ContainsFunc(known.Aborted, aborted) {
			return fmt.Errorf("another restore or recovery came first: node %s is at a %s, asked for by %s; nothing was "+
				"changed by this one", n.Node, n.Restore.Title, n.Restore.By)
		}
	}
	return nil
}

// revision returns the highest revision that the members show, or 0 if none is known.
func (v view) revision() (highest int64) {
	for _, n := range v.nodes() {
		if n.Etcd != nil {
			highest = max(highest, n.Etcd.Revision)
		}
	}
	return highest
}

// slots returns, for every slot of the generation, whether a live node has its disk.
func (v view) slots(record plan.Record) []slotState {
	var all []slotState
	for _, slot := range v.founders(record) {
		s := slotState{Slot: slot, Why: "no node could be asked"}
		if !v.silent() {
			s.Why = "no live node holds it"
			i := slices.IndexFunc(v.Nodes, func(n health.NodeStatus) bool {
				return n.Live && n.Volume != nil && n.Volume.Slot == slot
			})
			if i >= 0 {
				n := v.Nodes[i]
				s.Node, s.Why = n.Node, "its disk there has no data of the cluster"
				if n.Record != nil && n.Record.ID == record.ID && n.State != "joining" {
					s.Here, s.Why = true, n.State
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// weigh sets Short for each disk without room for the backup beside the data in use. If the room is not known, the node
// itself judges it later.
func (v view) weigh(slots []slotState, bytes int64) []slotState {
	need := node.RoomToRestore(bytes)
	for i, s := range slots {
		for _, n := range v.nodes() {
			if c := n.Checkup; n.Node == s.Node && c != nil && c.Room != nil && c.Room.Free < need {
				slots[i].Short = fmt.Sprintf("%s are free on its volume, and the restore needs %s there",
					health.Bytes(c.Room.Free), health.Bytes(need))
			}
		}
	}
	return slots
}

// founders returns the slots with which the cluster continues: its current slots if a node knows them, otherwise those
// of its record.
func (v view) founders(record plan.Record) []string {
	if !v.silent() && v.Record != nil && v.Record.ID == record.ID && len(v.Founders) > 0 {
		return v.Founders
	}
	return record.Charter.Slots()
}

// changed returns the old and new slots of the last resize that any node here knows. Such slots may have members that
// are not among the founders.
func (v view) changed(record plan.Record) (slots []string) {
	for _, n := range v.nodes() {
		if n.Set != nil && n.Set.Record == record.ID {
			slots = slices.Concat(slots, n.Set.Slots, n.Set.From)
		}
	}
	return slots
}

// leads returns the leader that the node here shows, or nil if it shows none or does not answer. A leader on an
// overruled disk does not count: a node of another cluster may be in the gossip.
func (v view) leads(overruled []string) *plan.Stand {
	for _, n := range v.nodes() {
		if n.Reached && n.State == "leader" && n.Etcd != nil && n.Volume != nil &&
			!slices.Contains(overruled, n.Volume.Disk) {
			return &plan.Stand{Node: n.Node, Slot: n.Volume.Slot, Disk: n.Volume.Disk, Address: n.Address,
				Revision: n.Etcd.Revision, Leader: true}
		}
	}
	return nil
}

// couldElect reports whether a majority of the slots has running members, by the status here.
func (v view) couldElect() bool {
	if v.silent() || v.Record == nil {
		return false
	}
	slots, runs := v.Slots(), map[string]bool{}
	for _, n := range v.nodes() {
		if n.Live && n.Etcd != nil && n.Volume != nil && slices.Contains(slots, n.Volume.Slot) {
			runs[n.Volume.Slot] = true
		}
	}
	return len(runs) > len(slots)/2
}

// slotState says whether a live node has the disk of a slot's member.
type slotState struct {
	Slot string `json:"slot"`
	Node string `json:"node,omitempty"`
	Here bool   `json:"here"`
	Why  string `json:"why"`
	// Short is why the disk has no room to prepare the restore. It is empty if it has room, or that is not known.
	Short string `json:"short,omitempty"`
}

func (s slotState) text() string {
	if s.Node == "" {
		return s.Why
	}
	if s.Short != "" {
		return fmt.Sprintf("on %s, %s; NO ROOM: %s", s.Node, s.Why, s.Short)
	}
	return fmt.Sprintf("on %s, %s", s.Node, s.Why)
}
