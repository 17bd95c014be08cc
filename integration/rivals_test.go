package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/integration"
	"holdfast/integration/tier"
	"holdfast/volume"
)

// Four hosts share three slots by gossip. A member is away for a while, and its disk perhaps longer. The standby
// leaves the slot to it: a blank disk must not replace one that comes back.
func TestStandbyHostLeavesRestartingMember(t *testing.T) {
	t.Parallel() // its parts are stories
	returns := map[string]func(*testing.T, *integration.Cluster, *integration.Node, func() error){
		"with its disk":        func(_ *testing.T, _ *integration.Cluster, n *integration.Node, _ func() error) { n.Start() },
		"disk busy for a time": startWithBusyDisk,
	}
	for _, name := range tier.One(t, returns) {
		t.Run(name, func(t *testing.T) {
			story(t)
			c := cluster(t, integration.Options{Nodes: 4})
			for _, n := range c.Nodes {
				delete(n.Keys, "volume.local.slot")
			}
			standby := c.Nodes[3]
			for _, n := range c.Nodes[:3] {
				n.Start()
			}
			c.Serving()
			standby.Start()
			c.Until(patience, standby.Name+" stands by", func() error { return standsBy(standby, 0) })
			seen := len(standby.Decisions()) // it may have tried a slot before it heard of the others
			still := func() error { return standsBy(standby, seen) }
			c.Healthy()
			w := c.Write()
			w.More(20)
			before := c.Members()
			victim := c.Holder("b")
			for _, away := range []time.Duration{6 * time.Second, 0, 0} {
				victim.Stop()
				during(t, c, away, "every node misses "+victim.Name, still, func() error { return missed(c, victim) })
				returns[name](t, c, victim, still)
				c.Healthy()
				must(t, still())
			}
			if got := c.Holder("b"); got != victim {
				t.Errorf("slot b is held by %s, want %s", got.Name, victim.Name)
			}
			sameMembers(t, c, before)
			for _, n := range c.Nodes {
				if got := aside(t, n); len(got) > 0 {
					t.Errorf("set aside on %s: %v", n.Name, got)
				}
			}
			w.More(20)
			w.Verify()
		})
	}
}

// A host has promised a founding that failed. It becomes free when the cluster serves without it: it gives up the disk
// with the promise, and is a standby.
func TestMootPromiseIsGivenUp(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Nodes: 4})
	for _, n := range c.Nodes {
		delete(n.Keys, "volume.local.slot")
	}
	late := c.Nodes[3]
	late.Start()
	c.Until(patience, late.Name+" holds slot a", func() error { return holds(late, "a") })
	late.Stop()
	for _, n := range c.Nodes[:3] {
		n.Start()
	}
	c.Serving()
	s, err := c.Nodes[0].Status()
	must(t, err)
	var disk volume.Identity
	path := filepath.Join(late.Root, "a")
	data, err := os.ReadFile(filepath.Join(path, volume.IdentityName))
	must(t, err)
	must(t, json.Unmarshal(data, &disk))
	promised := s.Record.Charter
	promised.Seats = slices.Clone(promised.Seats)
	promised.Seats[0].Disk, promised.Seats[1].Disk = disk.Disk, uuid.NewString() // that disk is gone
	data, err = json.Marshal(map[string]any{"version": 1, "promises": []plan.Charter{promised}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(path, "founding.json"), data, 0o600))
	late.Start()
	c.Until(patience, late.Name+" has given it up and stands by", func() error {
		if !slices.ContainsFunc(late.Decisions(), func(d integration.Decision) bool { return d.Action == "yield" }) {
			return errors.New("it has not decided to")
		}
		return standsBy(late, 0)
	})
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the volume that was given up is still there: %v", err)
	}
	c.Healthy()
}

// startWithBusyDisk starts a node whose volume is in use by something else for a few seconds, such as a check of its
// file system. The node runs, but holds nothing yet.
func startWithBusyDisk(t *testing.T, c *integration.Cluster, n *integration.Node, still func() error) {
	t.Helper()
	lock, err := os.Open(filepath.Join(n.Root, "b.lock"))
	must(t, err)
	defer lock.Close()
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	n.Start()
	during(t, c, 4*time.Second, n.Name+" is there without its disk", still, func() error {
		s, err := n.Self()
		switch {
		case err != nil:
			return err
		case s.Volume != nil:
			t.Fatalf("%s holds %+v", n.Name, s.Volume)
		case missed(c, n) == nil:
			return errors.New("nobody has heard of it yet")
		}
		return nil
	})
}

// during waits until check returns nil and some time has passed. Meanwhile, still must always return nil.
func during(t *testing.T, c *integration.Cluster, length time.Duration, what string, still, check func() error) {
	t.Helper()
	begin := time.Now()
	c.Until(patience, fmt.Sprintf("%s, and %s have passed", what, length), func() error {
		must(t, still())
		if err := check(); err != nil {
			return err
		}
		if left := length - time.Since(begin); left > 0 {
			return fmt.Errorf("%s are left", left.Round(time.Millisecond))
		}
		return nil
	})
}

// standsBy returns nil if a node is a standby, and has only been one since it had made seen decisions.
func standsBy(n *integration.Node, seen int) error {
	s, err := n.Self()
	if err != nil {
		return err
	}
	if s.State != "standby" {
		return fmt.Errorf("%s is %s: %s", n.Name, s.State, s.Why)
	}
	for _, d := range n.Decisions()[seen:] {
		if seen > 0 && !strings.HasPrefix(d.Why, "standing by: ") {
			return fmt.Errorf("%s, which stood by, has decided to %s: %s", n.Name, d.Action, d.Why)
		}
	}
	return nil
}

// missed returns nil if every running node sees another node as lost.
func missed(c *integration.Cluster, other *integration.Node) error {
	for _, n := range c.Running() {
		s, err := n.Status()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.Nodes, func(m health.NodeStatus) bool { return m.Node == other.Name })
		if i < 0 || s.Nodes[i].Live {
			return fmt.Errorf("%s does not miss %s yet", n.Name, other.Name)
		}
	}
	return nil
}

// A host is copied with its name and its disk. The copy never runs etcd and names the process that it gives way to.
// The original continues to serve, and the status of both shows the finding until the copy is gone. No restart is
// needed.
func TestTwin(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Nodes: 2, Slots: []string{"a"}})
	original, twin := c.Nodes[0], c.Nodes[1]
	delete(original.Keys, "volume.local.slot")
	original.Keys["gossip.seeds"] = []string{original.Address}
	twin.Keys["gossip.seeds"] = []string{original.Address}
	twin.Name = original.Name
	original.Start()
	c.Serving()
	w := c.Write()
	w.More(20)
	before := c.Members()
	place(t, filepath.Join(original.Root, "a"), filepath.Join(twin.Root, "a"))
	data := filepath.Join(twin.Root, "a", "etcd")
	copied := hash(t, data)
	twin.Start()
	twin.Says(original.Address)
	for n, other := range map[*integration.Node]*integration.Node{original: twin, twin: original} {
		c.Until(patience, "the status on "+n.Address+" names the other", func() error { return finds(n, "node.name", other.Address) })
	}
	w.More(50)
	alive(t, original, twin)
	for _, d := range twin.Decisions() {
		if d.Action == "start" {
			t.Errorf("the twin decided to start: %s", d.Why)
		}
	}
	if got := hash(t, data); got != copied {
		t.Error("the data of the twin was touched")
	}
	if s, err := twin.Self(); err != nil || s.Etcd != nil {
		t.Errorf("the twin runs etcd: %+v (%v)", s.Etcd, err)
	}
	if s, err := original.Self(); err != nil || s.Etcd == nil || !s.Etcd.HasLead {
		t.Errorf("the original does not serve: %+v (%v)", s.Etcd, err)
	}
	twin.Stop()
	c.Healthy()
	sameMembers(t, c, before)
	w.More(20)
	w.Verify()
}

// finds returns nil if the findings in a node's status contain all texts.
func finds(n *integration.Node, texts ...string) error {
	s, err := n.Status()
	if err != nil {
		return err
	}
	found := health.Texts(s.Findings)
	for _, text := range texts {
		if !strings.Contains(strings.Join(found, "\n"), text) {
			return fmt.Errorf("%s is %s, and %q is not found: %q", n.Name, s.Health, text, found)
		}
	}
	return nil
}

// Two clusters with the same name, founded separately, meet in one gossip. Nothing that runs is stopped, each keeps
// its data and its name, and both report the problem.
func TestTwoClustersInOneGossip(t *testing.T) {
	t.Parallel() // its parts are stories
	// The slot of the second cluster; the first one has a.
	for _, slot := range tier.Share(t, 2, []string{"a", "b"}) {
		t.Run(slot, func(t *testing.T) {
			story(t)
			mine := apart(t, "n1", "a")
			yours := apart(t, "m1", slot)
			clusters := []*integration.Cluster{mine, yours}
			var ids []string
			var writers []*integration.Writer
			for _, c := range clusters {
				c.Serving()
				ids = append(ids, oneCluster(t, c))
				writers = append(writers, c.Write())
			}
			if ids[0] == ids[1] {
				t.Fatalf("both clusters are %s", ids[0])
			}
			for i, c := range clusters {
				writers[i].More(20)
				must(t, os.WriteFile(seedsFile(c), []byte(clusters[1-i].Nodes[0].Address+"\n"), 0o600))
			}
			for i, c := range clusters {
				n, other := c.Nodes[0], clusters[1-i].Nodes[0]
				c.Until(patience, n.Name+" says that two clusters claim one name", func() error {
					if code := n.Command("status").Code; code != 1 {
						return fmt.Errorf("the exit code is %d, want 1", code)
					}
					return finds(n, "two clusters", other.Name)
				})
			}
			for i, c := range clusters {
				n := c.Nodes[0]
				writers[i].More(50)
				alive(t, n)
				if got := oneCluster(t, c); got != ids[i] {
					t.Errorf("cluster ID on %s: got %s, want %s", n.Name, got, ids[i])
				}
				if got, want := n.Resolves(c.Slots[0]), n.Address; got != want {
					t.Errorf("%s takes its slot %s to be at %q, want %s", n.Name, c.Slots[0], got, want)
				}
				if got := aside(t, n); len(got) > 0 {
					t.Errorf("set aside on %s: %v", n.Name, got)
				}
				writers[i].Verify()
			}
		})
	}
}

// apart starts a cluster of one node, which knows other nodes only from a file that is still empty.
func apart(t *testing.T, node, slot string) *integration.Cluster {
	t.Helper()
	c := cluster(t, integration.Options{Nodes: 1, Slots: []string{slot}})
	c.Nodes[0].Name = node
	c.Set("gossip.seeds-file", seedsFile(c))
	must(t, os.WriteFile(seedsFile(c), nil, 0o600))
	c.Start()
	return c
}

func seedsFile(c *integration.Cluster) string { return filepath.Join(c.Dir, "seeds") }
