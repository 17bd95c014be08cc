package embedded

import (
	"fmt"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// FounderIDs returns the member IDs, by slot, and the cluster ID of a cluster founded with this token and these peer
// URLs. Member names do not influence them (Names.Member). Every node computes the same IDs before etcd has started
// anywhere. Members added later have IDs that depend on the time.
func FounderIDs(token string, peers map[string]string) (members map[string]uint64, cluster uint64, err error) {
	c, err := foundedCluster(token, peers)
	if err != nil {
		return nil, 0, err
	}
	members = make(map[string]uint64, len(peers))
	for _, m := range c.Members() {
		members[m.Name] = uint64(m.ID)
	}
	return members, uint64(c.ID()), nil
}

// foundedCluster returns the cluster that is founded with a token and peer URLs by name.
func foundedCluster(token string, peers map[string]string) (*membership.RaftCluster, error) {
	urls, err := types.NewURLsMap(initialCluster(peers))
	if err != nil {
		return nil, fmt.Errorf("parse peer URLs: %w", err)
	}
	c, err := membership.NewClusterFromURLsMap(zap.NewNop(), token, urls)
	if err != nil {
		return nil, fmt.Errorf("compute founder IDs: %w", err)
	}
	return c, nil
}

// FounderIDs returns the IDs of a record's founders, by slot, and the ID of their cluster.
func (Disk) FounderIDs(r plan.Record) (members map[string]uint64, cluster uint64, err error) {
	if a := r.Adopted; a != nil { // these IDs were read from a disk, because they cannot be computed
		members = make(map[string]uint64, len(a.Members))
		for _, m := range a.Members {
			members[m.Slot] = m.ID
		}
		return members, a.Cluster, nil
	}
	return FounderIDs(r.Token(), r.Peers())
}
