package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// survivor is the data of a member whose database lags behind its log, as after a crash. 60 entries are known to be
// committed and are not in the database; 40 more are not known to be committed.
type survivor struct {
	dir  string // as the member left it
	copy string // of the database
	end  plan.LogEnd
}

const written, tailed = 60, 40

func newSurvivor(t *testing.T) survivor {
	t.Helper()
	n := found(t, "a")[0]
	c := n.client(t)
	lease, err := c.Grant(t.Context(), 60) // it must not expire, here or while the log is replayed
	check(t, err)
	_, err = c.Put(t.Context(), "leased", "1", clientv3.WithLease(lease.ID))
	check(t, err)
	s := survivor{dir: t.TempDir(), copy: filepath.Join(t.TempDir(), "etcd")}
	for _, dir := range []string{s.dir, s.copy} {
		check(t, os.MkdirAll(filepath.Dir(DatabasePath(dir)), 0o700))
	}
	check(t, n.Copy(t.Context(), n.spec.DataDir, DatabasePath(s.copy), func(int64, int64) {}))
	for i := range written {
		put(t, c, fmt.Sprintf("written/%d", i), "1")
	}
	check(t, os.CopyFS(datadir.ToWALDir(s.dir), os.DirFS(datadir.ToWALDir(n.spec.DataDir))))
	check(t, os.MkdirAll(filepath.Join(s.dir, "member"), 0o700))
	s.append(t, n.Status().ID)
	d, err := (Disk{}).Inspect(s.dir)
	check(t, err)
	s.end = d.Log
	return s
}

// append adds entries to the log that no HardState calls committed: writes, and news of members that would end etcd.
func (s survivor) append(t *testing.T, self uint64) {
	t.Helper()
	before, err := (Disk{}).Inspect(s.dir)
	check(t, err)
	w, err := wal.Open(zap.NewNop(), datadir.ToWALDir(s.dir), message(&walpb.Snapshot{}))
	check(t, err)
	_, _, _, err = w.ReadAll()
	check(t, err)
	var entries []logEntry
	add := func(kind raftpb.EntryType, m encoded) {
		data, err := marshal(m)
		check(t, err)
		entries = append(entries, message(&raftpb.Entry{Type: field(kind), Term: field(before.Log.Term + 1), Index: field(before.Log.Index + 1 + uint64(len(entries))), Data: data}))
	}
	for i := range tailed {
		add(raftpb.EntryNormal, &pb.InternalRaftRequest{Header: &pb.RequestHeader{ID: uint64(i + 1)}, Put: &pb.PutRequest{Key: fmt.Appendf(nil, "tailed/%d", i), Value: []byte("1")}})
		switch i {
		case 10:
			add(raftpb.EntryConfChange, confChange(raftpb.ConfChangeRemoveNode, self, nil))
		case 20:
			add(raftpb.EntryNormal, &pb.InternalRaftRequest{Header: &pb.RequestHeader{ID: 999}, ClusterMemberAttrSet: &membershippb.ClusterMemberAttrSetRequest{Member_ID: 77, MemberAttributes: &membershippb.Attributes{Name: "x"}}})
		}
	}
	check(t, w.Save(message(&raftpb.HardState{}), entries))
	check(t, w.Close())
}

// TestReplay: everything in the log is in the database afterwards, the original is unchanged, and the result starts.
func TestReplay(t *testing.T) {
	if os.Getenv("HOLDFAST_REPLAY_FROM") != "" {
		replayHere(t)
		return
	}
	s := newSurvivor(t)
	before := fingerprint(t, s.dir)
	// This runs in a process of its own, as in a node, because etcd may end the process.
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReplay$")
	cmd.Env = append(os.Environ(), "HOLDFAST_REPLAY_FROM="+s.dir, "HOLDFAST_REPLAY_DIR="+s.copy)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprintf("end %+v", s.end)) {
		t.Fatalf("replay, want end %+v: %v\n%s", s.end, err, out)
	}
	if after := fingerprint(t, s.dir); after != before {
		t.Error("the original was changed")
	}
	check(t, Disk{}.Rebuild(t.Context(), s.copy, lone(), 0))
	keys := map[string]bool{}
	view(t, DatabasePath(s.copy), func(tx *bolt.Tx) {
		check(t, tx.Bucket(schema.Key.Name()).ForEach(func(_, v []byte) error {
			for _, prefix := range []string{"written/", "tailed/", "leased"} {
				if _, rest, ok := strings.Cut(string(v), prefix); ok {
					keys[prefix+strings.SplitN(rest, "\x10", 2)[0]] = true
				}
			}
			return nil
		}))
	})
	if want := written + tailed + 1; len(keys) != want {
		t.Errorf("%d keys, want %d", len(keys), want)
	}
	got, err := Try(t.Context(), s.copy, lone(), 0, zap.NewNop())
	check(t, err)
	if got.Leases != 1 || got.Members != 1 || got.Revision < written+tailed+2 {
		t.Errorf("got %+v", got)
	}
	check(t, os.RemoveAll(s.copy))
	if _, err := Replay(t.Context(), s.dir, s.copy, zap.NewNop()); err == nil {
		t.Error("without a database: no error")
	}
}

// replayHere runs in the child process.
func replayHere(t *testing.T) {
	end, err := Replay(context.Background(), os.Getenv("HOLDFAST_REPLAY_FROM"), os.Getenv("HOLDFAST_REPLAY_DIR"), zap.NewExample())
	check(t, err)
	check(t, databaseOnly(os.Getenv("HOLDFAST_REPLAY_DIR")))
	fmt.Printf("end %+v\n", end)
}

// TestReplayShort: a log that ends before the database does is damaged and gives an error.
func TestReplayShort(t *testing.T) {
	s := newSurvivor(t)
	check(t, func() error {
		db, err := bolt.Open(DatabasePath(s.copy), 0o600, nil)
		check(t, err)
		return errors.Join(db.Update(func(tx *bolt.Tx) error {
			return tx.Bucket(schema.Meta.Name()).Put(schema.MetaConsistentIndexKeyName, []byte{0, 0, 0, 0, 0, 1, 0, 0})
		}), db.Close())
	}())
	if _, err := Replay(t.Context(), s.dir, s.copy, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "lost its end") {
		t.Errorf("got %v", err)
	}
}

// fingerprint returns the names, sizes and times of all files.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		return err
	}))
	return b.String()
}

func view(t *testing.T, path string, look func(*bolt.Tx)) {
	t.Helper()
	db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true})
	check(t, err)
	check(t, errors.Join(db.View(func(tx *bolt.Tx) error { look(tx); return nil }), db.Close()))
}
