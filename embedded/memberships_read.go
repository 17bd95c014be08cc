package embedded

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v2error"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v2store"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// ReadMemberships examines the data directory of a stopped etcd 3.4 or newer, or a copy of one, and changes nothing. It
// returns an errLocked if etcd runs there, and an errNewer if a newer etcd has run there. It reads the log from the
// last raft snapshot on, as a start does. The database is locked against a starting etcd only while its few keys are
// read.
func ReadMemberships(dir string) (m *Memberships, err error) {
	defer during(&err, "read the members in %s", dir)
	if _, err := os.Stat(datadir.ToWALDir(dir)); err != nil {
		return nil, fmt.Errorf("it is not a data directory of etcd: name the directory that contains `member`: %w", err)
	}
	m = &Memberships{}
	// Read the database first: in the meantime the log can only grow.
	raft, err := m.open(DatabasePath(dir))
	if err == nil {
		err = guard(func() error { return m.readLog(dir, raft) })
	}
	if err != nil {
		return nil, err
	}
	m.compare()
	return m, nil
}

// ReadDatabase reads what a database alone tells, such as that of a backup: the members and the versions. Fields about
// the log stay empty.
func ReadDatabase(path string) (*Memberships, error) {
	m := &Memberships{}
	if _, err := m.open(path); err != nil {
		return nil, fmt.Errorf("read the members in %s: %w", path, err)
	}
	return m, nil
}

// MemberList returns the member list of a data directory on which no etcd runs, as last applied there, sorted by ID.
// Entries of the log that are not applied yet may change it. MemberList changes nothing.
func (d Disk) MemberList(dir string) (list []plan.MemberInfo, err error) {
	m, err := ReadDatabase(DatabasePath(dir))
	if err != nil {
		return nil, err
	}
	for _, l := range m.V3 {
		list = append(list, d.Names.listed(l))
	}
	return list, nil
}

func (m *Memberships) open(path string) (raft *raftMembers, err error) {
	err = viewDatabase(path, func(tx *bolt.Tx) (err error) {
		raft, err = m.readDatabase(tx)
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		err = fmt.Errorf("%w: stop etcd there, or name a copy", errLocked)
	}
	return raft, err
}

// raftMembers are the voters and learners in a configuration of raft. The JSON is etcd's (schema/confstate.go).
type raftMembers struct {
	Voters   []uint64 `json:"voters"`
	Learners []uint64 `json:"learners"`
}

// readDatabase also returns raft's configuration, nil if the database has none.
func (m *Memberships) readDatabase(tx *bolt.Tx) (raft *raftMembers, err error) {
	meta, members := tx.Bucket(schema.Meta.Name()), tx.Bucket(schema.Members.Name())
	if meta == nil || members == nil {
		return nil, errors.New("the database has no bucket meta or members: not an etcd database")
	}
	if err := databaseNewer(tx); err != nil {
		return nil, err
	}
	m.Applied = plan.LogEnd{Term: number(meta.Get(schema.MetaTermKeyName)),
		Index: number(meta.Get(schema.MetaConsistentIndexKeyName))}
	m.StorageVersion = string(meta.Get(schema.MetaStorageVersionName))
	if b := tx.Bucket(schema.Cluster.Name()); b != nil {
		m.ClusterVersion = string(b.Get(schema.ClusterClusterVersionKeyName))
	}
	err = members.ForEach(func(k, text []byte) error {
		id, err := strconv.ParseUint(string(k), 16, 64)
		var l membership.Member
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		if err != nil {
			return fmt.Errorf("read member %q in the database: %w", k, err)
		}
		m.V3 = append(m.V3, listedMember(id, &l))
		return nil
	})
	if b := tx.Bucket(schema.MembersRemoved.Name()); b != nil && err == nil {
		err = b.ForEach(func(k, _ []byte) error {
			id, err := strconv.ParseUint(string(k), 16, 64)
			m.V3Removed = append(m.V3Removed, id)
			return err
		})
	}
	if text := meta.Get(schema.MetaConfStateName); text != nil && err == nil {
		raft = &raftMembers{}
		if err := json.Unmarshal(text, raft); err != nil {
			return nil, fmt.Errorf("read raft's configuration in the database: %w", err)
		}
	}
	sortMembers(m.V3)
	slices.Sort(m.V3Removed)
	return raft, err
}

func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func listedMember(id uint64, m *membership.Member) ListedMember {
	return ListedMember{ID: id, Name: m.Name, PeerURLs: m.PeerURLs, Learner: m.IsLearner}
}

func sortMembers(list []ListedMember) {
	slices.SortFunc(list, func(a, b ListedMember) int { return cmp.Compare(a.ID, b.ID) })
}

// readLog reads the v2 store, and decides which configuration of raft is valid. The database has its configuration from
// the last change of members. If the log has no change, that configuration may be another cluster's: `etcdutl snapshot
// restore` leaves it in the database until the first change, and no etcd reads it.
func (m *Memberships) readLog(dir string, raft *raftMembers) error {
	l, err := readLog(datadir.ToWALDir(dir), math.MaxUint64)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if l.newer != nil {
		return l.newer
	}
	var ids pb.Metadata
	if err := unmarshal(l.identity, &ids); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	m.Member, m.Cluster = value(ids.NodeID), value(ids.ClusterID)
	m.OldEntries, m.OldLast = l.old, l.last.Index
	m.Snapshot, m.Log = value(l.start.Index), l.end()
	if m.Snapshot > m.Applied.Index {
		return fmt.Errorf("the raft snapshot is at index %d, and the database has the log up to %d only: "+
			"start this etcd once in the version that it has, and stop it again", m.Snapshot, m.Applied.Index)
	}
	v2, err := m.snapshotMembers(dir, l)
	if err != nil {
		return err
	}
	took, err := v2.apply(l.entries, m.Applied.Index, raft)
	if err != nil {
		return err
	}
	if !m.V2Unknown {
		m.V2 = slices.Collect(maps.Values(v2.members))
		m.V2Removed = slices.Sorted(maps.Keys(v2.removed))
		sortMembers(m.V2)
	}
	if raft == nil || !took { // before etcd 3.5 the database has none
		raft = v2.configuration()
	}
	m.Voters, m.Learners = slices.Sorted(slices.Values(raft.Voters)), slices.Sorted(slices.Values(raft.Learners))
	return nil
}

// maxRaftSnapshot bounds the raft snapshot that is read, in bytes. Members take a few kB. Anything more is keys of the
// v2 API, with which etcd 3.6 does not start.
const maxRaftSnapshot = 256 << 20

// snapshotMembers returns the members in the raft snapshot that the log continues. If its file is missing there is no
// v2 store, and the members are those of the snapshot record in the log.
func (m *Memberships) snapshotMembers(dir string, l log) (*v2Members, error) {
	v2 := &v2Members{members: map[uint64]ListedMember{}, removed: map[uint64]bool{}, raft: map[uint64]bool{}}
	if m.Snapshot == 0 {
		return v2, nil
	}
	file := filepath.Join(datadir.ToSnapDir(dir), fmt.Sprintf("%016x-%016x.snap", value(l.start.Term), m.Snapshot))
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.V2Unknown = true
		if l.raft == nil {
			return nil, fmt.Errorf("the raft snapshot %s is missing, and the log does not say who votes", file)
		}
		v2.vote(l.raft.Voters, l.raft.Learners)
		for id, learner := range v2.raft {
			v2.members[id] = ListedMember{ID: id, Learner: learner}
		}
		return v2, nil
	case err != nil:
		return nil, err
	case info.Size() > maxRaftSnapshot:
		return nil, fmt.Errorf("the raft snapshot %s has %d bytes, more than %d: it holds keys of the v2 API, with which "+
			"etcd 3.6 does not start; delete them with etcd 3.5 first", file, info.Size(), maxRaftSnapshot)
	}
	err = guard(func() error { // not with a Snapshotter, which renames files that it cannot read
		s, err := snap.Read(zap.NewNop(), file)
		if err != nil {
			return err
		}
		v2.vote(s.Metadata.ConfState.Voters, s.Metadata.ConfState.Learners)
		return v2.recover(s.Data)
	})
	if err != nil {
		return nil, fmt.Errorf("read the raft snapshot %s: %w", file, err)
	}
	return v2, nil
}

// v2Members are the members in the v2 store, and raft's.
type v2Members struct {
	members map[uint64]ListedMember
	removed map[uint64]bool
	raft    map[uint64]bool // raft's members; true: a learner
}

func (v *v2Members) vote(voters, learners []uint64) {
	for _, id := range voters {
		v.raft[id] = false
	}
	for _, id := range learners {
		v.raft[id] = true
	}
}

func (v *v2Members) configuration() *raftMembers {
	c := &raftMembers{}
	for id, learner := range v.raft {
		if learner {
			c.Learners = append(c.Learners, id)
		} else {
			c.Voters = append(c.Voters, id)
		}
	}
	return c
}

// The v2 store has the members at /0/members/ID/{raftAttributes,attributes} and /0/removed_members/ID
// (etcdserver/api/membership, storev2.go).
const (
	v2Removed        = "/0/removed_members"
	v2RaftAttributes = "raftAttributes"
	v2Attributes     = "attributes"
)

// recover reads the v2 store from a raft snapshot.
func (v *v2Members) recover(data []byte) error {
	store := v2store.New("/0", "/1")
	if err := store.Recovery(data); err != nil {
		return fmt.Errorf("read the v2 store: %w", err)
	}
	err := eachNode(store, membership.StoreMembersPrefix, func(id uint64, n *v2store.NodeExtern) error {
		m := membership.Member{}
		raft := false
		for _, attribute := range n.Nodes {
			if attribute.Value == nil { // a directory, which etcd never makes here
				continue
			}
			var err error
			switch path.Base(attribute.Key) {
			case v2RaftAttributes:
				raft, err = true, json.Unmarshal([]byte(*attribute.Value), &m.RaftAttributes)
			case v2Attributes:
				err = json.Unmarshal([]byte(*attribute.Value), &m.Attributes)
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", attribute.Key, err)
			}
		}
		if !raft {
			return fmt.Errorf("member %x has no %s: etcd 3.5 and 3.6 panic on that", id, v2RaftAttributes)
		}
		v.members[id] = listedMember(id, &m)
		return nil
	})
	if err != nil {
		return err
	}
	return eachNode(store, v2Removed, func(id uint64, _ *v2store.NodeExtern) error {
		v.removed[id] = true
		return nil
	})
}

// eachNode calls do for each node directly below a directory of the v2 store whose nodes are named by member IDs.
func eachNode(store v2store.Store, dir string, do func(id uint64, n *v2store.NodeExtern) error) error {
	event, err := store.Get(dir, true, true)
	if e := (*v2error.Error)(nil); errors.As(err, &e) && e.ErrorCode == v2error.EcodeKeyNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range event.Node.Nodes {
		id, err := strconv.ParseUint(path.Base(n.Key), 16, 64)
		if err == nil {
			err = do(id, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// apply applies the changes of members in the log up to an index, by etcd's rules. etcd may refuse a change when it
// applies it (ValidateConfigurationChange), so the log contains changes that never took place. took reports whether any
// did. now is raft's configuration in the database, nil if it has none.
func (v *v2Members) apply(entries []logEntry, upTo uint64, now *raftMembers) (took bool, err error) {
	for _, e := range entries {
		if value(e.Index) > upTo {
			break
		}
		if value(e.Type) != raftpb.EntryConfChange {
			continue
		}
		var c raftpb.ConfChange
		var subject membership.ConfigChangeContext
		err := unmarshal(e.Data, &c)
		if err == nil && len(c.Context) > 0 {
			err = json.Unmarshal(c.Context, &subject)
		}
		if err != nil {
			return false, fmt.Errorf("read the change of members at index %d of the log: %w", value(e.Index), err)
		}
		took = v.change(value(c.Type), changed(&c), subject, now) || took
	}
	return took, nil
}

// change applies one change, and reports whether it took place.
func (v *v2Members) change(kind raftpb.ConfChangeType, id uint64, subject membership.ConfigChangeContext,
	now *raftMembers) bool {
	m, known := v.members[id]
	if v.removed[id] {
		return false
	}
	switch kind {
	case raftpb.ConfChangeAddNode, raftpb.ConfChangeAddLearnerNode:
		learner := kind == raftpb.ConfChangeAddLearnerNode
		switch {
		case subject.IsPromote && known && m.Learner:
			m.Learner = false
			v.members[id] = m
		case !subject.IsPromote && !known && v.free(id, subject.PeerURLs) && (!learner || v.mayLearn(id, now)):
			v.members[id] = listedMember(id, &subject.Member)
		default:
			return false
		}
		v.raft[id] = learner
	case raftpb.ConfChangeRemoveNode:
		if !known {
			return false
		}
		delete(v.members, id)
		delete(v.raft, id)
		v.removed[id] = true
	case raftpb.ConfChangeUpdateNode:
		if !known || !v.free(id, subject.PeerURLs) {
			return false
		}
		m.PeerURLs = subject.PeerURLs
		v.members[id] = m
	default:
		return false
	}
	return true
}

// free reports whether no other member has one of the URLs.
func (v *v2Members) free(id uint64, urls []string) bool {
	for _, m := range v.members {
		if m.ID != id && slices.ContainsFunc(urls, func(u string) bool { return slices.Contains(m.PeerURLs, u) }) {
			return false
		}
	}
	return true
}

// mayLearn reports whether etcd admitted a learner. etcd admits one at a time, unless --max-learners says otherwise,
// which is not in the data. A learner that is in raft's configuration now was admitted.
func (v *v2Members) mayLearn(id uint64, now *raftMembers) bool {
	if now != nil && (slices.Contains(now.Voters, id) || slices.Contains(now.Learners, id)) {
		return true
	}
	for _, m := range v.members {
		if m.Learner {
			return false
		}
	}
	return true
}
