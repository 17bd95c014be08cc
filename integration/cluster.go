package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration/hosts"
)

// Cluster is a set of nodes, each a process of its own, on loopback addresses that nothing else uses.
type Cluster struct {
	Name  string
	Slots []string
	Dir   string // contains everything; kept when the test fails
	Store string // the backup store that all nodes share
	Nodes []*Node
	TLS   *tls.Config // of clients; if it is set, the client URLs are https

	t      testing.TB
	binary string
	prefix string         // of the addresses, with the last dot
	keys   map[string]any // of every node's configuration
	env    []string
	wrote  int   // the number of writers so far
	site   *Site // nil: processes of this machine, with local volumes
	ports  int   // on a site: added to the usual ports
}

// Options describe a cluster. The zero value is three nodes n1, n2, n3, each with a root of its own, which hold the
// slots a, b and c in this order.
type Options struct {
	Nodes int            // 0: 3
	Slots []string       // nil: a, b, c
	Keys  map[string]any // of every node's configuration, by full name: "snapshot.every"
	Env   []string       // "NAME=value", for every process and command, beside the test's own environment
	Net   *hosts.Network // not nil: each node runs on a host of its own there, which can be cut off
}

// New makes a cluster; nothing runs yet. binary is the holdfast to run. When the test ends, all processes are killed.
// If it has failed, their logs are printed and the directory is kept.
func New(t testing.TB, binary string, o Options) *Cluster {
	t.Helper()
	if o.Slots == nil {
		o.Slots = []string{"a", "b", "c"}
	}
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	dir, err := os.MkdirTemp("", "hf-") // t.TempDir is too long for the path of a unix socket
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{
		Name: "story", Slots: o.Slots, Dir: dir, Store: filepath.Join(dir, "store"),
		t: t, binary: binary, prefix: Reserve(t), keys: maps.Clone(o.Keys), env: o.Env,
	}
	if err := os.Mkdir(c.Store, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range o.Nodes {
		n := &Node{Name: fmt.Sprintf("n%d", i+1), Dir: filepath.Join(dir, fmt.Sprintf("n%d", i+1)), Keys: map[string]any{},
			c: c}
		n.Address = c.Address(i + 1)
		if o.Net != nil {
			if n.Host, err = o.Net.Add(n.Name); err != nil {
				t.Fatal(err)
			}
			n.Address = n.Host.Address().String()
		}
		n.Data = filepath.Join(n.Dir, "holdfast-data") // the default, seen from Dir
		n.Root = filepath.Join(n.Data, "volumes")
		if i < len(o.Slots) {
			n.Keys["volume.local.slot"] = o.Slots[i]
		}
		if err := os.Mkdir(n.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		c.Nodes = append(c.Nodes, n)
	}
	t.Cleanup(c.end)
	return c
}

// Reserve picks a network of 254 loopback addresses and reserves it, so that every other user of this package on this
// machine gets another one.
func Reserve(t testing.TB) string {
	for {
		prefix := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), 1+rand.IntN(254))
		l, err := net.Listen("tcp", prefix+"254:7946")
		if err != nil {
			continue
		}
		t.Cleanup(func() { l.Close() })
		return prefix
	}
}

// Address returns the i-th address of the cluster's network, 1 to 253. The nodes begin with the first ones.
func (c *Cluster) Address(i int) string { return fmt.Sprintf("%s%d", c.prefix, i) }

// Set changes a key in the configuration of all nodes, from their next start on.
func (c *Cluster) Set(key string, value any) {
	if c.keys == nil {
		c.keys = map[string]any{}
	}
	c.keys[key] = value
}

// Start starts all nodes.
func (c *Cluster) Start() {
	c.t.Helper()
	for _, n := range c.Nodes {
		n.Start()
	}
}

// Stop sends SIGTERM to all nodes at once, and waits for their end.
func (c *Cluster) Stop() {
	c.t.Helper()
	for _, n := range c.Nodes {
		n.Signal(terminate)
	}
	for _, n := range c.Nodes {
		n.Exit(20 * time.Second)
	}
}

// Kill kills all nodes.
func (c *Cluster) Kill() {
	for _, n := range c.Nodes {
		n.Kill()
	}
}

// Running returns the nodes whose process runs.
func (c *Cluster) Running() []*Node {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(n *Node) bool { return !n.Running() })
}

// Endpoints returns the client URLs of nodes, or of all nodes if none are given.
func (c *Cluster) Endpoints(nodes ...*Node) []string {
	if len(nodes) == 0 {
		nodes = c.Nodes
	}
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.ClientURL())
	}
	return urls
}

// Addresses returns the addresses of all nodes.
func (c *Cluster) Addresses() (all []string) {
	for _, n := range c.Nodes {
		all = append(all, n.Address)
	}
	return all
}

const (
	poll     = 50 * time.Millisecond // how often a condition is checked, unless the check takes more than a tenth of that
	patience = 30 * time.Second      // the limit, on a busy machine, for what should take seconds
	slow     = 3 * time.Second       // a longer wait is logged, even if it succeeds
)

// Until waits until check returns nil. If that takes longer than within, it fails the test with the last error.
func (c *Cluster) Until(within time.Duration, what string, check func() error) {
	c.t.Helper()
	Until(c.t, within, what, check)
}

// Until is Cluster.Until for what is no cluster of this package.
func Until(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	begin := time.Now()
	last := errors.New("nothing")
	for {
		looked := time.Now()
		err := check()
		cost := time.Since(looked)
		took := time.Since(begin).Round(10 * time.Millisecond)
		switch {
		case err == nil && took > slow:
			t.Logf("after %s: %s; the last obstacle was: %v", took, what, last)
			return
		case err == nil:
			return
		case took > within:
			t.Fatalf("not within %s: %s: %v", within, what, err)
		}
		last = err
		// A check costs the nodes more than this process: for a status, each node that is asked asks all others.
		time.Sleep(min(max(poll, 9*cost), time.Second))
	}
}

// Serving waits until every running node sees, for every slot of the record, a voter that has a leader. That is what
// clients need; Healthy requires more.
func (c *Cluster) Serving() {
	c.t.Helper()
	c.Until(60*time.Second, "every slot is served", c.Served)
}

// Served returns nil if the condition of Serving holds.
func (c *Cluster) Served() error {
	for _, n := range c.Running() {
		s, err := n.Status()
		if err != nil {
			return err
		}
		served := map[string]bool{}
		for _, m := range s.Nodes {
			if m.Live && m.Volume != nil && m.Etcd != nil && m.Etcd.HasLead && m.Etcd.Confirmed && !m.Etcd.Learner {
				served[m.Volume.Slot] = true
			}
		}
		if s.Record == nil || s.Health == health.NoQuorum {
			return fmt.Errorf("%s says %s: %s", n.Name, s.Health, strings.Join(s.Reasons(), "; "))
		}
		slots := s.Record.Charter.Slots()
		if s.Set != nil && s.Set.Record == s.Record.ID {
			slots = s.Set.Slots
		}
		for _, slot := range slots {
			if !served[slot] {
				return fmt.Errorf("%s says slot %s is not served: %s", n.Name, slot, strings.Join(s.Reasons(), "; "))
			}
		}
	}
	return nil
}

// Healthy waits until every running node says that the cluster is healthy, with all its slots.
func (c *Cluster) Healthy() {
	c.t.Helper()
	c.Until(60*time.Second, "the cluster is healthy", c.Fit)
}

// Fit returns nil if the condition of Healthy holds.
func (c *Cluster) Fit() error {
	for _, n := range c.Running() {
		s, err := n.Status()
		switch {
		case err != nil:
			return err
		case s.Health != health.Healthy:
			return fmt.Errorf("%s says %s: %s", n.Name, s.Health, strings.Join(s.Reasons(), "; "))
		}
	}
	return nil
}

// Leader waits for a node that leads and returns it.
func (c *Cluster) Leader() (leader *Node) {
	c.t.Helper()
	c.Until(patience, "a node leads", func() error {
		for _, n := range c.Running() {
			if n.Paused() {
				continue
			}
			if s, err := n.Self(); err == nil && s.State == "leader" && s.Etcd != nil && s.Etcd.Confirmed {
				leader = n
				return nil
			}
		}
		return fmt.Errorf("none of %d nodes", len(c.Running()))
	})
	return leader
}

// Holder waits until a node's own status says that it holds a slot, and returns the node.
func (c *Cluster) Holder(slot string) (holder *Node) {
	c.t.Helper()
	c.Until(patience, "a node holds slot "+slot, func() error {
		for _, n := range c.Running() {
			if s, err := n.Self(); err == nil && s.Volume != nil && s.Volume.Slot == slot {
				holder = n
				return nil
			}
		}
		return fmt.Errorf("none of %d nodes", len(c.Running()))
	})
	return holder
}

// Member is an entry of etcd's member list.
type Member struct {
	ID      uint64
	Name    string
	PeerURL string
	Learner bool
}

// Members returns the member list by name, from a linearizable read through any node.
func (c *Cluster) Members() (members map[string]Member) {
	c.t.Helper()
	c.Until(15*time.Second, "the member list can be read", func() (err error) {
		members, err = c.ReadMembers()
		return err
	})
	return members
}

// ReadMembers is one try of Members.
func (c *Cluster) ReadMembers() (map[string]Member, error) {
	client, err := c.dial(c.Endpoints(c.Running()...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	list, err := client.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	members := map[string]Member{}
	for _, m := range list.Members {
		members[m.Name] = Member{m.ID, m.Name, strings.Join(m.PeerURLs, ","), m.IsLearner}
	}
	return members, nil
}

// end kills all nodes. After a failure it prints their reports and keeps the directory.
func (c *Cluster) end() {
	c.Kill()
	if !c.t.Failed() {
		if err := os.RemoveAll(c.Dir); err != nil {
			c.t.Errorf("remove the cluster's directory: %v", err)
		}
		return
	}
	for _, n := range c.Nodes {
		c.t.Logf("%s\n", n.Report())
	}
	c.t.Logf("kept %s", c.Dir)
}
