package embedded

import (
	"reflect"
	"sync"
	"time"
	"unsafe"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Connected reports whether raft messages flow to the member with that ID, and since when: the very fact by which etcd
// judges the cluster healthy (5 s) before it changes members. A leader asks for more: that the member answers.
func (c Cluster) Connected(id uint64) (since time.Time, ok bool) {
	l, err := c.running()
	if err != nil {
		return time.Time{}, false
	}
	return l.connected(types.ID(id))
}

// connected is Connected of a member that runs. The kernel keeps the streams of a process that is suspended, as if
// nothing were wrong with it; but it answers no heartbeat.
func (l *life) connected(id types.ID) (time.Time, bool) {
	srv := l.etcd.Server
	since, ok := connectedSince(srv, id)
	if srv.Leader() != srv.MemberID() {
		l.answers.forget()
		return since, ok
	}
	election := time.Duration(srv.Cfg.ElectionTicks) * time.Duration(srv.Cfg.TickMs) * time.Millisecond
	if l.answers.missing(id, received(id), election) {
		return time.Time{}, false
	}
	return since, ok
}

// answers knows for how long a leader has looked in vain for something from another member, which answers each
// heartbeat: from the counter of the bytes that have come from it.
type answers struct {
	mu sync.Mutex
	of map[types.ID]*still
}

// unanswered is after how many election timeouts without an answer a member does not count. Raft waits for one, but
// what it decides then costs an election, not a place in the status: a member that is only slow should keep that.
const unanswered = 3

// missing reports whether a member's mark was seen not to change for unanswered elections, of which a gap between two
// looks counts for one at most.
func (a *answers) missing(id types.ID, mark float64, election time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[types.ID]*still{}
	}
	if a.of[id] == nil {
		a.of[id] = &still{mark: unknown}
	}
	return a.of[id].look(mark, election) >= unanswered*election
}

// forget begins again: only a leader is answered.
func (a *answers) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of = nil
}

func connectedSince(srv *etcdserver.EtcdServer, id types.ID) (time.Time, bool) {
	tr := raftTransport(srv)
	if tr == nil {
		return time.Time{}, false
	}
	since := tr.ActiveSince(id)
	return since, !since.IsZero()
}

// leads tells in which term this member leads, and how far each member's log is, by ID: 0 and nil unless it does. What a
// member acknowledges (Match) is on its disk, fsync'd, together with the term, and stays known while the member is away.
func (l *life) leads() (in uint64, logs map[uint64]tracker.Progress) {
	node := raftNode(l.etcd.Server)
	if node == nil {
		return 0, nil
	}
	s := node.Status()
	if s.RaftState != raft.StateLeader {
		return 0, nil
	}
	return term(s), s.Progress
}

// raftNode is raft itself; its Status asks raft's own loop. nil if a later etcd moves it: then nothing is known of any
// member, and TestProgress fails.
var raftNode = dig[raft.Node]("Node")

// raftTransport is raft's transport. The gauge etcd_network_active_peers does not tell since when, and a dial of our
// own would say something else than what etcd decides by. ActiveSince locks. nil if a later etcd moves it: then nobody
// counts as connected, and TestConnected fails.
var raftTransport = dig[rafthttp.Transporter]("transport")

// dig returns what takes a field of the server's raft node, to which etcd 3.7 exports no way: nil if there is none of
// this name and type. The fields asked for are set before the server is returned and never again. Where a field lies is
// found out once: the campaigner looks many times a second.
func dig[T any](name string) func(*etcdserver.EtcdServer) T {
	none := func(*etcdserver.EtcdServer) (none T) { return none }
	at, ok := reflect.TypeFor[etcdserver.EtcdServer]().FieldByName("r")
	if !ok || at.Type.Kind() != reflect.Struct {
		return none
	}
	field, ok := at.Type.FieldByName(name)
	if !ok || field.Type != reflect.TypeFor[T]() {
		return none
	}
	offset := at.Offset
	for t, path := at.Type, field.Index; len(path) > 0; path = path[1:] { // it may be a field of an embedded struct
		if t.Kind() != reflect.Struct {
			return none
		}
		f := t.Field(path[0])
		offset, t = offset+f.Offset, f.Type
	}
	return func(srv *etcdserver.EtcdServer) T { return *(*T)(unsafe.Add(unsafe.Pointer(srv), offset)) }
}
