package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap/zaptest"
	"google.golang.org/protobuf/proto"
)

// The checker can read a log with alarms: it finds all that was carried out and nothing else, also where a member was
// killed while it wrote.
func TestEmptyAlarms(t *testing.T) {
	member, lg := t.TempDir(), zaptest.NewLogger(t)
	dir := filepath.Join(member, "member", "wal")
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	before := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = 512 // so that there are several files
	t.Cleanup(func() { wal.SegmentSizeBytes = before })
	w, err := wal.Create(lg, dir, []byte("metadata"))
	if err != nil {
		t.Fatal(err)
	}
	const rounds, kept = 40, 4 * 40
	index := uint64(0)
	put := func(key string) *pb.InternalRaftRequest {
		return &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte(key)}}
	}
	alarm := func(action pb.AlarmRequest_AlarmAction, member uint64) *pb.InternalRaftRequest {
		return &pb.InternalRaftRequest{Alarm: &pb.AlarmRequest{Action: action, Alarm: pb.AlarmType_NOSPACE, MemberID: member}}
	}
	op := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("refused")}}}
	deletion := &pb.InternalRaftRequest{DeleteRange: &pb.DeleteRangeRequest{Key: []byte("kept")}}
	for range rounds {
		for _, r := range []*pb.InternalRaftRequest{
			put("kept"), alarm(pb.AlarmRequest_ACTIVATE, 1), put("refused"), deletion, {LeaseGrant: &pb.LeaseGrantRequest{ID: 9}},
			alarm(pb.AlarmRequest_ACTIVATE, 2), {Txn: &pb.TxnRequest{Failure: []*pb.RequestOp{op}}}, {Txn: &pb.TxnRequest{}},
			alarm(pb.AlarmRequest_DEACTIVATE, 1), put("refused"), alarm(pb.AlarmRequest_DEACTIVATE, 2), put("kept"),
		} {
			data, err := proto.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			index++
			e := &raftpb.Entry{Index: proto.Uint64(index), Term: proto.Uint64(1), Type: raftpb.EntryNormal.Enum(), Data: data}
			state := &raftpb.HardState{Term: proto.Uint64(1), Vote: proto.Uint64(1), Commit: proto.Uint64(index)}
			if err := w.Save(state, []*raftpb.Entry{e}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(files) < 3 {
		t.Fatalf("the log has the files %v, %v", files, err)
	}
	if err := emptyAlarms(lg, []string{member}); err != nil {
		t.Fatal(err)
	}
	read := func() int {
		t.Helper()
		requests, err := report.PersistedRequests(lg, []string{member})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range requests {
			if text := fmt.Sprintf("%+v", r.Txn); r.Txn == nil || strings.Contains(text, "refused") {
				t.Errorf("request %d is %+v", i, r)
			}
		}
		return len(requests)
	}
	if got := read(); got != kept {
		t.Errorf("%d requests are in the log, want %d", got, kept)
	}

	// What follows a torn record stays unchanged.
	last := files[len(files)-1]
	data, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	torn := append(record{kind: entryRecord, sum: 1, data: make([]byte, 1024)}.append(nil), make([]byte, 512)...)
	end := len(data)
	for end > 0 && data[end-1] == 0 {
		end--
	}
	end += -end & 7
	if err := os.WriteFile(last, append(data[:end:end], torn...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := emptyAlarms(lg, []string{member}); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != kept {
		t.Errorf("%d requests are in the log whose end is torn, want %d", got, kept)
	}
}
