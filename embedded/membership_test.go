package embedded

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/raft/v3/raftpb"

	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
)

func TestLearnerJoinsAndIsRemoved(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	a := found(t, "a")[0]
	put(t, a.client(t), "k", "v")
	b := newNode(t, "b")
	id, err := a.AddLearner(soon(t), b.spec.PeerURL)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Promote(soon(t), id); !errors.Is(err, plan.ErrNotReady) {
		t.Errorf("promote a learner that never ran: got %v, want plan.ErrNotReady", err)
	}
	if err := a.Promote(soon(t), id+1); !errors.Is(err, errNotFound) {
		t.Errorf("promote nobody: got %v, want errNotFound", err)
	}
	b.spec.Join = true
	b.spec.Peers = map[string]string{"a": a.spec.PeerURL, "b": b.spec.PeerURL}
	b.run(t).awaitReady(t)
	await(t, "b knows that it is a learner", func() bool { s := b.Status(); return s.Learner && s.ID == id })

	await(t, "promotion", func() bool {
		err := a.Promote(soon(t), id)
		if err != nil && !errors.Is(err, plan.ErrNotReady) && !errors.Is(err, plan.ErrUnhealthy) {
			t.Fatal(err)
		}
		return err == nil
	})
	if err := a.Promote(soon(t), id); err != nil {
		t.Errorf("promote a voter: %v", err)
	}
	await(t, "b knows that it votes", func() bool { return !b.Status().Learner })
	if got := len(b.Members()); got != 2 {
		t.Errorf("members: got %d, want 2", got)
	}
	leader, follower := a, b
	if !a.Status().Leader {
		leader, follower = b, a
	}
	// A change that the plan decides waits for no timer; an operator's does.
	if _, err := leader.client(t).MemberAddAsLearner(soon(t), []string{"http://127.0.0.1:1"}); !errors.Is(err, rpctypes.ErrUnhealthy) {
		t.Errorf("an operator adds right after a join: got %v, want rpctypes.ErrUnhealthy", err)
	}
	if _, err := follower.AddLearner(soon(t), "http://127.0.0.1:1"); !errors.Is(err, plan.ErrUnhealthy) {
		t.Errorf("a follower adds right after a join: got %v, want plan.ErrUnhealthy", err)
	}
	third, err := leader.AddLearner(soon(t), "http://127.0.0.1:1")
	if err != nil {
		t.Fatalf("add right after a join: %v", err)
	}
	if _, err := leader.AddLearner(soon(t), "http://127.0.0.1:1"); err == nil {
		t.Error("added a peer URL twice")
	}
	if err := leader.Remove(soon(t), third); err != nil {
		t.Errorf("remove right after an addition: %v", err)
	}
	if err := leader.Remove(soon(t), third); err != nil {
		t.Errorf("remove again: %v", err)
	}
	if leader != a {
		if err := leader.TransferLeadership(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "a leads", func() bool { return a.Status().Leader })
	if err := a.Remove(soon(t), id); !errors.Is(err, plan.ErrUnhealthy) {
		t.Errorf("remove a voter that serves right after a join: got %v, want plan.ErrUnhealthy", err)
	}
	await(t, "removal", func() bool {
		err := a.Remove(soon(t), id)
		if err != nil && !errors.Is(err, plan.ErrUnhealthy) {
			t.Fatal(err)
		}
		return err == nil
	})
	awaitClosed(t, "b ends by itself", b.Done())
	if err := b.Err(); !errors.Is(err, errRemoved) {
		t.Errorf("b: got %v, want errRemoved", err)
	}
	if err := a.Remove(soon(t), id); err != nil {
		t.Errorf("remove again: got %v", err)
	}
}

// A change that would leave no connected majority is refused, however long all members were connected before.
func TestChangesKeepQuorum(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	nodes := found(t, "a", "b", "c")
	leader := leaderOf(nodes)
	var others []*node
	for _, n := range nodes {
		if n != leader {
			others = append(others, n)
		}
	}
	for _, n := range others {
		await(t, "all are connected", func() bool { return leader.Connected(n.Status().ID) })
	}
	gone, there := others[0].Status().ID, others[1].Status().ID
	others[0].Kill()
	await(t, "one is gone", func() bool { return !leader.Connected(gone) })
	if _, err := leader.AddLearner(soon(t), "http://127.0.0.1:1"); !errors.Is(err, plan.ErrUnhealthy) {
		t.Errorf("add beside a lost member: got %v, want plan.ErrUnhealthy", err)
	}
	if err := leader.Remove(soon(t), there); !errors.Is(err, plan.ErrUnhealthy) {
		t.Errorf("remove one of two that serve: got %v, want plan.ErrUnhealthy", err)
	}
	if err := leader.Remove(soon(t), gone); err != nil {
		t.Errorf("remove the one that is lost: %v", err)
	}
	if _, err := leader.AddLearner(soon(t), "http://127.0.0.1:1"); err != nil {
		t.Errorf("add to two that serve: %v", err)
	}
}

// A replacement that never comes must not keep others out.
func TestSeveralLearners(t *testing.T) {
	a := found(t, "a")[0]
	for _, peerURL := range []string{"http://127.0.0.1:1", "http://127.0.0.1:2"} {
		if _, err := a.AddLearner(soon(t), peerURL); err != nil {
			t.Error(err)
		}
	}
	if got := len(a.Members()); got != 3 {
		t.Errorf("members: got %d, want 3", got)
	}
	stop(t, a, 0)
}

// A member that was down when it was removed learns that from its peers.
func TestRemovedWhileDown(t *testing.T) {
	a := found(t, "a")[0]
	b := newNode(t, "b")
	id, err := a.AddLearner(soon(t), b.spec.PeerURL)
	if err != nil {
		t.Fatal(err)
	}
	b.spec.Join = true
	b.spec.Peers = map[string]string{"a": a.spec.PeerURL, "b": b.spec.PeerURL}
	b.run(t).awaitReady(t)
	stop(t, b, 0)
	if a.IsRemoved(id) {
		t.Error("removed before it was")
	}
	if err := a.Remove(soon(t), id); err != nil {
		t.Fatal(err)
	}
	if !a.IsRemoved(id) || a.IsRemoved(id+1) {
		t.Errorf("IsRemoved: got %v and %v, want true and false", a.IsRemoved(id), a.IsRemoved(id+1))
	}
	b.run(t)
	awaitClosed(t, "b ends by itself", b.Done())
	if err := b.Err(); !errors.Is(err, errRemoved) {
		t.Errorf("b: got %v, want errRemoved", err)
	}
}

func TestThreeMembers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	nodes := found(t, "a", "b", "c")
	ids, cluster, err := FounderIDs(nodes[0].spec.Token, nodes[0].spec.Peers)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if got := n.Status(); got.ID != ids[n.spec.Slot] || got.Cluster != cluster {
			t.Errorf("%s: got %x in %x, want %x in %x", n.spec.Slot, got.ID, got.Cluster, ids[n.spec.Slot], cluster)
		}
	}
	leader := leaderOf(nodes)
	if err := leader.TransferLeadership(soon(t)); err != nil {
		t.Fatal(err)
	}
	if leader.Status().Leader {
		t.Error("still leads")
	}
	await(t, "a new leader", func() bool { l := leaderOf(nodes); return l != nil && l != leader })
	leader = leaderOf(nodes)
	l := leader.current()
	l.retire(t.Context(), 10*time.Second)
	// The leadership was handed over while etcd still runs: an election would come only after it has ended.
	if srv := l.server(); srv.Leader() == srv.MemberID() || srv.Leader() == 0 || l.hardStop.Load() {
		t.Errorf("after retire: led by %s, hard stop %v", srv.Leader(), l.hardStop.Load())
	}
	begin := time.Now()
	stop(t, leader, 10*time.Second)
	t.Logf("leader stopped in %v", time.Since(begin))
	await(t, "the new leader knows", func() bool { return leaderOf(nodes) != nil })

	// With one member left there is no quorum, so there is no hand-over, and nothing hangs.
	last := leaderOf(nodes)
	for _, n := range nodes {
		if n != last {
			n.Kill()
		}
	}
	begin = time.Now()
	stop(t, last, time.Second)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("stop without quorum took %v", took)
	}
}

func TestConnected(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	nodes := found(t, "a", "b")
	a, b := nodes[0], nodes[1]
	id := b.Status().ID
	connected := func() bool { return a.Connected(id) }
	await(t, "b is connected", connected)
	if a.Connected(id + 1) {
		t.Error("nobody is connected")
	}
	b.Kill()
	await(t, "b is gone", func() bool { return !connected() })
	if err := a.TransferLeadership(soon(t)); a.Status().Leader && !errors.Is(err, plan.ErrUnhealthy) {
		t.Errorf("transfer to nobody: got %v, want plan.ErrUnhealthy", err)
	}
}

// A member that neither hears nor answers any more, but keeps its connections, is not connected to the leader. A
// follower goes by the connections, because no other follower answers it.
func TestConnectedAnswers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	nodes := found(t, "a", "b", "c")
	i := slices.IndexFunc(nodes, func(n *node) bool { return n.Status().Leader })
	leader, other, mute := nodes[i], nodes[(i+1)%3], nodes[(i+2)%3]
	id := mute.Status().ID
	connected := func(n *node) bool { return n.Connected(id) }
	for _, n := range []*node{leader, other} {
		await(t, "all are connected", func() bool { return connected(n) })
	}
	all := []uint64{id, other.Status().ID}
	slices.Sort(all)
	if got := slices.Sorted(slices.Values(leader.Heard(soon(t)))); !slices.Equal(got, all) {
		t.Errorf("heard: got %v, want %v", got, all)
	}
	if got := other.Heard(soon(t)); got != nil {
		t.Errorf("a follower heard %v", got)
	}
	transport := raftTransport(mute.current().etcd.Server).(rafthttp.Pausable)
	transport.Pause()
	if got := leader.Heard(soon(t)); !connected(leader) || !slices.Equal(got, []uint64{other.Status().ID}) {
		t.Errorf("just muted: connected %t, heard %v", connected(leader), got)
	}
	await(t, "the leader counts it no more", func() bool {
		if !connected(other) {
			t.Fatal("connected: a follower wants to be answered")
		}
		return !connected(leader)
	})
	if !leader.Status().Leader {
		t.Fatal("connected: the leader leads no more")
	}
	transport.Resume()
	await(t, "the leader counts it again", func() bool { return connected(leader) })
}

// A request to a member fails after the streams to it have begun, as one does that went to the machine that the member
// has left. etcd calls the member inactive. It answers, so it does not stay so, unless it cannot be dialled.
func TestConnectedAgain(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	leader, follower := foundTwo(t)
	id, srv := follower.Status().ID, leader.current().etcd.Server
	tr := raftTransport(srv)
	rt := reflect.ValueOf(tr).Elem().FieldByName("pipelineRt")
	rt = reflect.NewAt(rt.Type(), rt.Addr().UnsafePointer()).Elem()
	was := rt.Interface()
	connected := func() bool { return leader.Connected(id) }
	lose := func() {
		rt.Set(reflect.ValueOf(lostRequests{}))
		tr.Send(only(message(&raftpb.Message{Type: field(raftpb.MsgSnap), To: field(id)}))) // a snapshot is always a request
		await(t, "a request has failed", func() bool { return tr.ActiveSince(types.ID(id)).IsZero() })
		rt.Set(reflect.ValueOf(was))
	}
	await(t, "it is connected", connected)
	lose()
	await(t, "it is connected again", connected)

	moved := membership.Member{ID: types.ID(id)}
	moved.PeerURLs = []string{"http://127.0.0.1:1"}
	if _, err := srv.UpdateMember(soon(t), moved); err != nil {
		t.Fatal(err)
	}
	lose()
	for end := time.Now().Add(hiddenFor + 2*time.Second); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if connected() {
			t.Fatal("connected: a member that cannot be dialled")
		}
	}
}

// only returns a list of one message, which is a pointer in etcd 3.7 and none in 3.6.
func only[T any](one T) []T { return []T{one} }

// lostRequests answers no request.
type lostRequests struct{}

func (lostRequests) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.EOF }

// TestProgress: the leader knows how far each log is, and a follower knows nothing of that.
func TestProgress(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	leader, follower := foundTwo(t)
	await(t, "all is known", func() bool {
		m, _ := leader.State()
		far := map[uint64]uint64{}
		for _, i := range m.Members {
			far[i.ID] = i.Matched
		}
		return len(far) == 2 && far[follower.Status().ID] > 0 && far[m.ID] >= far[follower.Status().ID]
	})
	m, _ := follower.State()
	if m.Leads != 0 || slices.ContainsFunc(m.Members, func(i plan.MemberInfo) bool { return i.Matched != 0 || i.Receiving }) {
		t.Errorf("of a follower: got %+v in term %d, want nothing", m.Members, m.Leads)
	}
}

// A joiner that finds nobody leaves no vote behind, and no listener that would be in its own way.
func TestJoinMayBeRepeated(t *testing.T) {
	b := newNode(t, "b")
	b.spec.Join = true
	b.spec.Peers["a"] = "http://127.0.0.1:1"
	for range 2 {
		if err := b.begin(t); err == nil || !strings.Contains(err.Error(), "cannot fetch cluster info") {
			t.Fatalf("start: got %v, want no cluster info", err)
		}
		awaitClosed(t, "done", b.Done())
		if got, err := (Disk{}).Inspect(b.spec.DataDir); err != nil || got.WAL {
			t.Errorf("left behind: got %+v, %v, want a database only", got, err)
		}
		if _, err := os.Stat(DatabasePath(b.spec.DataDir)); err != nil {
			t.Error(err)
		}
	}
}

// A peer answers anyone by http, and over TLS those with a certificate of the members' authority. Where nobody listens,
// nothing answers. A member's URL can be changed to one at which it listens with TLS beside http, and its slot stays
// the same.
func TestUpdateToTLS(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	n := newNode(t, "a")
	secure := func(ca *authority) settings.PeerTLS {
		cert, key := ca.issue(t, "a", peerName, n.addr)
		return settings.PeerTLS{PeerCertFile: cert, PeerKeyFile: key, PeerTrustedCAFile: ca.ca()}
	}
	plain := n.spec.PeerURL
	u, err := url.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	tls := "https://" + net.JoinHostPort(u.Hostname(), "2381")
	n.cfg.PeerTLS, n.cfg.FromHTTP, n.cfg.Names.Peer = secure(ca), true, peerName
	n.cfg.Names.PeerURL = strings.Replace(tls, "a.", "{slot}.", 1)
	n.cfg.ListenPeerURLs = []string{"http://" + n.addr + ":" + u.Port(), "https://" + n.addr + ":2381"}
	n.spec.Peers = map[string]string{"a": plain}
	n.run(t).awaitReady(t)
	for _, at := range []string{plain, tls} {
		if err := n.Reach(soon(t), at); err != nil {
			t.Error(err)
		}
	}
	if err := n.Reach(soon(t), "https://"+n.addr+":2382"); err == nil {
		t.Error("reached a port where nobody listens")
	}
	id := n.Status().ID
	if err := n.Update(soon(t), id+1, tls); !errors.Is(err, errNotFound) {
		t.Errorf("update nobody: got %v, want ErrNotFound", err)
	}
	for range 2 { // it may be repeated
		if err := n.Update(soon(t), id, tls); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.Members(); len(got) != 1 || got[0].PeerURL != tls || got[0].Slot != "a" || got[0].ID != id || got[0].Learner {
		t.Errorf("members: got %+v", got)
	}
	stop(t, n, 0)
	n.Member, n.cfg.PeerTLS = nil, secure(stranger)
	n.run(t).awaitReady(t)
	if err := n.Reach(soon(t), tls); err != nil {
		t.Error(err)
	}
	n.cfg.PeerTLS.PeerTrustedCAFile = ca.ca()
	stop(t, n, 0)
	n.Member = nil
	n.run(t).awaitReady(t)
	if err := n.Reach(soon(t), tls); err == nil {
		t.Error("reached a peer whose certificate nobody trusts")
	}
}
