//go:build !etcd36

package embedded

import (
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// etcd 3.7 generates its messages with google.golang.org/protobuf: fields that a message need not have are pointers,
// and so is a message in a list. wire_36.go says the same of etcd 3.6, so that nothing else has to know.

// logEntry is a raft entry as a list has it.
type logEntry = *raftpb.Entry

// field is v as a message holds it.
func field[T any](v T) *T { return &v }

// value is what a field of a message says, its zero value where the message does not have it.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// message is m as etcd wants to be given it.
func message[T any](m *T) *T { return m }

func confChange(kind raftpb.ConfChangeType, id uint64, context []byte) *raftpb.ConfChange {
	return &raftpb.ConfChange{Type: &kind, NodeId: &id, Context: context}
}

// changed is the ID of the member that a change is about.
func changed(c *raftpb.ConfChange) uint64 { return c.GetNodeId() }

// encoded is a message that can be written.
type encoded = proto.Message

func marshal(m encoded) ([]byte, error)               { return proto.Marshal(m) }
func unmarshal(data []byte, into proto.Message) error { return proto.Unmarshal(data, into) }

// firstOf asks for so many keys, and how many there are in all.
func firstOf(limit int64) mvcc.RangeOptions {
	return mvcc.RangeOptions{Limit: limit, WithTotalCount: true}
}

// term is the member's.
func term(s raft.Status) uint64 { return s.HardState.GetTerm() }

func commit(s raft.Status) uint64 { return s.HardState.GetCommit() }

// replaysV2: this etcd can replay what 3.4 and 3.5 have written in the format of the v2 store.
const replaysV2 = false
