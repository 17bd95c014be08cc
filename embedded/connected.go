package embedded

import (
	"context"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Leads reports whether this member leads, as Status does, but asks neither raft's loop nor a disk.
func (c Cluster) Leads() bool {
	l, err := c.running()
	return err == nil && l.etcd.Server.Leader() == l.etcd.Server.MemberID()
}

// Connected reports whether raft messages flow to the member with that ID. etcd uses the same fact (connected for 5 s)
// to judge the cluster healthy before it changes members. On a leader, the member must also answer heartbeats: the
// kernel keeps the connections of a suspended process open, so only the missing answers give such a member away.
func (c Cluster) Connected(id uint64) bool {
	l, err := c.running()
	if err != nil {
		return false
	}
	srv, of := l.etcd.Server, types.ID(id)
	_, ok := connectedSince(srv, of)
	if srv.Leader() != srv.MemberID() {
		l.answers.forget()
		return ok
	}
	missing := l.answers.missing(of, received(of), electionTimeout(srv))
	if l.answers.unseen(of, !ok && !missing) {
		go reattach(srv, of) // ends with the stream, which the member replaces
	}
	return !missing && ok
}

// Heard returns the members that have answered this leader since the call, nil unless it leads. It waits for those that
// count as connected, for less than the one election timeout for which raft itself still counts a silent member.
// Connected takes longer to tell, because there a slow member must not lose its place.
func (c Cluster) Heard(ctx context.Context) (ids []uint64) {
	l, err := c.running()
	if err != nil {
		return nil
	}
	srv := l.etcd.Server
	marks := map[types.ID]float64{}
	for _, m := range c.list() {
		if c.Connected(uint64(m.ID)) {
			marks[m.ID] = received(m.ID)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, electionTimeout(srv)*3/4)
	defer cancel()
	for srv.Leader() == srv.MemberID() {
		for id, mark := range marks {
			if received(id) != mark {
				ids = append(ids, uint64(id))
				delete(marks, id)
			}
		}
		if len(marks) == 0 || ctx.Err() != nil {
			return ids
		}
		select {
		case <-ctx.Done():
		case <-time.After(heardPoll):
		}
	}
	return nil
}

// heardPoll is how often Heard looks. Heartbeats are 100 ms apart by default.
const heardPoll = 10 * time.Millisecond

func electionTimeout(srv *etcdserver.EtcdServer) time.Duration {
	return time.Duration(srv.Cfg.ElectionTicks) * time.Duration(srv.Cfg.TickMs) * time.Millisecond
}

// answers tracks for how long each member has not answered the leader's heartbeats. It looks at the counter of the
// bytes received from the member.
type answers struct {
	mu     sync.Mutex
	of     map[types.ID]*still
	hidden map[types.ID]time.Time // since when a member answers although etcd calls it inactive
}

// unanswered is the number of election timeouts after which a silent member no longer counts. Raft itself waits for
// one, but its verdict costs only an election. Ours costs the member its place in the status, which a member that is
// merely slow should keep.
const unanswered = 3

// missing reports whether the mark of a member has not changed for unanswered election timeouts. A gap between two
// calls counts as one election timeout at most.
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

// hiddenFor is how long a member must answer although etcd calls it inactive, before its stream is renewed. A member
// that has just started or gone is in that state for less.
const hiddenFor = 5 * time.Second

// unseen reports whether a member has been hidden at every call for hiddenFor, and then not again for as long.
func (a *answers) unseen(id types.ID, hidden bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !hidden {
		delete(a.hidden, id)
		return false
	}
	if a.hidden == nil {
		a.hidden = map[types.ID]time.Time{}
	}
	since, known := a.hidden[id]
	if known && time.Since(since) < hiddenFor {
		return false
	}
	a.hidden[id] = time.Now()
	return known
}

// forget starts over. Only a leader's heartbeats are answered.
func (a *answers) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of = nil
	a.hidden = nil
}

// reattach makes etcd see that a member is connected. etcd calls a member inactive when one request to it fails, and
// active again only when a stream between the two begins (etcd-io/etcd #14523). A request that went to the machine that
// the member has left may fail long after the streams to the member have begun. Until one of them breaks, etcd then
// refuses changes of members, and so does the plan. So reattach ends the stream on which this member sends, by taking
// its place: the other one begins it again within 100 ms. raft sends again what is lost. Where the member cannot be
// dialled, etcd is right.
func reattach(srv *etcdserver.EtcdServer, id types.ID) {
	tr, ok := raftTransport(srv).(*rafthttp.Transport)
	r, err := http.NewRequest(http.MethodGet, rafthttp.RaftStreamPrefix+"/message/"+id.String(), nil)
	if !ok || err != nil || !dials(tr, srv.Cluster().Member(id)) {
		return
	}
	for name, value := range map[string]string{
		"X-Server-From": id.String(), "X-Raft-To": srv.MemberID().String(), "X-Etcd-Cluster-ID": srv.Cluster().ID().String(),
		"X-Server-Version": version.Version, "X-Min-Cluster-Version": version.MinClusterVersion,
	} {
		r.Header.Set(name, value)
	}
	tr.Handler().ServeHTTP(broken{}, r)
}

// dials reports whether the member answers at one of its peer URLs, as etcd asks it.
func dials(tr *rafthttp.Transport, m *membership.Member) bool {
	rt, err := rafthttp.NewRoundTripper(tr.TLSInfo, tr.DialTimeout)
	if err != nil || m == nil {
		return false
	}
	client := http.Client{Transport: rt, Timeout: hiddenFor}
	defer client.CloseIdleConnections()
	return slices.ContainsFunc(m.PeerURLs, func(url string) bool {
		answer, err := client.Get(url + rafthttp.ProbingPrefix)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	})
}

// broken is a connection on which nothing can be sent.
type broken struct{}

func (broken) Header() http.Header       { return http.Header{} }
func (broken) WriteHeader(int)           {}
func (broken) Flush()                    {}
func (broken) Write([]byte) (int, error) { return 0, net.ErrClosed }

func connectedSince(srv *etcdserver.EtcdServer, id types.ID) (time.Time, bool) {
	tr := raftTransport(srv)
	if tr == nil {
		return time.Time{}, false
	}
	since := tr.ActiveSince(id)
	return since, !since.IsZero()
}

// leads returns the term in which this member leads, and the progress of each member's log by ID; 0 and nil if it does
// not lead. What a member acknowledges (Match) is fsynced on its disk, together with the term. It stays known while the
// member is away.
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

// raftNode returns raft itself, whose Status asks raft's own loop. It returns nil if a later etcd moves the field. Then
// nothing is known of any member, and TestProgress fails.
var raftNode = dig[raft.Node]("Node")

// raftTransport returns raft's transport. The gauge etcd_network_active_peers does not say since when, and a connection
// of our own would show something else than what etcd decides by. ActiveSince locks. It returns nil if a later etcd
// moves the field. Then no member counts as connected, and TestConnected fails.
var raftTransport = dig[rafthttp.Transporter]("transport")

// dig returns a function that reads a private field of the server's raft node, which etcd 3.7 does not export. The
// function returns the zero value if there is no field of this name and type. etcd sets these fields before it returns
// the server and never changes them. The offset is computed once, because the campaigner reads many times a second.
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
