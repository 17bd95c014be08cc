package embedded

import (
	"reflect"
	"time"
	"unsafe"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
)

// Connected reports whether raft messages flow to the member with that ID, and since when:
// the very fact by which etcd judges the cluster healthy (5 s) before it changes members.
func (m *Member) Connected(id uint64) (since time.Time, ok bool) {
	l, err := m.running()
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

// raftTransport digs raft's transport out of the server. etcd 3.7 exports no way to it, the
// gauge etcd_network_active_peers does not tell since when, and a dial of our own would say
// something else than what etcd decides by. The field is set before the server is returned
// and never again, and ActiveSince locks. If a later etcd moves it this returns nil, nobody
// counts as connected, and TestConnected fails.
func raftTransport(srv *etcdserver.EtcdServer) rafthttp.Transporter {
	node := reflect.ValueOf(srv).Elem().FieldByName("r")
	if !node.IsValid() || node.Kind() != reflect.Struct {
		return nil
	}
	field := node.FieldByName("transport")
	if !field.IsValid() || field.Type() != reflect.TypeFor[rafthttp.Transporter]() {
		return nil
	}
	return *(*rafthttp.Transporter)(unsafe.Pointer(field.UnsafeAddr()))
}
