package proposal

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/cmd/node"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// view is what the node on this machine shows of the cluster, nothing if none answers.
type view struct{ *health.ClusterStatus }

// silent reports whether no node answers.
func (v view) silent() bool { return v.ClusterStatus == nil }

func (v view) nodes() []health.NodeStatus {
	if v.silent() {
		return nil
	}
	return v.Nodes
}

// shared refuses to propose what a node could not see: each would look into a store of its own.
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

// doubts refuses to go by a generation of which the store alone speaks, unsigned, and the nodes here know nothing.
func (v view) doubts(known plan.Store) error {
	if v.silent() || v.Record == nil {
		return nil
	}
	return doubted(known, v.Record.Generation)
}

// settled refuses while the members are on their way from one generation to the next: another restore came first.
func (v view) settled(record plan.Record) error {
	if v.silent() {
		return nil
	}
	if s := v.Record; s != nil && s.Generation > record.Generation {
		return fmt.Errorf("another restore came first: the cluster is %s by now; nothing was changed by this one", s.Token())
	}
	for _, n := range v.nodes() {
		if n.Restore != nil {
			return fmt.Errorf("another restore or recovery came first: node %s is at a %s, asked for by %s; nothing was "+
				"changed by this one", n.Node, n.Restore.Title, n.Restore.By)
		}
	}
	return nil
}

// revision is the highest revision that the members show, 0 where none is known.
func (v view) revision() (highest int64) {
	for _, n := range v.nodes() {
		if n.Etcd != nil {
			highest = max(highest, n.Etcd.Revision)
		}
	}
	return highest
}

// slots says of every slot of the generation whether its disk is here.
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

// weigh notes which of the disks have no room for the backup beside the data in use. A disk whose room is not known is
// judged by its node.
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

// founders are the slots with which the cluster continues: those that it has by now, else those that it was founded
// with.
func (v view) founders(record plan.Record) []string {
	if !v.silent() && v.Record != nil && v.Record.ID == record.ID && len(v.Founders) > 0 {
		return v.Founders
	}
	return record.Charter.Slots()
}

// changed are the slots between which the cluster has changed last, as any node here knows: there may be members of
// them beside those that it continues with.
func (v view) changed(record plan.Record) (slots []string) {
	for _, n := range v.nodes() {
		if n.Set != nil && n.Set.Record == record.ID {
			slots = slices.Concat(slots, n.Set.Slots, n.Set.From)
		}
	}
	return slots
}

// leads returns the leader that the nodes here show, nil if they show none or none answers.
func (v view) leads() *plan.Stand {
	for _, n := range v.nodes() {
		if n.Reached && n.State == "leader" && n.Etcd != nil && n.Volume != nil {
			return &plan.Stand{Node: n.Node, Slot: n.Volume.Slot, Disk: n.Volume.Disk, Address: n.Address,
				Revision: n.Etcd.Revision, Leader: true}
		}
	}
	return nil
}

// couldElect reports whether a majority of the slots has members that run, as the nodes here show it.
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

// slotState says whether the disk of a slot's member is here.
type slotState struct {
	Slot string `json:"slot"`
	Node string `json:"node,omitempty"`
	Here bool   `json:"here"`
	Why  string `json:"why"`
	// Short says that the disk has no room to prepare the restore, empty if it has, or where that is not known.
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
