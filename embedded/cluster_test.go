package embedded

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
)

// node is a member of a test's cluster, on its own loopback address, with etcd's usual ports.
type node struct {
	*Member
	cfg  Config
	spec plan.Spec
	addr string
	lg   *zap.Logger
}

func newNode(t *testing.T, slot string) *node {
	t.Helper()
	addr := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	n := &node{addr: addr, cfg: testConfig(), lg: zap.NewNop()}
	n.spec = plan.Spec{
		Slot:    slot,
		DataDir: filepath.Join(t.TempDir(), "etcd"),
		Token:   "test@1",
		PeerURL: "http://" + addr + ":2380",
	}
	n.spec.Peers = map[string]string{slot: n.spec.PeerURL}
	return n
}

func testConfig() Config {
	c := Config{Config: settings.Default()}
	c.HeartbeatInterval, c.ElectionTimeout = 50, 500
	return c
}

// resolved returns the node's configuration with the addresses filled in.
func (n *node) resolved() Config { return Config{n.cfg.Resolve(n.addr), n.cfg.Names} }

// begin starts the node, and kills it when the test ends.
func (n *node) begin(t *testing.T) error {
	t.Helper()
	if n.Member == nil {
		n.Member = New(n.resolved(), n.lg, nil)
		t.Cleanup(func() { n.Kill() })
	}
	return n.Start(soon(t), n.spec)
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
	await(t, n.spec.Slot+" is ready", func() bool { return n.Status().Ready })
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
		n.Member = New(n.resolved(), n.lg, nil)
		t.Cleanup(func() { n.Kill() })
		go func() { errs <- n.Start(soon(t), n.spec) }()
	}
	for range nodes {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		n.awaitReady(t)
		await(t, "a cluster version, without which nobody can join", func() bool { return n.Status().ClusterVersion != "" })
	}
	return nodes
}

// soon bounds what etcd would wait for forever, such as a change that its leader has lost without telling anyone. It is
// far longer than anything takes.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
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

// foundTwo founds a cluster of two.
func foundTwo(t *testing.T) (leader, follower *node) {
	t.Helper()
	nodes := found(t, "a", "b")
	if leaderOf(nodes) == nodes[0] {
		return nodes[0], nodes[1]
	}
	return nodes[1], nodes[0]
}

func leaderOf(nodes []*node) *node {
	for _, n := range nodes {
		if n.Status().Leader {
			return n
		}
	}
	return nil
}
