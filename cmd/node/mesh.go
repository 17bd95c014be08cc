package node

import (
	"holdfast/embedded/coordinator"
	"holdfast/gossip"
)

// mesh is the gossip as the coordinator knows it.
type mesh struct{ *gossip.Mesh }

func (m mesh) Nodes(accepted bool) []coordinator.Node {
	m.Settle(accepted)
	nodes := m.Mesh.Nodes()
	out := make([]coordinator.Node, len(nodes))
	for i, n := range nodes {
		out[i] = coordinator.Node{Name: n.Node, Address: n.Address, Live: n.Live, State: n.State,
			Stamp: [2]uint64{n.Boot, n.Seq}}
	}
	return out
}
