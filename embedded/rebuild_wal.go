package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"holdfast/embedded/plan"
)

// foundingTerm is the term of a cluster's first entries, before any election.
const foundingTerm = 1

// founder is one member of a cluster to be founded.
type founder struct {
	cluster *membership.RaftCluster
	self    types.ID
}

func newFounder(spec plan.Spec, names Names) (founder, error) {
	if spec.Token == "" {
		return founder{}, errors.New("the token is missing")
	}
	if spec.Peers[spec.Slot] == "" {
		return founder{}, fmt.Errorf("slot %q is not among the founders %q", spec.Slot, slices.Sorted(maps.Keys(spec.Peers)))
	}
	cluster, err := foundedCluster(spec.Token, names.named(spec.Peers))
	if err != nil {
		return founder{}, err
	}
	name := names.of(spec.Slot)
	for _, m := range cluster.Members() {
		if m.Name == name {
			return founder{cluster, m.ID}, nil
		}
	}
	return founder{}, fmt.Errorf("there is no member %s", name)
}

// writeLog writes the WAL and the raft snapshot of a founder. The log has one entry for each founder; all are
// committed, and the snapshot covers them. etcd 3.7 needs only the record of the snapshot; earlier versions need its
// file.
func (f founder) writeLog(walDir, snapDir string) error {
	entries, err := f.entries()
	if err != nil {
		return err
	}
	state := &raftpb.HardState{Term: field(uint64(foundingTerm)), Vote: field(f.confState().Voters[0]),
		Commit: field(f.lastIndex())}
	record := &walpb.Snapshot{Term: field(uint64(foundingTerm)), Index: field(f.lastIndex()), ConfState: f.confState()}
	return f.createLog(walDir, snapDir, record, func(w *wal.WAL) error {
		if err := w.Save(message(state), entries); err != nil {
			return err
		}
		return w.SaveSnapshot(message(record))
	})
}

// createLog creates a WAL, calls write for its content, and writes the file of the raft snapshot that record refers to.
func (f founder) createLog(walDir, snapDir string, record *walpb.Snapshot, write func(*wal.WAL) error) error {
	// etcd's libraries end the process with Fatal, which this logger turns into a panic.
	lg := zap.New(zapcore.NewNopCore(), zap.WithFatalHook(zapcore.WriteThenPanic))
	identity, err := marshal(&pb.Metadata{NodeID: field(uint64(f.self)), ClusterID: field(uint64(f.cluster.ID()))})
	if err != nil {
		return err
	}
	w, err := wal.Create(lg, walDir, identity)
	if err != nil {
		return fmt.Errorf("make WAL: %w", err)
	}
	if err := errors.Join(write(w), w.Close()); err != nil {
		return fmt.Errorf("write WAL: %w", err)
	}
	err = snap.New(lg, snapDir).SaveSnap(message(&raftpb.Snapshot{
		Data: etcdserver.GetMembershipInfoInV2Format(lg, f.cluster),
		Metadata: message(&raftpb.SnapshotMetadata{Term: record.Term, Index: record.Index,
			ConfState: message(f.confState())}),
	}))
	if err != nil {
		return fmt.Errorf("write raft snapshot: %w", err)
	}
	return nil
}

// entries returns the log of a cluster that was just founded.
func (f founder) entries() ([]logEntry, error) {
	var entries []logEntry
	for _, id := range f.cluster.MemberIDs() {
		text, err := json.Marshal(f.cluster.Member(id))
		if err != nil {
			return nil, err
		}
		change, err := marshal(confChange(raftpb.ConfChangeAddNode, uint64(id), text))
		if err != nil {
			return nil, err
		}
		entries = append(entries, message(&raftpb.Entry{
			Type:  field(raftpb.EntryConfChange),
			Term:  field(uint64(foundingTerm)),
			Index: field(uint64(len(entries) + 1)),
			Data:  change,
		}))
	}
	return entries, nil
}

func (f founder) lastIndex() uint64 { return uint64(len(f.cluster.MemberIDs())) }

func (f founder) confState() *raftpb.ConfState {
	state := &raftpb.ConfState{}
	for _, id := range f.cluster.MemberIDs() {
		state.Voters = append(state.Voters, uint64(id))
	}
	return state
}

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
