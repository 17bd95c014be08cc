package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/embedded/health"
	"holdfast/integration"
)

// listed waits until every node lists the stray as live or lost or, with "", does not list it.
func listed(c *integration.Cluster, stray, want string) {
	c.Until(patience, fmt.Sprintf("%s is %q to all", stray, want), func() error {
		for _, n := range c.Running() {
			s, err := n.Status()
			if err != nil {
				return err
			}
			got := ""
			if i := slices.IndexFunc(s.Nodes, func(m health.NodeStatus) bool { return m.Node == stray }); i >= 0 {
				got = map[bool]string{true: "live", false: "lost"}[s.Nodes[i].Live]
			}
			if got != want {
				return fmt.Errorf("to %s it is %q", n.Name, got)
			}
		}
		return nil
	})
}

func TestForgetStray(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	key := filepath.Join(c.Dir, "gossip.key")
	must(t, os.WriteFile(key, []byte(c.Nodes[0].Holdfast("gossip", "keygen").Out), 0o600))
	c.Set("gossip.key-file", key)
	c.Start()
	c.Healthy()
	w := c.Write()

	// A drill with the same name and key founds a cluster of its own, and then gets connected here.
	other := cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	stray := other.Nodes[0]
	stray.Name = "stray"
	other.Set("gossip.key-file", key)
	other.Set("gossip.seeds-file", seedsFile(other))
	must(t, os.WriteFile(seedsFile(other), nil, 0o600))
	other.Start()
	other.Serving()
	must(t, os.WriteFile(seedsFile(other), []byte(c.Nodes[0].Address+"\n"), 0o600))
	listed(c, "stray", "live")
	n1, n2 := c.Nodes[0], c.Nodes[1]
	if out := n1.Command("gossip", "forget", "stray"); out.Code != 1 || !strings.Contains(out.Err, "stray is live") {
		t.Errorf("a live node: got %+v", out)
	}
	stray.Stop()
	listed(c, "stray", "lost")

	c.Until(patience, "the status names the command", func() error {
		out := n2.Command("status")
		if out.Code != 1 || !strings.Contains(out.Out, "`holdfast gossip forget stray`") {
			return fmt.Errorf("%+v", out)
		}
		return nil
	})
	for name, want := range map[string]string{"starry": "lost are stray", "n2": "n2 is live", "n1": "ask another"} {
		if out := n1.Command("gossip", "forget", name); out.Code != 1 || !strings.Contains(out.Err, want) {
			t.Errorf("forget %s: got %+v, want %s", name, out, want)
		}
	}
	c.Until(patience, "a dry run says that it would", func() error { // not before all nodes have heard of it equally recently
		if out := n1.Command("gossip", "forget", "stray", "--dry-run"); out.Code != 0 || !strings.Contains(out.Out, "would forget stray") {
			return fmt.Errorf("got %+v", out)
		}
		return nil
	})
	listed(c, "stray", "lost")

	// One of the nodes is suspended meanwhile. It still knows the stray when it continues, and then forgets it.
	n3 := c.Nodes[2]
	n3.Pause()
	c.Until(patience, "n3 is lost", func() error {
		for _, n := range []*integration.Node{n1, n2} {
			if s, err := n.Status(); err != nil || slices.ContainsFunc(s.Nodes, func(m health.NodeStatus) bool {
				return m.Node == n3.Name && m.Live
			}) {
				return fmt.Errorf("to %s it is live: %v", n.Name, err)
			}
		}
		return nil
	})
	out := n1.Command("gossip", "forget", "stray", "-o", "json")
	n3.Continue()
	var report struct {
		Node, Slot, Record string
		Told               []string
		Untold             map[string]string
	}
	if err := json.Unmarshal([]byte(out.Out), &report); err != nil || out.Code != 0 {
		t.Fatalf("forget: %+v, %v", out, err)
	}
	if report.Node != "stray" || report.Slot != "a" || !strings.HasPrefix(report.Record, c.Name+"@") ||
		len(report.Told) != 2 || len(report.Untold) > 0 {
		t.Errorf("got %+v", report)
	}
	listed(c, "stray", "")
	c.Healthy()

	// The stray does not come back by gossip of other nodes, and keeps no member from starting again.
	for _, n := range c.Nodes {
		n.Stop()
		n.Start()
		c.Healthy()
		listed(c, "stray", "")
	}
	w.More(20)
	w.Verify()

	stray.Start() // a running node counts again
	listed(c, "stray", "live")
}
