package embedded

import (
	"reflect"
	"time"
	"unsafe"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Connected reports whether raft messages flow to the member with that ID, and since when:
// the very fact by which etcd judges the cluster healthy (5 s) before it changes members.
func (c Cluster) Connected(id uint64) (since time.Time, ok bool) {
	l, err := c.running()
	if err != nil {
		return time.Time{}, false
	}
	return connectedSince(l.etcd.Server, types.ID(id))
}

func connectedSince(srv *etcdserver.EtcdServer, id types.ID) (time.Time, bool) {
	tr := raftTransport(srv)
	if tr == nil {
		return time.Time{}, false
	}
	since := tr.ActiveSince(id)
	return since, !since.IsZero()
}

// Progress is how far a member's log is, as the leader's raft sees it.
type Progress struct {
	// Matched is up to which index it agrees with the leader's in this term: what a member acknowledges is on its disk,
	// fsync'd, together with the term. 0: it has acknowledged nothing in this term. It stays known while the member is
	// away.
	Matched   uint64
	Receiving bool // it is being sent a whole database
}

// Progress tells of all members, by ID, and in which term this member leads; nil and 0 unless it does.
func (c Cluster) Progress() (all map[uint64]Progress, leads uint64) {
	l, err := c.running()
	if err != nil {
		return nil, 0
	}
	node := raftNode(l.etcd.Server)
	if node == nil {
		return nil, 0
	}
	s := node.Status()
	if s.RaftState != raft.StateLeader {
		return nil, 0
	}
	all = make(map[uint64]Progress, len(s.Progress))
	for id, p := range s.Progress {
		all[id] = Progress{Matched: p.Match, Receiving: p.State == tracker.StateSnapshot}
	}
	return all, term(s)
}

// raftNode is raft itself; its Status asks raft's own loop. nil if a later etcd moves it: then nothing is known of any
// member, and TestProgress fails.
func raftNode(srv *etcdserver.EtcdServer) raft.Node { return dig[raft.Node](srv, "Node") }

// raftTransport is raft's transport. The gauge etcd_network_active_peers does not tell since when, and a dial of our
// own would say something else than what etcd decides by. ActiveSince locks. nil if a later etcd moves it: then nobody
// counts as connected, and TestConnected fails.
func raftTransport(srv *etcdserver.EtcdServer) rafthttp.Transporter {
	return dig[rafthttp.Transporter](srv, "transport")
}

// dig takes a field of the server's raft node, to which etcd 3.7 exports no way: nil if there is none of this name and
// type. The fields asked for are set before the server is returned and never again.
func dig[T any](srv *etcdserver.EtcdServer, name string) (found T) {
	node := reflect.ValueOf(srv).Elem().FieldByName("r")
	if !node.IsValid() || node.Kind() != reflect.Struct {
		return found
	}
	field := node.FieldByName(name)
	if !field.IsValid() || field.Type() != reflect.TypeFor[T]() {
		return found
	}
	return *(*T)(unsafe.Pointer(field.UnsafeAddr()))
}
