package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// node is a member of a test's cluster, on a loopback address of its own, with etcd's
// usual ports.
type node struct {
	*Member
	cfg  Config
	spec Spec
	addr string
	lg   *zap.Logger
}

func newNode(t *testing.T, slot string) *node {
	t.Helper()
	addr := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	n := &node{addr: addr, cfg: testConfig(), lg: zap.NewNop()}
	n.spec = Spec{
		Slot:    slot,
		DataDir: filepath.Join(t.TempDir(), "etcd"),
		Token:   "test@1",
		PeerURL: "http://" + addr + ":2380",
	}
	n.spec.Peers = map[string]string{slot: n.spec.PeerURL}
	return n
}

func testConfig() Config {
	c := Default()
	c.HeartbeatInterval, c.ElectionTimeout = 50, 500
	return c
}

// begin starts the node, and kills it when the test ends.
func (n *node) begin(t *testing.T) error {
	t.Helper()
	if n.Member == nil {
		n.Member = New(n.cfg.Resolve(n.addr), n.lg)
		t.Cleanup(func() { n.Kill() })
	}
	return n.Start(t.Context(), n.spec)
}

func (n *node) run(t *testing.T) *node {
	t.Helper()
	if err := n.begin(t); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) awaitReady(t *testing.T) *node {
	t.Helper()
	await(t, n.spec.Slot+" is ready", n.Ready)
	return n
}

// found runs a cluster and waits until it is ready.
func found(t *testing.T, slots ...string) []*node {
	t.Helper()
	peers := map[string]string{}
	var nodes []*node
	for _, slot := range slots {
		n := newNode(t, slot)
		peers[slot] = n.spec.PeerURL
		nodes = append(nodes, n)
	}
	return runAll(t, nodes, peers)
}

func runAll(t *testing.T, nodes []*node, peers map[string]string) []*node {
	t.Helper()
	errs := make(chan error)
	for _, n := range nodes {
		n.spec.Peers = peers
		n.Member = New(n.cfg.Resolve(n.addr), n.lg)
		t.Cleanup(func() { n.Kill() })
		go func() { errs <- n.Start(t.Context(), n.spec) }()
	}
	for range nodes {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		n.awaitReady(t)
	}
	return nodes
}

// await waits for a condition.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

func awaitClosed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("timed out waiting: %s", what)
	}
}

func (n *node) client(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + n.addr + ":2379"}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func put(t *testing.T, c *clientv3.Client, key, value string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	resp, err := c.Put(ctx, key, value)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func stop(t *testing.T, n *node, wait time.Duration) {
	t.Helper()
	if err := n.Stop(t.Context(), wait); err != nil {
		t.Fatal(err)
	}
}

func leaderOf(nodes []*node) *node {
	for _, n := range nodes {
		if n.Status().Leader {
			return n
		}
	}
	return nil
}

func TestFoundStopRestart(t *testing.T) {
	n := newNode(t, "a")
	if got := (New(n.cfg, n.lg)).Status(); got.Running {
		t.Errorf("a new member runs: %+v", got)
	}
	n.run(t).awaitReady(t)
	members, cluster, err := FounderIDs(n.spec.Token, n.spec.Peers)
	if err != nil {
		t.Fatal(err)
	}
	rev := put(t, n.client(t), "k", "v")
	got := n.Status()
	if got.MemberID != members["a"] || got.ClusterID != cluster {
		t.Errorf("IDs: got %x in %x, want %x in %x", got.MemberID, got.ClusterID, members["a"], cluster)
	}
	if !got.Running || !got.Ready || !got.Leader || got.Learner || got.LeaderID != got.MemberID || got.Revision != rev ||
		got.Term == 0 || got.Applied == 0 || got.Committed == 0 || got.Database.Size == 0 || got.Database.Quota != 2<<30 ||
		!strings.HasPrefix(got.ServerVersion, "3.7.") {
		t.Errorf("status: got %+v", got)
	}
	stop(t, n, 0)
	stop(t, n, 0)
	awaitClosed(t, "done", n.Done())
	if err := n.Err(); err != nil {
		t.Errorf("error after stop: %v", err)
	}
	if got := n.Status(); got.Running || got.MemberID != 0 || n.Ready() || n.Members() != nil {
		t.Errorf("status after stop: got %+v", got)
	}
	if _, err := n.Snapshot(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("snapshot after stop: got %v, want ErrStopped", err)
	}
	n.spec.Peers = map[string]string{"a": n.spec.PeerURL}
	n.run(t).awaitReady(t)
	if got := n.Status(); got.Revision != rev || got.MemberID != members["a"] {
		t.Errorf("after restart: got %+v, want revision %d of %x", got, rev, members["a"])
	}
	if err := n.begin(t); err == nil {
		t.Error("started twice")
	}
	stop(t, n, time.Second)
}

func TestStopBeforeStart(t *testing.T) {
	n := newNode(t, "a")
	m := New(n.cfg, n.lg)
	if err := m.Stop(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
	m.Kill()
	if m.Done() != nil || m.Err() != nil {
		t.Error("a member that never ran is done")
	}
}

// Without a quorum etcd's own Close waits for ever.
func TestStopNeverReady(t *testing.T) {
	n := newNode(t, "a")
	n.spec.Peers["b"] = "http://127.0.0.1:1"
	n.run(t)
	if n.Ready() || !n.Status().Running {
		t.Errorf("status: got %+v", n.Status())
	}
	begin := time.Now()
	stop(t, n, time.Minute)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("stop took %v", took)
	}
	if err := n.Err(); err != nil {
		t.Error(err)
	}
}

func TestStopWhileStarting(t *testing.T) {
	n := newNode(t, "a")
	n.spec.Peers["b"] = "http://127.0.0.1:1"
	n.Member = New(n.cfg.Resolve(n.addr), n.lg)
	started := make(chan error)
	go func() { started <- n.Start(t.Context(), n.spec) }()
	await(t, "start is under way", func() bool { return n.Done() != nil })
	stop(t, n, time.Minute)
	if err := <-started; !errors.Is(err, ErrStopped) {
		t.Errorf("start: got %v, want ErrStopped", err)
	}
	awaitClosed(t, "done", n.Done())
	if err := n.Err(); err != nil {
		t.Errorf("Err after stop: %v", err)
	}
}

func TestStartContextEnds(t *testing.T) {
	n := newNode(t, "a")
	n.Member = New(n.cfg.Resolve(n.addr), n.lg)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Start(ctx, n.spec); !errors.Is(err, context.Canceled) {
		t.Errorf("start: got %v, want Canceled", err)
	}
	awaitClosed(t, "what was begun is undone", n.Done())
	n.spec.Peers = map[string]string{"a": n.spec.PeerURL}
	n.run(t).awaitReady(t)
	stop(t, n, 0)
}

// Close waits 7 s for a watch; ours must not, and its clients must hear why.
func TestStopUnderWatches(t *testing.T) {
	n := found(t, "a")[0]
	c := n.client(t)
	const watchers = 20
	ended := make(chan error, watchers)
	for i := range watchers {
		// A context of its own gives each watcher a stream of its own.
		ctx := context.WithValue(clientv3.WithRequireLeader(t.Context()), watcherKey{}, i)
		w := c.Watch(ctx, "k", clientv3.WithCreatedNotify(), clientv3.WithPrefix())
		if resp := <-w; !resp.Created {
			t.Fatalf("watch: %+v", resp)
		}
		go func() {
			for resp := range w {
				if err := resp.Err(); err != nil {
					ended <- err
					return
				}
			}
			ended <- errors.New("closed without an error")
		}()
	}
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		for i := 0; ; i++ {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			_, err := c.Put(ctx, "k", "v")
			cancel()
			if err != nil {
				return
			}
		}
	}()
	rev := n.Status().Revision
	await(t, "writes flow", func() bool { return n.Status().Revision > rev+10 })
	begin := time.Now()
	stop(t, n, 10*time.Second)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("stop took %v", took)
	}
	<-writing
	c.Close()
	for range watchers {
		<-ended
	}
}

type watcherKey struct{}

func TestCutTellsUnavailable(t *testing.T) {
	n := found(t, "a")[0]
	c := n.client(t)
	stream, err := watchStream(t, c)
	if err != nil {
		t.Fatal(err)
	}
	n.current().cut.streams.drop()
	if _, err := stream.Recv(); !isUnavailable(err) {
		t.Errorf("open watch: got %v, want Unavailable", err)
	}
	n.current().cut.calls.drop()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := c.Put(ctx, "k", "v"); !isUnavailable(err) {
		t.Errorf("put: got %v, want Unavailable", err)
	}
}

func TestKill(t *testing.T) {
	n := found(t, "a")[0]
	c := n.client(t)
	stream, err := watchStream(t, c)
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "k", "v")
	tx, txErr := n.Snapshot(t.Context())
	if txErr != nil {
		t.Fatal(txErr)
	}
	begin := time.Now()
	n.Kill() // an open snapshot is a disk that hangs
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("kill took %v", took)
	}
	for err == nil { // what was sent before, then the end
		_, err = stream.Recv()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Put(ctx, "k", "w"); err == nil {
		t.Error("put after kill succeeded")
	}
	if err := n.begin(t); err == nil {
		t.Error("started although the killed one is still there")
	}
	tx.Close()
	awaitClosed(t, "killed member ends", n.Done())
	if err := n.Err(); err != nil {
		t.Error(err)
	}
}

func TestLocked(t *testing.T) {
	n := found(t, "a")[0]
	second := newNode(t, "a")
	second.spec.DataDir = n.spec.DataDir
	if err := second.begin(t); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), n.spec.DataDir) {
		t.Errorf("second member: got %v, want ErrLocked with the path", err)
	}
	if err := second.Err(); !errors.Is(err, ErrLocked) {
		t.Errorf("Err: got %v, want ErrLocked", err)
	}
	// An etcd that is not ours holds the database only.
	if err := probeBackend(n.spec.DataDir); !errors.Is(err, ErrLocked) {
		t.Errorf("open database: got %v, want ErrLocked", err)
	}
	if _, err := SetAside(n.spec.DataDir, "test"); !errors.Is(err, ErrLocked) {
		t.Errorf("set aside: got %v, want ErrLocked", err)
	}
	stop(t, n, 0)
	if err := probeBackend(n.spec.DataDir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(n.spec.DataDir); err != nil {
		t.Error(err)
	}
}

func TestLearnerJoinsAndIsRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	a := found(t, "a")[0]
	put(t, a.client(t), "k", "v")
	b := newNode(t, "b")
	id, err := a.AddLearner(t.Context(), b.spec.PeerURL)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Promote(t.Context(), id); !errors.Is(err, ErrNotReady) {
		t.Errorf("promote a learner that never ran: got %v, want ErrNotReady", err)
	}
	if err := a.Promote(t.Context(), id+1); !errors.Is(err, ErrNotFound) {
		t.Errorf("promote nobody: got %v, want ErrNotFound", err)
	}
	b.spec.Join = true
	b.spec.Peers = map[string]string{"a": a.spec.PeerURL, "b": b.spec.PeerURL}
	b.run(t).awaitReady(t)
	await(t, "b knows that it is a learner", func() bool { s := b.Status(); return s.Learner && s.MemberID == id })

	await(t, "promotion", func() bool {
		err := a.Promote(t.Context(), id)
		if err != nil && !errors.Is(err, ErrNotReady) && !errors.Is(err, ErrUnhealthy) {
			t.Fatal(err)
		}
		return err == nil
	})
	if err := a.Promote(t.Context(), id); err != nil {
		t.Errorf("promote a voter: %v", err)
	}
	await(t, "b knows that it votes", func() bool { return !b.Status().Learner })
	if got := len(b.Members()); got != 2 {
		t.Errorf("members: got %d, want 2", got)
	}
	if _, err := a.AddLearner(t.Context(), "http://127.0.0.1:1"); !errors.Is(err, ErrUnhealthy) {
		t.Errorf("add right after a join: got %v, want ErrUnhealthy", err)
	}
	await(t, "removal", func() bool {
		err := a.Remove(t.Context(), id)
		if err != nil && !errors.Is(err, ErrUnhealthy) {
			t.Fatal(err)
		}
		return err == nil
	})
	awaitClosed(t, "b ends by itself", b.Done())
	if err := b.Err(); !errors.Is(err, ErrRemoved) {
		t.Errorf("b: got %v, want ErrRemoved", err)
	}
	if err := a.Remove(t.Context(), id); !errors.Is(err, ErrNotFound) {
		t.Errorf("remove again: got %v, want ErrNotFound", err)
	}
}

// A replacement that never comes must not keep others out.
func TestSeveralLearners(t *testing.T) {
	a := found(t, "a")[0]
	for _, peerURL := range []string{"http://127.0.0.1:1", "http://127.0.0.1:2"} {
		if _, err := a.AddLearner(t.Context(), peerURL); err != nil {
			t.Error(err)
		}
	}
	if got := len(a.Members()); got != 3 {
		t.Errorf("members: got %d, want 3", got)
	}
	stop(t, a, 0)
}

// A member that was down when it was removed hears it from its peers.
func TestRemovedWhileDown(t *testing.T) {
	a := found(t, "a")[0]
	b := newNode(t, "b")
	id, err := a.AddLearner(t.Context(), b.spec.PeerURL)
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
	if err := a.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if !a.IsRemoved(id) || a.IsRemoved(id+1) {
		t.Errorf("IsRemoved: got %v and %v, want true and false", a.IsRemoved(id), a.IsRemoved(id+1))
	}
	b.run(t)
	awaitClosed(t, "b ends by itself", b.Done())
	if err := b.Err(); !errors.Is(err, ErrRemoved) {
		t.Errorf("b: got %v, want ErrRemoved", err)
	}
}

func TestThreeMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	nodes := found(t, "a", "b", "c")
	ids, cluster, err := FounderIDs(nodes[0].spec.Token, nodes[0].spec.Peers)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if got := n.Status(); got.MemberID != ids[n.spec.Slot] || got.ClusterID != cluster {
			t.Errorf("%s: got %x in %x, want %x in %x", n.spec.Slot, got.MemberID, got.ClusterID, ids[n.spec.Slot], cluster)
		}
	}
	leader := leaderOf(nodes)
	if err := leader.TransferLeadership(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leader.Status().Leader {
		t.Error("still leads")
	}
	await(t, "a new leader", func() bool { l := leaderOf(nodes); return l != nil && l != leader })
	leader = leaderOf(nodes)
	term := leader.Status().Term
	begin := time.Now()
	stop(t, leader, 10*time.Second)
	t.Logf("leader stopped in %v", time.Since(begin))
	await(t, "leadership was handed over", func() bool { l := leaderOf(nodes); return l != nil })
	if got := leaderOf(nodes).Status().Term; got != term+1 {
		t.Errorf("term: got %d, want %d: one transfer, no election", got, term+1)
	}

	// One member left: no quorum, no hand-over, no hanging.
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
	id := b.Status().MemberID
	since := func() bool { _, ok := a.Connected(id); return ok }
	await(t, "b is connected", since)
	if at, _ := a.Connected(id); time.Since(at) > time.Minute || time.Since(at) < 0 {
		t.Errorf("connected since: got %v", at)
	}
	if _, ok := a.Connected(id + 1); ok {
		t.Error("nobody is connected")
	}
	b.Kill()
	await(t, "b is gone", func() bool { return !since() })
	if err := a.TransferLeadership(t.Context()); a.Status().Leader && !errors.Is(err, ErrUnhealthy) {
		t.Errorf("transfer to nobody: got %v, want ErrUnhealthy", err)
	}
}

func isUnavailable(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "this member is stopping") || errors.Is(err, rpctypes.ErrStopped))
}
