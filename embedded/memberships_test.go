package embedded

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v2store"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// lists is a data directory in which each place lists the members that the test chooses. Its own member is 7.
type lists struct {
	log       []*raftpb.ConfChange // each an entry, from index 1 on
	snapshot  int                  // the number of entries before the raft snapshot
	v2        []*membership.Member // in that snapshot
	v2Removed []uint64
	votes     []uint64 // in that snapshot
	applied   int      // how many of the entries the database has; 0: all
	v3        []*membership.Member
	v3Removed []uint64
	raft      string // configuration in the database, in JSON; "" as before etcd 3.5
}

func at(id uint64) *membership.Member {
	return &membership.Member{ID: types.ID(id), RaftAttributes: membership.RaftAttributes{PeerURLs: []string{fmt.Sprintf("http://m%d:2380", id)}},
		Attributes: membership.Attributes{Name: fmt.Sprint("m", id)}}
}

func learner(id uint64) *membership.Member {
	m := at(id)
	m.IsLearner = true
	return m
}

// moved returns a member with another peer URL.
func moved(id uint64) *membership.Member {
	m := at(id)
	m.PeerURLs = []string{"http://elsewhere:2380"}
	return m
}

func changeOf(kind raftpb.ConfChangeType, m *membership.Member, promote bool) *raftpb.ConfChange {
	text, _ := json.Marshal(membership.ConfigChangeContext{Member: *m, IsPromote: promote})
	return confChange(kind, uint64(m.ID), text)
}

func add(m *membership.Member) *raftpb.ConfChange {
	if m.IsLearner {
		return changeOf(raftpb.ConfChangeAddLearnerNode, m, false)
	}
	return changeOf(raftpb.ConfChangeAddNode, m, false)
}

func promote(id uint64) *raftpb.ConfChange { return changeOf(raftpb.ConfChangeAddNode, at(id), true) }
func update(m *membership.Member) *raftpb.ConfChange {
	return changeOf(raftpb.ConfChangeUpdateNode, m, false)
}
func remove(id uint64) *raftpb.ConfChange {
	return confChange(raftpb.ConfChangeRemoveNode, id, nil)
}

// founded is the log of a cluster of 7, 9 and 11, with further changes.
func founded(more ...*raftpb.ConfChange) []*raftpb.ConfChange {
	return append([]*raftpb.ConfChange{add(at(7)), add(at(9)), add(at(11))}, more...)
}

func (l lists) write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "etcd")
	w := makeWAL(t, dir)
	for i, c := range l.log {
		data, err := marshal(c)
		check(t, err)
		index := uint64(i + 1)
		save(t, w, message(&raftpb.Entry{Type: field(raftpb.EntryConfChange), Term: field(uint64(1)), Index: field(index), Data: data}))
		if l.snapshot == i+1 {
			state := &raftpb.ConfState{Voters: l.votes}
			check(t, snap.New(zap.NewNop(), datadir.ToSnapDir(dir)).SaveSnap(message(&raftpb.Snapshot{Data: l.store(t),
				Metadata: message(&raftpb.SnapshotMetadata{Term: field(uint64(1)), Index: field(index), ConfState: message(state)})})))
			check(t, w.SaveSnapshot(message(&walpb.Snapshot{Term: field(uint64(1)), Index: field(index), ConfState: state})))
		}
	}
	check(t, w.Close())
	if l.applied == 0 {
		l.applied = len(l.log)
	}
	db, err := bolt.Open(DatabasePath(dir), 0o600, nil)
	check(t, err)
	check(t, errors.Join(db.Update(l.database), db.Close()))
	return dir
}

// store is the v2 store in the form of a raft snapshot.
func (l lists) store(t *testing.T) []byte {
	t.Helper()
	s := v2store.New("/0", "/1")
	put := func(key string, v any) {
		text, err := json.Marshal(v)
		check(t, err)
		_, err = s.Create(key, false, string(text), false, v2store.TTLOptionSet{ExpireTime: v2store.Permanent})
		check(t, err)
	}
	for _, m := range l.v2 {
		put(path.Join(membership.MemberStoreKey(m.ID), "raftAttributes"), m.RaftAttributes)
		put(path.Join(membership.MemberStoreKey(m.ID), "attributes"), m.Attributes)
	}
	for _, id := range l.v2Removed {
		put(membership.RemovedMemberStoreKey(types.ID(id)), "")
	}
	data, err := s.Save()
	check(t, err)
	return data
}

func (l lists) database(tx *bolt.Tx) error {
	meta, err1 := tx.CreateBucket(schema.Meta.Name())
	members, err2 := tx.CreateBucket(schema.Members.Name())
	removed, err3 := tx.CreateBucket(schema.MembersRemoved.Name())
	cluster, err4 := tx.CreateBucket(schema.Cluster.Name())
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	err := errors.Join(cluster.Put(schema.ClusterClusterVersionKeyName, []byte("3.5.0")),
		meta.Put(schema.MetaConsistentIndexKeyName, binary.BigEndian.AppendUint64(nil, uint64(l.applied))))
	if l.raft != "" {
		err = errors.Join(err, meta.Put(schema.MetaConfStateName, []byte(l.raft)))
	}
	for _, m := range l.v3 {
		text, _ := json.Marshal(m)
		err = errors.Join(err, members.Put(schema.BackendMemberKey(m.ID), text))
	}
	for _, id := range l.v3Removed {
		err = errors.Join(err, removed.Put(schema.BackendMemberKey(types.ID(id)), []byte("removed")))
	}
	return err
}

var all = []*membership.Member{at(7), at(9), at(11)}

const allVote = `{"voters":[7,9,11],"auto_leave":false}`

func TestReadMemberships(t *testing.T) {
	smallLogs(t)
	for name, tc := range map[string]struct {
		lists lists
		want  string // the differences
	}{
		"nothing differs":                     {lists{log: founded(), v3: all, raft: allVote}, ""},
		"nothing differs, etcd 3.4":           {lists{log: founded(), v3: all}, ""},
		"nothing differs, with a snapshot":    {lists{log: founded(), snapshot: 3, v2: all, votes: []uint64{7, 9, 11}, v3: all}, ""},
		"the snapshot was older than removal": {lists{log: founded(remove(11)), snapshot: 3, v2: all, votes: []uint64{7, 9, 11}, v3: all[:2], v3Removed: []uint64{11}}, ""},
		"a change that is not applied yet":    {lists{log: founded(remove(11)), applied: 3, v3: all, raft: allVote}, ""},
		"an address in use was refused":       {lists{log: founded(changeOf(raftpb.ConfChangeAddNode, &membership.Member{ID: 13, RaftAttributes: at(9).RaftAttributes}, false)), v3: all}, ""},
		"a known ID was refused":              {lists{log: founded(add(moved(9))), v3: all}, ""},
		"a removed ID was refused":            {lists{log: founded(remove(11), add(at(11))), v3: all[:2], v3Removed: []uint64{11}}, ""},
		"an address was taken over":           {lists{log: founded(update(moved(11))), v3: []*membership.Member{at(7), at(9), moved(11)}}, ""},
		"a second learner was refused": {lists{log: founded(add(learner(13)), add(learner(15))), v3: append(slices.Clone(all), learner(13)),
			raft: `{"voters":[7,9,11],"learners":[13]}`}, ""},
		"a second learner was admitted": {lists{log: founded(add(learner(13)), add(learner(15))), v3: append(slices.Clone(all), learner(13), learner(15)),
			raft: `{"voters":[7,9,11],"learners":[13,15]}`}, ""},
		"a promotion": {lists{log: founded(add(learner(13)), promote(13)), v3: append(slices.Clone(all), at(13))}, ""},

		// `etcdutl snapshot restore` leaves the configuration of the backup's cluster in the database until the first
		// change of members that takes place.
		"restored": {lists{log: founded(), snapshot: 3, v2: all, votes: []uint64{7, 9, 11}, v3: all, raft: `{"voters":[17,19]}`}, ""},
		"restored, and a change was refused": {lists{log: founded(add(moved(9)), remove(13)), snapshot: 3, v2: all,
			votes: []uint64{7, 9, 11}, v3: all, raft: `{"voters":[17,19]}`}, ""},
		"restored, and changed since": {lists{log: founded(add(learner(13))), snapshot: 3, v2: all, votes: []uint64{7, 9, 11},
			v3: append(slices.Clone(all), learner(13)), raft: `{"voters":[7,9,11],"learners":[13]}`}, ""},
		"restored, and the database has one more": {lists{log: founded(), snapshot: 3, v2: all, votes: []uint64{7, 9, 11},
			v3: append(slices.Clone(all), at(13)), raft: `{"voters":[17,19]}`}, "only-v3 m13 voter/absent/absent"},

		"the database lacks a member":            {lists{log: founded(), v3: all[:2], raft: allVote}, "only-v2 m11 absent/voter/voter"},
		"the database lacks one of the snapshot": {lists{log: founded(), snapshot: 3, v2: all, votes: []uint64{7, 9, 11}, v3: all[:2]}, "only-v2 m11 absent/voter/voter"},
		"the database has one more":              {lists{log: founded(), v3: append(slices.Clone(all), at(13)), raft: allVote}, "only-v3 m13 voter/absent/absent"},
		"the database has a removed one": {lists{log: founded(), snapshot: 3, v2: all[:2], v2Removed: []uint64{11}, votes: []uint64{7, 9}, v3: all},
			"only-v3 m11 voter/removed/absent"},
		"a promotion that the database missed": {lists{log: founded(add(learner(13)), promote(13)), v3: append(slices.Clone(all), learner(13)),
			raft: `{"voters":[7,9,11,13]}`}, "learner-in-v3 m13 learner/voter/voter"},
		"a learner that was updated": {lists{log: founded(add(learner(13))), v3: append(slices.Clone(all), at(13)), raft: `{"voters":[7,9,11],"learners":[13]}`},
			"voter-in-v3 m13 voter/learner/learner"},
		// etcd 3.5 writes this if the database was ahead of HardState.Commit. The removals are at indexes that the
		// database already had, so they changed only the v2 store and raft (etcd-io/raft#300).
		"force-new-cluster": {lists{log: founded(remove(9), remove(11)), v3: all, raft: `{"voters":[7]}`},
			"only-v3 m9 voter/removed/absent, only-v3 m11 voter/removed/absent"},
		"other addresses":              {lists{log: founded(), v3: []*membership.Member{at(7), at(9), moved(11)}}, "other-urls m11 voter/voter/voter"},
		"listed and removed":           {lists{log: founded(), v3: all, v3Removed: []uint64{9}}, "listed-twice m9 voter/voter/voter"},
		"the v2 store lags":            {lists{log: founded(), v3: all[:2], v3Removed: []uint64{11}, raft: `{"voters":[7,9]}`}, "only-v2 m11 removed/voter/absent"},
		"the v2 store lacks a member":  {lists{log: founded(), snapshot: 3, v2: all[:2], votes: []uint64{7, 9, 11}, v3: all, raft: allVote}, "stale-v2 m11 voter/absent/voter"},
		"the database was restored by": {lists{log: founded(), v3: []*membership.Member{at(7), at(9)}, raft: `{"voters":[7,9]}`}, "only-v2 m11 absent/voter/absent"},
	} {
		dir := tc.lists.write(t)
		before := fingerprint(t, dir)
		m, err := ReadMemberships(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, d := range m.Differences {
			got = append(got, fmt.Sprintf("%s %s %s/%s/%s", d.Kind, d.Name, d.V3, d.V2, d.Raft))
			if in36, in37 := d.Kind.Means(); in36 == "" || in37 == "" {
				t.Errorf("%s: %s has no meaning", name, d.Kind)
			}
		}
		if got := strings.Join(got, ", "); got != tc.want {
			t.Errorf("%s: got %q, want %q\n%+v", name, got, tc.want, m)
		}
		if m.Member != 7 || m.Cluster != 8 || m.ClusterVersion != "3.5.0" || m.StorageVersion != "" || m.OldEntries != 0 ||
			m.Log.Index != uint64(len(tc.lists.log)) || m.Snapshot != uint64(tc.lists.snapshot) {
			t.Errorf("%s: got %+v", name, m)
		}
		if fingerprint(t, dir) != before {
			t.Errorf("%s: the directory was changed", name)
		}
	}
}

// This compares everything that was read of each list.
func TestReadMembershipsLists(t *testing.T) {
	smallLogs(t)
	dir := lists{log: founded(remove(11), add(learner(13))), snapshot: 4, v2: all[:2], v2Removed: []uint64{11}, votes: []uint64{7, 9},
		v3: []*membership.Member{at(7), moved(9), learner(13)}, v3Removed: []uint64{11}}.write(t)
	got, err := ReadMemberships(dir)
	check(t, err)
	listed := func(m *membership.Member) ListedMember { return listedMember(uint64(m.ID), m) }
	want := &Memberships{
		Member: 7, Cluster: 8, ClusterVersion: "3.5.0", Applied: plan.LogEnd{Index: 5}, Snapshot: 4, Log: got.Log,
		V3: []ListedMember{listed(at(7)), listed(moved(9)), listed(learner(13))}, V3Removed: []uint64{11},
		V2: []ListedMember{listed(at(7)), listed(at(9)), listed(learner(13))}, V2Removed: []uint64{11},
		Voters: []uint64{7, 9}, Learners: []uint64{13},
		Differences: []Difference{{Kind: otherURLs, ID: 9, Name: "m9", V3: isVoter, V2: isVoter, Raft: isVoter,
			V3URLs: moved(9).PeerURLs, V2URLs: at(9).PeerURLs}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	check(t, os.Remove(filepath.Join(datadir.ToSnapDir(dir), "0000000000000001-0000000000000004.snap")))
	got, err = ReadMemberships(dir)
	check(t, err)
	if !got.V2Unknown || got.V2 != nil || len(got.Differences) != 0 || !slices.Equal(got.Voters, want.Voters) || !slices.Equal(got.Learners, want.Learners) {
		t.Errorf("without the file of the snapshot: got %+v", got)
	}
}

// The old entries of a log are counted, whatever the members are.
func TestReadMembershipsOldEntries(t *testing.T) {
	smallLogs(t)
	m, err := ReadMemberships(old35{applied: 3, term: 2, members: map[uint64]bool{7: false}, commit: 4}.write(t))
	check(t, err)
	if m.OldEntries != 1 || m.OldLast != 2 {
		t.Errorf("got %d up to %d, want 1 up to 2", m.OldEntries, m.OldLast)
	}
}

func TestReadMembershipsRefuses(t *testing.T) {
	smallLogs(t)
	good := lists{log: founded(), snapshot: 3, v2: all, votes: []uint64{7, 9, 11}, v3: all}
	for name, tc := range map[string]struct {
		lists lists
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"no data directory": {good, func(t *testing.T, dir string) { check(t, os.RemoveAll(dir)) }, "name the directory that contains `member`"},
		"no database":       {good, func(t *testing.T, dir string) { check(t, os.Remove(DatabasePath(dir))) }, "no such file"},
		"a snapshot that cannot be read": {good, func(t *testing.T, dir string) {
			check(t, os.WriteFile(filepath.Join(datadir.ToSnapDir(dir), "0000000000000001-0000000000000003.snap"), []byte("x"), 0o600))
		}, "read the raft snapshot"},
		"a database before the snapshot": {lists{log: founded(), snapshot: 3, v2: all, votes: []uint64{7}, v3: all, applied: 2}, nil, "snapshot is at index 3, and the database has the log up to 2"},
		"a newer etcd": {good, func(t *testing.T, dir string) {
			set(t, dir, schema.Cluster.Name(), schema.ClusterClusterVersionKeyName, "3.99.0")
		}, errNewer.Error()},
		"a member that is none": {good, func(t *testing.T, dir string) { set(t, dir, schema.Members.Name(), []byte("zz"), "{}") }, `read member "zz"`},
		"etcd runs": {good, func(t *testing.T, dir string) {
			db, err := bolt.Open(DatabasePath(dir), 0o600, nil)
			check(t, err)
			t.Cleanup(func() { db.Close() })
		}, errLocked.Error()},
	} {
		dir := tc.lists.write(t)
		if tc.spoil != nil {
			tc.spoil(t, dir)
		}
		entries, _ := os.ReadDir(datadir.ToSnapDir(dir))
		if m, err := ReadMemberships(dir); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %+v, %v, want %q", name, m, err, tc.want)
		}
		if after, _ := os.ReadDir(datadir.ToSnapDir(dir)); len(after) != len(entries) || (len(after) > 0 && after[0].Name() != entries[0].Name()) {
			t.Errorf("%s: got the files %v, want %v", name, after, entries)
		}
	}
}
