package node

import (
	"math"
	"path/filepath"
	"strconv"
	"time"

	"holdfast/durable"
	"holdfast/embedded/coordinator"
	"holdfast/gossip"
)

// bootName is the file in node.data-dir with the number of the node's last process.
const bootName = "boot"

// nextBoot returns the number of this process among those of its node: the time at which it begins, and more than the
// last one's in any case. That may have begun while the clock was far ahead, and the others would listen to no process
// at its address until the clock is there. An error leaves it at the time.
func nextBoot(dir string, now time.Time) (boot uint64, err error) {
	path := filepath.Join(dir, bootName)
	boot = uint64(now.UnixNano())
	data, err := durable.Read(path, 64)
	if err == nil {
		// what is no number of ours, after a crash of the disk say, counts for nothing
		if last, err := strconv.ParseUint(string(data), 10, 63); err == nil && last < math.MaxInt64 {
			boot = max(boot, last+1)
		}
	}
	return boot, durable.WriteFile(path, strconv.AppendUint(nil, boot, 10))
}

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
