//go:build etcd36

package embedded

import (
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
)

// etcd 3.6 generates its messages with gogo/protobuf: fields, and messages in a list, are values. See wire_37.go.

type logEntry = raftpb.Entry

func field[T any](v T) T { return v }

func value[T any](v T) T { return v }

func message[T any](m *T) T { return *m }

func confChange(kind raftpb.ConfChangeType, id uint64, context []byte) *raftpb.ConfChange {
	return &raftpb.ConfChange{Type: kind, NodeID: id, Context: context}
}

// changed returns the ID of the member that a change is about.
func changed(c *raftpb.ConfChange) uint64 { return c.NodeID }

// encoded is a message that marshal accepts.
type encoded = interface{ Marshal() ([]byte, error) }

func marshal(m encoded) ([]byte, error) { return m.Marshal() }

func unmarshal(data []byte, into interface{ Unmarshal([]byte) error }) error {
	return into.Unmarshal(data)
}

func firstOf(limit int64) mvcc.RangeOptions { return mvcc.RangeOptions{Limit: limit} }

func term(s raft.Status) uint64 { return s.Term }

func commit(s raft.Status) uint64 { return s.Commit }

// replaysV2: this etcd can replay entries that 3.4 and 3.5 wrote in the format of the v2 store.
const replaysV2 = true

// codecOptions leaves the codec to etcd: gRPC's is made for other messages.
func codecOptions() []grpc.ServerOption { return nil }
