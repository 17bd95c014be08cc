package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/embedded/plan"
)

// makeWAL writes a WAL with the given entries, commits all of them, and returns it open.
func makeWAL(t *testing.T, dir string, entries ...logEntry) *wal.WAL {
	t.Helper()
	meta, err := marshal(&pb.Metadata{NodeID: field(uint64(7)), ClusterID: field(uint64(8))})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(datadir.ToSnapDir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := wal.Create(nil, datadir.ToWALDir(dir), meta)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	save(t, w, entries...)
	return w
}

func save(t *testing.T, w *wal.WAL, entries ...logEntry) {
	t.Helper()
	if len(entries) == 0 {
		return
	}
	last := entries[len(entries)-1]
	state := &raftpb.HardState{Term: last.Term, Vote: field(uint64(7)), Commit: last.Index}
	if err := w.Save(message(state), entries); err != nil {
		t.Fatal(err)
	}
}

func entry(term, index uint64, data []byte) logEntry {
	return message(&raftpb.Entry{Term: field(term), Index: field(index), Type: field(raftpb.EntryNormal), Data: data})
}

func request(t *testing.T) []byte {
	t.Helper()
	data, err := marshal(&pb.InternalRaftRequest{Header: &pb.RequestHeader{ID: 1}, Put: &pb.PutRequest{Key: []byte("k")}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// v2Request is the request with which etcd 3.5 publishes a member's attributes: etcdserverpb.Request {1: ID, 2: method,
// 3: path, 4: value}.
func v2Request() []byte {
	b := protowire.AppendTag(nil, 1, protowire.VarintType)
	b = protowire.AppendVarint(b, 42)
	for i, s := range []string{"PUT", "/0/members/8e9e05c52164694d/attributes", `{"name":"a"}`} {
		b = protowire.AppendTag(b, protowire.Number(2+i), protowire.BytesType)
		b = protowire.AppendString(b, s)
	}
	return b
}

func TestCheckWAL(t *testing.T) {
	good := request(t)
	for name, tc := range map[string]struct {
		entries []logEntry
		want    string // in the error
	}{
		"good":               {[]logEntry{entry(1, 1, nil), entry(1, 2, good)}, ""},
		"v2":                 {[]logEntry{entry(1, 1, v2Request()), entry(1, 2, good), entry(1, 3, v2Request()), entry(1, 4, good)}, "has 2 of etcd 3.5 or older, the last at index 3"},
		"v2 overwritten":     {[]logEntry{entry(1, 1, good), entry(1, 2, v2Request()), entry(2, 2, good)}, ""},
		"request with no ID": {[]logEntry{entry(1, 1, []byte{0x22, 0})}, "has 1 of"},
	} {
		if replaysV2 {
			tc.want = ""
		}
		dir := t.TempDir()
		makeWAL(t, dir, tc.entries...)
		err := checkWAL(dir)
		if (err == nil) != (tc.want == "") || (err != nil && (!errors.Is(err, ErrOldWAL) || !regexp.MustCompile(tc.want).MatchString(err.Error()))) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
	if err := checkWAL(t.TempDir()); err != nil {
		t.Errorf("no WAL: %v", err)
	}
}

// Entries before the last raft snapshot are never replayed.
func TestCheckWALSkipsBeforeSnapshot(t *testing.T) {
	dir := t.TempDir()
	w := makeWAL(t, dir, entry(1, 1, v2Request()), entry(1, 2, request(t)))
	if err := w.SaveSnapshot(message(&walpb.Snapshot{Index: field(uint64(2)), Term: field(uint64(1)), ConfState: &raftpb.ConfState{}})); err != nil {
		t.Fatal(err)
	}
	save(t, w, entry(1, 3, request(t)))
	if err := checkWAL(dir); err != nil {
		t.Error(err)
	}
	if replaysV2 {
		return // all of it
	}
	save(t, w, entry(1, 4, v2Request()))
	if err := checkWAL(dir); !errors.Is(err, ErrOldWAL) {
		t.Errorf("got %v, want ErrOldWAL", err)
	}
	n := newNode(t, "a")
	n.spec.DataDir = dir
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.begin(t); !errors.Is(err, ErrOldWAL) {
		t.Errorf("start: got %v, want ErrOldWAL", err)
	}
}

func TestInspect(t *testing.T) {
	dir := t.TempDir()
	check := func(name string, want plan.DataDir) {
		t.Helper()
		if got, err := (Disk{}).Inspect(dir); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	check("empty", plan.DataDir{})
	dir = filepath.Join(dir, "none")
	check("absent", plan.DataDir{})
	if err := os.MkdirAll(datadir.ToSnapDir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	check("no database yet", plan.DataDir{})
	if err := os.WriteFile(datadir.ToBackendFileName(dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("database without WAL", plan.DataDir{})
	want := plan.DataDir{WAL: true, Unborn: true, Member: 7, ClusterID: 8}
	w := makeWAL(t, dir)
	check("new WAL", want)
	save(t, w, entry(1, 1, nil), entry(1, 2, request(t)), entry(1, 3, request(t)))
	want.Unborn, want.Log, want.Term = false, plan.LogEnd{Term: 1, Index: 3}, 1
	check("entries", want)
	save(t, w, entry(2, 2, request(t)))
	want.Log, want.Term = plan.LogEnd{Term: 2, Index: 2}, 2
	check("overwritten by a later leader", want)

	snap := &walpb.Snapshot{Index: field(uint64(90)), Term: field(uint64(3)), ConfState: &raftpb.ConfState{}}
	if err := w.SaveSnapshot(message(snap)); err != nil {
		t.Fatal(err)
	}
	check("snapshot not committed", want)
	if err := w.Save(message(&raftpb.HardState{Term: field(uint64(3)), Vote: field(uint64(7)), Commit: field(uint64(90))}), nil); err != nil {
		t.Fatal(err)
	}
	want.Log, want.Term = plan.LogEnd{Term: 3, Index: 90}, 3
	check("snapshot from the leader", want)
	save(t, w, entry(3, 91, request(t)))
	want.Log.Index = 91
	check("entry after the snapshot", want)
}

// A data directory that cannot be read, at whatever level, is an error, and does not count as one without a log.
func TestInspectUnreadable(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"it is a file":           func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"it is a link to itself": func(dir string) error { return os.Symlink(dir, dir) },
		"a file in place of member": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "member"), nil, 0o600))
		},
		"a file in place of the WAL": func(dir string) error {
			return errors.Join(os.MkdirAll(datadir.ToSnapDir(dir), 0o700), os.WriteFile(datadir.ToWALDir(dir), nil, 0o600))
		},
		"a file in place of snap": func(dir string) error {
			return errors.Join(os.MkdirAll(datadir.ToWALDir(dir), 0o700), os.WriteFile(datadir.ToSnapDir(dir), nil, 0o600))
		},
	} {
		dir := filepath.Join(t.TempDir(), "etcd")
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		if got, err := (Disk{}).Inspect(dir); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestInspectSeveralFiles(t *testing.T) {
	defer func(n int64) { wal.SegmentSizeBytes = n }(wal.SegmentSizeBytes)
	wal.SegmentSizeBytes = 4096
	dir := t.TempDir()
	w := makeWAL(t, dir)
	for i := range uint64(50) {
		save(t, w, entry(4, i+1, make([]byte, 1000)))
		if got, err := (Disk{}).Inspect(dir); err != nil || got.Log.Index != i+1 || got.Log.Term != 4 || got.Term != 4 || got.Member != 7 {
			t.Fatalf("entry %d: got %+v, %v", i+1, got, err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(datadir.ToWALDir(dir), "*.wal")); len(files) < 5 {
		t.Errorf("files: got %d, want several", len(files))
	}
}

func TestInspectDamagedWAL(t *testing.T) {
	dir := t.TempDir()
	makeWAL(t, dir, entry(1, 1, request(t))).Close()
	files, _ := filepath.Glob(filepath.Join(datadir.ToWALDir(dir), "*.wal"))
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[30] ^= 0xff
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (Disk{}).Inspect(dir); err == nil {
		t.Errorf("got %+v, want an error", got)
	}
}

func FuzzInspect(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 600))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.MkdirAll(datadir.ToWALDir(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(datadir.ToWALDir(dir), "0000000000000000-0000000000000000.wal"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := (Disk{}).Inspect(dir); err == nil && !got.WAL {
			t.Errorf("got %+v", got)
		}
	})
}

func FuzzReplayable(f *testing.F) {
	f.Add(v2Request())
	f.Add([]byte{0x22, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, ok := replayable(data); ok && len(data) > 0 && unmarshal(data, &pb.InternalRaftRequest{}) != nil {
			t.Error("etcd would panic")
		}
	})
}

func TestSetAside(t *testing.T) {
	volume := t.TempDir()
	dir := filepath.Join(volume, "etcd")
	if got, err := (Disk{}).SetAside(dir, "removed"); got != "" || err != nil {
		t.Errorf("nothing there: got %q, %v", got, err)
	}
	for _, reason := range []string{"", "a/b", "..", "A", "-", "a--b", "a b"} {
		if _, err := (Disk{}).SetAside(dir, reason); err == nil {
			t.Errorf("reason %q was taken", reason)
		}
	}
	seen := map[string]bool{}
	for range 3 {
		if err := os.MkdirAll(datadir.ToSnapDir(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		got, err := (Disk{}).SetAside(dir, "newer-generation")
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^aside/\d+-newer-generation(-\d+)?$`).MatchString(got[len(volume)+1:]) || seen[got] {
			t.Errorf("new path: got %q", got)
		}
		seen[got] = true
		if _, err := os.Stat(datadir.ToSnapDir(got)); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("still there: %v", err)
		}
	}
}
