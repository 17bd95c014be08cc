package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/verify"
	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// Without a bump the restored member answers exactly like the saved one.
func testRebuildSame(t *testing.T, s source) {
	dir := place(t, s.file)
	check(t, Disk{}.Rebuild(t.Context(), dir, lone(), 0))
	got, err := Try(t.Context(), dir, lone(), s.revision, zap.NewNop())
	check(t, err)
	if got.Revision != s.revision || got.CompactRevision != s.compacted || got.HashKV != s.hash || got.Members != 1 || got.Leases != 1 || len(got.Alarms) != 0 || got.Keys == 0 {
		t.Errorf("got %+v, want revision %d, hash %d", got, s.revision, s.hash)
	}
	if _, err := Try(t.Context(), dir, lone(), s.revision+1, zap.NewNop()); err == nil {
		t.Error("hashed a revision that is not there")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Try(ctx, dir, lone(), s.revision, zap.NewNop()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	if err := (Disk{}).Rebuild(t.Context(), dir, lone(), 0); err == nil || !strings.Contains(err.Error(), "rebuilt once") {
		t.Errorf("twice: got %v", err)
	}

	// It is unknown whether an interrupted attempt has changed the database.
	cut := place(t, s.file)
	check(t, os.Mkdir(filepath.Join(filepath.Dir(filepath.Dir(DatabasePath(cut))), partialWAL), 0o700))
	if err := (Disk{}).Rebuild(t.Context(), cut, lone(), 0); err == nil || !strings.Contains(err.Error(), "another copy") {
		t.Errorf("after an attempt: got %v", err)
	}
}

// A database of a newer etcd, or a file that is no database, is refused before etcd can panic, and is not changed.
func testRebuildRefused(t *testing.T, s source) {
	for name, c := range map[string]struct {
		change func(path string)
		spec   plan.Spec
		bump   int64
		want   string
	}{
		"newer cluster": {func(p string) {
			edit(t, p, func(tx *bolt.Tx) error {
				return tx.Bucket(schema.Cluster.Name()).Put(schema.ClusterClusterVersionKeyName, []byte("3.99.0"))
			})
		}, lone(), 0, "made by etcd 3.99"},
		"newer storage": {func(p string) {
			edit(t, p, func(tx *bolt.Tx) error {
				return tx.Bucket(schema.Meta.Name()).Put(schema.MetaStorageVersionName, []byte("4.0.0"))
			})
		}, lone(), 0, "made by etcd 4.0"},
		"not etcd's": {func(p string) {
			edit(t, p, func(tx *bolt.Tx) error { return tx.DeleteBucket(schema.Key.Name()) })
		}, lone(), 0, "not an etcd database"},
		"too far":        {func(string) {}, lone(), 1<<63 - 10, "cannot be raised"},
		"backwards":      {func(string) {}, lone(), -1, "cannot be raised by -1"},
		"a stranger":     {func(string) {}, plan.Spec{Slot: "y", Token: "t", Peers: lone().Peers}, 0, `slot "y" is not among the founders ["x"]`},
		"no token":       {func(string) {}, plan.Spec{Slot: "x", Peers: lone().Peers}, 0, "token is missing"},
		"no database":    {func(p string) { check(t, os.Remove(p)) }, lone(), 0, "there is no"},
		"something else": {func(p string) { check(t, os.WriteFile(p+".tmp", nil, 0o600)) }, lone(), 0, "db.tmp is there besides"},
		"no pages":       {func(p string) { check(t, os.WriteFile(p, bytes.Repeat([]byte("holdfast"), 4096), 0o600)) }, lone(), 0, "open database"},
		"no revision": {func(p string) {
			edit(t, p, func(tx *bolt.Tx) error { return tx.Bucket(schema.Key.Name()).Put([]byte("\xff"), nil) })
		}, lone(), 1, "damaged"},
	} {
		dir := place(t, s.file)
		c.change(DatabasePath(dir))
		if err := (Disk{}).Rebuild(t.Context(), dir, c.spec, c.bump); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
		if d, err := (Disk{}).Inspect(dir); err != nil || d.WAL {
			t.Errorf("%s: got %+v, %v, want no WAL", name, d, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (Disk{}).Rebuild(ctx, place(t, s.file), lone(), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

// The alarm of a full database and a downgrade do not survive; the alarm of a corrupt one does.
func testRebuildAlarms(t *testing.T, s source) {
	dir := place(t, s.file)
	edit(t, DatabasePath(dir), func(tx *bolt.Tx) error {
		var errs []error
		for _, alarm := range []pb.AlarmType{pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT} {
			for _, id := range []uint64{1, 2, 3} {
				k, err := marshal(&pb.AlarmMember{MemberID: id, Alarm: alarm})
				errs = append(errs, err, tx.Bucket(schema.Alarm.Name()).Put(k, nil))
			}
		}
		errs = append(errs, tx.Bucket(schema.Cluster.Name()).Put(schema.ClusterDowngradeKeyName, []byte(`{"target-version":"3.6.0","enabled":true}`)))
		return errors.Join(errs...)
	})
	check(t, Disk{}.Rebuild(t.Context(), dir, lone(), 0))
	got, err := Try(t.Context(), dir, lone(), s.revision, zap.NewNop())
	check(t, err)
	if want := []string{"CORRUPT", "CORRUPT", "CORRUPT"}; !slices.Equal(got.Alarms, want) {
		t.Errorf("alarms: got %q, want %q", got.Alarms, want)
	}
	edit(t, DatabasePath(dir), func(tx *bolt.Tx) error {
		if v := tx.Bucket(schema.Cluster.Name()).Get(schema.ClusterDowngradeKeyName); v != nil {
			t.Errorf("downgrade: got %s", v)
		}
		return nil
	})
}

// These are a database saved in the middle of a compaction, an empty one, and one of etcd 3.4, which has no members, no
// term and no versions.
func testRebuildOdd(t *testing.T, s source) {
	empty := found(t, "e")[0]
	emptyFile := filepath.Join(t.TempDir(), "db")
	saveTo(t, empty, emptyFile)
	stop(t, empty, 0)
	for name, c := range map[string]struct {
		file   string
		change func(tx *bolt.Tx) error
		bump   int64
		want   Trial
	}{
		"interrupted compaction": {s.file, scheduled(s.revision), 0, Trial{Revision: s.revision, CompactRevision: s.revision, Leases: 1}},
		"interrupted, bump":      {s.file, scheduled(s.revision), 7, Trial{Revision: s.revision + 7, CompactRevision: s.revision + 7, Leases: 1}},
		"compacted tombstone":    {s.file, scheduled(s.revision + 1), 7, Trial{Revision: s.revision + 8, CompactRevision: s.revision + 8, Leases: 1}},
		"empty":                  {emptyFile, func(*bolt.Tx) error { return nil }, 0, Trial{Revision: 1, CompactRevision: -1}},
		"empty, bump":            {emptyFile, func(*bolt.Tx) error { return nil }, 7, Trial{Revision: 8, CompactRevision: 8}},
		"3.4":                    {s.file, as34, 0, Trial{Revision: s.revision, CompactRevision: s.compacted, HashKV: s.hash, Leases: 1}},
	} {
		dir := place(t, c.file)
		edit(t, DatabasePath(dir), c.change)
		check(t, Disk{}.Rebuild(t.Context(), dir, lone(), c.bump))
		got, err := Try(t.Context(), dir, lone(), c.want.Revision, zap.NewNop())
		check(t, err)
		if c.want.HashKV == 0 {
			got.HashKV = 0
		}
		got.Keys = 0
		c.want.Members = 1
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func scheduled(revision int64) func(tx *bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		return tx.Bucket(schema.Meta.Name()).Put(schema.ScheduledCompactKeyName, mvcc.RevToBytes(mvcc.Revision{Main: revision}, mvcc.NewRevBytes()))
	}
}

// as34 removes what etcd 3.5 and 3.6 introduced (server/storage/schema/bucket.go).
func as34(tx *bolt.Tx) error {
	meta := tx.Bucket(schema.Meta.Name())
	return errors.Join(tx.DeleteBucket(schema.Cluster.Name()),
		meta.Delete(schema.MetaTermKeyName), meta.Delete(schema.MetaConfStateName), meta.Delete(schema.MetaStorageVersionName))
}

// Only the founders are left, all of them voters.
func testRebuildMembers(t *testing.T, s source) {
	dir := place(t, s.file)
	spec := lone()
	spec.Peers["y"] = "http://y.test.holdfast.internal:2380"
	check(t, Disk{Names{Member: "etcd-{slot}"}}.Rebuild(t.Context(), dir, spec, 0))
	edit(t, DatabasePath(dir), func(tx *bolt.Tx) error {
		if k, _ := tx.Bucket(schema.MembersRemoved.Name()).Cursor().First(); k != nil {
			t.Errorf("removed members: got %s", k)
		}
		var names []string
		err := tx.Bucket(schema.Members.Name()).ForEach(func(k, v []byte) error {
			var m membership.Member
			if err := json.Unmarshal(v, &m); err != nil {
				return err
			}
			names = append(names, m.Name)
			if m.IsLearner || m.ID.String() != string(k) {
				t.Errorf("member %s: got %+v", k, m)
			}
			return nil
		})
		slices.Sort(names)
		if want := []string{"etcd-x", "etcd-y"}; !slices.Equal(names, want) {
			t.Errorf("members: got %q, want %q", names, want)
		}
		return err
	})
}

// With two exceptions, the database equals the one that etcdutl makes. One is raft's configuration in it, which etcdutl
// leaves as the other cluster had it. The other is the versions, which need no change here.
func testRebuildAsEtcdutl(t *testing.T, s source) {
	spec := lone()
	theirs := filepath.Join(t.TempDir(), "etcd")
	check(t, snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: s.file, SkipHashCheck: true, OutputDataDir: theirs, Name: "x", PeerURLs: []string{spec.Peers["x"]},
		InitialCluster: initialCluster(spec.Peers), InitialClusterToken: spec.Token, RevisionBump: 5, MarkCompacted: true,
	}))
	ours := place(t, s.file)
	check(t, Disk{}.Rebuild(t.Context(), ours, spec, 5))
	want, got := dump(t, theirs), dump(t, ours)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: got %q, want %q", key, got[key], value)
		}
		delete(got, key)
	}
	for key, value := range got {
		t.Errorf("%s: got %q, want none", key, value)
	}
	for _, dir := range []string{theirs, ours} {
		check(t, verify.Verify(verify.Config{DataDir: dir, ExactIndex: true, Logger: zap.NewNop()}))
	}
	wantDir, err := (Disk{}).Inspect(theirs)
	check(t, err)
	if gotDir, err := (Disk{}).Inspect(ours); err != nil || gotDir != wantDir {
		t.Errorf("got %+v, %v, want %+v", gotDir, err, wantDir)
	}
	wantSnap, err := os.ReadFile(filepath.Join(datadir.ToSnapDir(theirs), "0000000000000001-0000000000000001.snap"))
	check(t, err)
	if gotSnap, err := os.ReadFile(filepath.Join(datadir.ToSnapDir(ours), "0000000000000001-0000000000000001.snap")); err != nil || len(gotSnap) != len(wantSnap) {
		t.Errorf("raft snapshot: got %d bytes, %v, want %d", len(gotSnap), err, len(wantSnap))
	}
}

// dump returns the whole content of a database except meta/confState.
func dump(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	edit(t, DatabasePath(dir), func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				if string(k) != string(schema.MetaConfStateName) {
					all[fmt.Sprintf("%s/%q", name, k)] = string(v)
				}
				return nil
			})
		})
	})
	return all
}
