//go:build !etcd36

package embedded

import (
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// etcd 3.7 generates its messages with google.golang.org/protobuf: optional fields, and messages in a list, are
// pointers. wire_36.go has the same functions for etcd 3.6, so that no other file depends on the version.

// logEntry is a raft entry in a list.
type logEntry = *raftpb.Entry

// field converts v to the type of a message's field.
func field[T any](v T) *T { return &v }

// value returns the value of a message's field, or the zero value if it is not set.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// message converts m to the type that etcd's functions take.
func message[T any](m *T) *T { return m }

func confChange(kind raftpb.ConfChangeType, id uint64, context []byte) *raftpb.ConfChange {
	return &raftpb.ConfChange{Type: &kind, NodeId: &id, Context: context}
}

// changed returns the ID of the member that a change is about.
func changed(c *raftpb.ConfChange) uint64 { return c.GetNodeId() }

// encoded is a message that marshal accepts.
type encoded = proto.Message

func marshal(m encoded) ([]byte, error)               { return proto.Marshal(m) }
func unmarshal(data []byte, into proto.Message) error { return proto.Unmarshal(data, into) }

// firstOf requests the first limit keys, and the total number of keys.
func firstOf(limit int64) mvcc.RangeOptions {
	return mvcc.RangeOptions{Limit: limit, WithTotalCount: true}
}

// term returns this member's term.
func term(s raft.Status) uint64 { return s.HardState.GetTerm() }

func commit(s raft.Status) uint64 { return s.HardState.GetCommit() }

// replaysV2: this etcd can replay entries that 3.4 and 3.5 wrote in the format of the v2 store.
const replaysV2 = false
