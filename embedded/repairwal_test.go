package embedded

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
)

// old35 is a data directory as etcd 3.5 leaves it: the content of the database, and a log whose second entry only 3.5
// can replay. commit is what a follower's log says, which is less than was applied.
type old35 struct {
	applied, term uint64
	members       map[uint64]bool // ID -> learner
	removed       []uint64
	raft          string // configuration, in JSON
	commit        uint64
}

func (o old35) write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "etcd")
	w := makeWAL(t, dir)
	state := &raftpb.HardState{Term: field(uint64(2)), Vote: field(uint64(7)), Commit: field(o.commit)}
	check(t, w.Save(message(&raftpb.HardState{Term: field(uint64(1)), Commit: field(uint64(1))}), []logEntry{entry(1, 1, request(t))}))
	check(t, w.SaveSnapshot(message(&walpb.Snapshot{Index: field(uint64(1)), Term: field(uint64(1)), ConfState: o.votes()})))
	check(t, w.Save(message(state), []logEntry{entry(2, 2, v2Request()), entry(2, 3, request(t)), entry(2, 4, request(t))}))
	check(t, w.Close())
	db, err := bolt.Open(DatabasePath(dir), 0o600, nil)
	check(t, err)
	defer db.Close()
	check(t, db.Update(func(tx *bolt.Tx) error {
		meta, err1 := tx.CreateBucket(schema.Meta.Name())
		members, err2 := tx.CreateBucket(schema.Members.Name())
		removed, err3 := tx.CreateBucket(schema.MembersRemoved.Name())
		err := errors.Join(err1, err2, err3, meta.Put(schema.MetaConsistentIndexKeyName, binary.BigEndian.AppendUint64(nil, o.applied)))
		if o.term != 0 {
			err = errors.Join(err, meta.Put(schema.MetaTermKeyName, binary.BigEndian.AppendUint64(nil, o.term)))
		}
		if o.raft != "" {
			err = errors.Join(err, meta.Put(schema.MetaConfStateName, []byte(o.raft)))
		}
		for id, learner := range o.members {
			text, _ := json.Marshal(map[string]any{"id": id, "isLearner": learner})
			err = errors.Join(err, members.Put(fmt.Appendf(nil, "%x", id), text))
		}
		for _, id := range o.removed {
			err = errors.Join(err, removed.Put(fmt.Appendf(nil, "%x", id), []byte("removed")))
		}
		return err
	}))
	return dir
}

// votes returns raft's configuration in the raft snapshot with which the log begins: the database's, or else the
// members that it lists.
func (o old35) votes() *raftpb.ConfState {
	state := &raftpb.ConfState{}
	if o.raft != "" {
		_ = json.Unmarshal([]byte(o.raft), state)
		return state
	}
	for id, learner := range o.members {
		if learner {
			state.Learners = append(state.Learners, id)
		} else {
			state.Voters = append(state.Voters, id)
		}
	}
	return state
}

// smallLogs keeps etcd from reserving 64 MB for each log.
func smallLogs(t *testing.T) {
	before := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = rehearsalSegment
	t.Cleanup(func() { wal.SegmentSizeBytes = before })
}

func TestRepairWAL(t *testing.T) {
	smallLogs(t)
	two := map[uint64]bool{7: false, 9: true}
	for name, tc := range map[string]struct {
		old  old35
		want string // in the obstacle
	}{
		"3.5":                   {old35{applied: 3, term: 2, members: two, raft: `{"voters":[7],"learners":[9]}`, commit: 1}, ""},
		"3.4, without a term":   {old35{applied: 3, members: two, commit: 4}, ""},
		"not applied yet":       {old35{applied: 1, term: 1, members: two, commit: 4}, "up to index 1 only, and an entry of etcd 3.5 or older stands at 2: run etcd 3.6.11"},
		"beyond the log":        {old35{applied: 5, term: 2, members: two, commit: 4}, "index 5, which is not in the log"},
		"another term":          {old35{applied: 3, term: 3, members: two, commit: 4}, "index 3 from term 3, and the log from 2"},
		"a removed member":      {old35{applied: 3, term: 2, members: two, removed: []uint64{9}, commit: 4}, "and the database says as well that it was removed; start etcd 3.5.26"},
		"a member raft has not": {old35{applied: 3, term: 2, members: two, raft: `{"voters":[7]}`, commit: 4}, "member 9 (no name): the database says learner, raft absent; start etcd 3.5.26"},
		"a learner that votes":  {old35{applied: 3, term: 2, members: two, raft: `{"voters":[7,9]}`, commit: 4}, "member 9 (no name): the database says learner, raft voter; start"},
		"nobody votes":          {old35{applied: 3, term: 2, members: map[uint64]bool{9: true}, commit: 4}, "no member votes"},
	} {
		dir := tc.old.write(t)
		before := files(t, dir)
		r, err := RepairWAL(dir, true)
		check(t, err)
		if (r.Obstacle == "") != (tc.want == "") || !strings.Contains(r.Obstacle, tc.want) || r.Entries != 1 || r.Last != 2 {
			t.Errorf("%s: got %+v, want the obstacle %q", name, r, tc.want)
		}
		if got := files(t, dir); got != before {
			t.Errorf("%s: the dry run changed the directory", name)
		}
		r, err = RepairWAL(dir, false)
		check(t, err)
		if tc.want != "" {
			if got := files(t, dir); got != before || r.Copy != "" {
				t.Errorf("%s: what cannot be repaired was changed", name)
			}
			continue
		}
		if err := checkWAL(dir); err != nil {
			t.Errorf("%s, repaired: %v", name, err)
		}
		if got := files(t, r.Copy); got != before {
			t.Errorf("%s: the copy is not what the directory was", name)
		}
		if d, err := (Disk{}).Inspect(dir); err != nil || d.Log.Index != 4 || d.Log.Term != 2 || d.Member != 7 {
			t.Errorf("%s, repaired: got %+v, %v: the log ends elsewhere", name, d, err)
		}
		if r, err := RepairWAL(dir, false); err != nil || r.Entries != 0 || r.Copy != "" {
			t.Errorf("%s, again: got %+v, %v", name, r, err)
		}
	}
}

// The database of etcd 3.4 does not have raft's configuration. So only the raft snapshot and the log show that a
// restore by its etcdctl has left another cluster's members.
func TestRepairWALPhantomsOfEtcd34(t *testing.T) {
	smallLogs(t)
	dir := old35{applied: 3, members: map[uint64]bool{7: false}, commit: 4}.write(t)
	set(t, dir, schema.Members.Name(), []byte("9"), `{"id":9,"name":"old"}`)
	r, err := RepairWAL(dir, false)
	check(t, err)
	if !strings.HasPrefix(r.Obstacle, "member 9 (old): the database says voter, raft absent; start etcd 3.5.26") || r.Copy != "" {
		t.Errorf("got %+v", r)
	}
}

// files returns the content of a directory.
func files(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, path := range []string{DatabasePath(dir), filepath.Join(datadir.ToWALDir(dir), "0000000000000000-0000000000000000.wal")} {
		data, err := os.ReadFile(path)
		check(t, err)
		b.Write(data)
	}
	return b.String()
}

func TestRepairWALRefuses(t *testing.T) {
	smallLogs(t)
	if _, err := RepairWAL(t.TempDir(), true); err == nil {
		t.Error("a directory without a log was repaired")
	}
	rags := old35{applied: 3, term: 2, members: map[uint64]bool{7: false}, raft: "{", commit: 4}.write(t)
	if _, err := RepairWAL(rags, false); err == nil || !strings.Contains(err.Error(), "read raft's configuration in the database") {
		t.Errorf("a configuration in rags: got %v", err)
	}
	dir := old35{applied: 3, term: 2, members: map[uint64]bool{7: false}, commit: 4}.write(t)
	lock, err := lockDir(dir)
	check(t, err)
	defer lock.Close()
	if _, err := RepairWAL(dir, false); !errors.Is(err, errLocked) {
		t.Errorf("in use: got %v, want errLocked", err)
	}
}
