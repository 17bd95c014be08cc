package integration_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/embedded/health"
	"holdfast/integration"
)

// A node has no configuration except an address that keeps it apart from other tests. It founds a cluster of one, and
// all its files are below its working directory.
func TestFoundAlone(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	n := c.Nodes[0]
	address := "HOLDFAST_NODE_ADDRESS=" + n.Address
	n.Run(nil, address)
	c.Healthy()
	if o := n.Holdfast("status"); o.Code != 0 || !strings.Contains(o.Out, "HEALTHY") {
		t.Errorf("status: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	w := c.Write()
	w.More(20)
	n.Kill()
	n.Run(nil, address)
	c.Healthy()
	w.More(20)
	w.Verify()
	if code := n.Stop(); code < 0 {
		t.Error(code)
	}
}

// The exit code of `holdfast status` shows the health of the cluster.
func TestStatusCodes(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	n := c.Nodes[0]
	code := func(want int, words ...string) {
		t.Helper()
		c.Until(patience, fmt.Sprintf("the exit code is %d", want), func() error {
			o := n.Command("status")
			if o.Code != want {
				return fmt.Errorf("it is %d: %s%s", o.Code, o.Out, o.Err)
			}
			for _, word := range words {
				if !strings.Contains(o.Out+o.Err, word) {
					return fmt.Errorf("%q is not in %s%s", word, o.Out, o.Err)
				}
			}
			return nil
		})
	}
	code(0, "HEALTHY")
	save(t, n) // without any backup there is a finding
	views(t, c, health.Healthy)
	alerts(t, c)
	c.Nodes[1].Kill()
	code(1, "DEGRADED", "slot b has no live holder")
	views(t, c, health.Degraded)
	alerts(t, c, "HoldfastFindingDegraded", "HoldfastMemberAway")
	c.Nodes[2].Kill()
	code(2, "NO QUORUM", "slot c has no live holder")
	views(t, c, health.NoQuorum)
	alerts(t, c, "HoldfastFindingCritical", "HoldfastNoQuorum", "HoldfastWaits")
	n.Kill()
	code(3, "no node answers", n.Socket())
	var s health.ClusterStatus
	c.Start()
	c.Healthy()
	ask(t, n, &s, "status", "-o", "json")
	if s.Health != health.Healthy || len(s.Nodes) != 3 {
		t.Errorf("status -o json: %+v", s)
	}
}

// A node with another gossip key, and a node of another cluster, change nothing. Neither side sees the other, and both
// report the problem.
func TestStrangers(t *testing.T) {
	t.Parallel() // its parts are stories
	key := func(t *testing.T, c *integration.Cluster, name string, fill byte) string {
		path := filepath.Join(c.Dir, name)
		data := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(fill)), 32)))
		must(t, os.WriteFile(path, []byte(data+"\n"), 0o600))
		return path
	}
	for _, s := range []struct {
		name, problem string
		estrange      func(t *testing.T, c *integration.Cluster, stranger *integration.Node)
	}{
		{"key", "another gossip.key-file", func(t *testing.T, c *integration.Cluster, stranger *integration.Node) {
			c.Set("gossip.key-file", key(t, c, "key", 'k'))
			stranger.Keys["gossip.key-file"] = key(t, c, "wrong", 'w')
		}},
		{"cluster", "another cluster", func(_ *testing.T, _ *integration.Cluster, stranger *integration.Node) {
			stranger.Keys["cluster.name"] = "other"
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			story(t)
			c := cluster(t, integration.Options{Nodes: 4})
			stranger := c.Nodes[3]
			s.estrange(t, c, stranger)
			for _, n := range c.Nodes[:3] {
				n.Start()
			}
			c.Serving()
			stranger.Start()
			c.Until(patience, "both sides say what is wrong", func() error {
				for _, n := range []*integration.Node{stranger, c.Nodes[0]} {
					self, err := n.Self()
					if err != nil {
						return err
					}
					if !strings.Contains(strings.Join(health.Texts(self.Found), "\n"), s.problem) {
						return fmt.Errorf("%s says %q", n.Name, health.Texts(self.Found))
					}
				}
				return nil
			})
			for _, n := range c.Nodes {
				status, err := n.Status()
				must(t, err)
				if want := map[bool]int{true: 1, false: 3}[n == stranger]; len(status.Nodes) != want {
					t.Errorf("%s knows %d nodes, want %d", n.Name, len(status.Nodes), want)
				}
				if n == stranger {
					continue
				}
				c.Until(patience, n.Name+" is healthy, and warns of the stranger", func() error {
					if o := n.Command("status"); o.Code != 0 || !strings.Contains(o.Out, s.problem) {
						return fmt.Errorf("exit code %d: %s%s", o.Code, o.Out, o.Err)
					}
					return nil
				})
			}
			stranger.Kill()
			w := c.Write()
			w.More(20)
			w.Verify()
		})
	}
}
