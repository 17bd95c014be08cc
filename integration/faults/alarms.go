package faults

import (
	bits "encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A member whose disk is full raises the alarm NOSPACE. etcd's checker does not know this log entry, and panics. It
// also takes every log entry for a request that was carried out, but etcd refuses writes while the alarm is up. So
// both kinds of entries are emptied in the copies of the logs; raft's own entries are empty as well.

// The kinds of records in a log that matter here (server/storage/wal/wal.go).
const (
	entryRecord = 2
	sumRecord   = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sums are the running checksum of a log: that of the original, and that of the changed log.
type sums struct{ was, is uint32 }

// entry identifies an entry of the log, the same on all members.
type entry struct{ term, index uint64 }

// emptyAlarms empties, in the members' logs, the entries about alarms and those that were refused because of an alarm.
func emptyAlarms(lg *zap.Logger, members []string) error {
	void := map[entry]bool{}
	for _, m := range members {
		_, entries, err := report.ReadWAL(lg, m)
		if err != nil { // the member ended when it had just begun its log; the checker skips such a log
			continue
		}
		mark(void, entries)
	}
	if len(void) == 0 {
		return nil
	}
	for _, m := range members {
		if err := empty(filepath.Join(m, "member", "wal"), void); err != nil {
			return err
		}
	}
	return nil
}

// mark adds the entries to empty to void. Only a log that begins with the first entry shows which alarms are up.
func mark(void map[entry]bool, entries []*raftpb.Entry) {
	up := map[uint64]bool{} // NOSPACE, by member
	for _, e := range entries {
		var r pb.InternalRaftRequest
		if e.GetType() != raftpb.EntryNormal || proto.Unmarshal(e.Data, &r) != nil {
			continue
		}
		id := entry{e.GetTerm(), e.GetIndex()}
		switch a := r.Alarm; {
		case a == nil:
			if len(up) > 0 && writes(&r) {
				void[id] = true
			}
			continue
		case a.Alarm == pb.AlarmType_NOSPACE && a.Action == pb.AlarmRequest_ACTIVATE && entries[0].GetIndex() == 1:
			up[a.MemberID] = true
		case a.Alarm == pb.AlarmType_NOSPACE && a.Action == pb.AlarmRequest_DEACTIVATE:
			delete(up, a.MemberID)
		}
		void[id] = true
	}
}

// writes reports whether a request is one that etcd refuses while NOSPACE is up (server/etcdserver/apply,
// applierV3Capped).
func writes(r *pb.InternalRaftRequest) bool {
	return r.Put != nil || r.LeaseGrant != nil || r.Txn != nil && puts(r.Txn)
}

func puts(txn *pb.TxnRequest) bool {
	return slices.ContainsFunc(slices.Concat(txn.Success, txn.Failure), func(op *pb.RequestOp) bool {
		return op.GetRequestPut() != nil || op.GetRequestTxn() != nil && puts(op.GetRequestTxn())
	})
}

// empty empties the void entries of the log in a directory.
func empty(dir string, void map[entry]bool) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	var s sums
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		out, err := s.empty(data, void)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, out, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// empty returns a file of a log with the void entries emptied. After the first incomplete record, which a killed member
// leaves behind, the file is unchanged.
func (s *sums) empty(file []byte, void map[entry]bool) (out []byte, err error) {
	for len(file) >= 8 {
		length := bits.LittleEndian.Uint64(file) // the highest byte has the number of padding bytes
		size, fill := length&^(0xff<<56), length>>56&7
		if length == 0 || size+fill > uint64(len(file)-8) {
			break
		}
		r, whole := readRecord(file[8 : 8+size])
		if whole && r.kind == sumRecord {
			if len(out) > 0 || s.was != 0 {
				r.sum = s.is
			} else {
				s.was, s.is = r.sum, r.sum
			}
		} else {
			s.was = crc32.Update(s.was, castagnoli, r.data)
			if !whole || r.sum != s.was {
				break
			}
			if r.kind == entryRecord {
				if r.data, err = emptied(r.data, void); err != nil {
					return nil, err
				}
			}
			s.is = crc32.Update(s.is, castagnoli, r.data)
			r.sum = s.is
		}
		out = r.append(out)
		file = file[8+size+fill:]
	}
	return append(out, file...), nil
}

// emptied returns an entry of the log, without its data if it is void.
func emptied(data []byte, void map[entry]bool) ([]byte, error) {
	var e raftpb.Entry
	if err := proto.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("read an entry: %w", err)
	}
	if !void[entry{e.GetTerm(), e.GetIndex()}] {
		return data, nil
	}
	e.Data = nil
	return proto.Marshal(&e)
}

// record is a record of a log (walpb.Record).
type record struct {
	kind uint64
	sum  uint32
	data []byte // nil: it has none
}

func readRecord(b []byte) (r record, whole bool) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return r, false
		}
		b = b[n:]
		switch {
		case kind == protowire.VarintType && field <= 2:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); field == 1 {
				r.kind = v
			} else {
				r.sum = uint32(v)
			}
		case kind == protowire.BytesType && field == 3:
			r.data, n = protowire.ConsumeBytes(b)
		default:
			return r, false
		}
		if n < 0 {
			return r, false
		}
		b = b[n:]
	}
	return r, true
}

// append adds the record to a file in etcd's framing.
func (r record) append(file []byte) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), r.kind)
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(r.sum))
	if r.data != nil {
		b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), r.data)
	}
	length, fill := uint64(len(b)), -len(b)&7
	if fill > 0 {
		length |= uint64(0x80|fill) << 56
	}
	return append(append(bits.LittleEndian.AppendUint64(file, length), b...), make([]byte, fill)...)
}
