package integration_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"holdfast/integration"
)

// Two of three nodes have a new configuration; one and the standbys have the old one. The cluster grows, and then the
// new members and the third node are a majority for the old configuration. The cluster must stay as it is, and say
// which node needs the new configuration. It once shrank again, so that two of three wanted five, and so on forever.
func TestGrowWithForgottenStandbys(t *testing.T) {
	story(t)
	c := unpinned(t, 5, "a", "b", "c")
	w := c.Write()
	w.More(20)
	five := []string{"a", "b", "c", "d", "e"}
	want([]*integration.Node{c.Holder("a"), c.Holder("b")}, five...)
	c.Until(patience, "the leader says why nothing is taken back", func() error {
		s, err := c.Leader().Self()
		if err == nil && !strings.Contains(s.Why, "cluster.slots a,b,c is wanted by 3 of 5 members' nodes") || !strings.Contains(s.Why, "and 2 of the 3 that would stay") {
			err = fmt.Errorf("it says %s", s.Why)
		}
		for _, n := range c.Nodes {
			for _, d := range n.Decisions() {
				if d.Action == "remove" || d.Action == "resize" && strings.Contains(d.Why, "want the slots a,b,c:") {
					t.Fatalf("%s takes it back: %s", n.Name, d.Why)
				}
			}
		}
		return err
	})
	members(c, five...)
	w.Verify()
}

// A SIGHUP does not kill a node that waits for its turn to stop. SIGHUP means a reload.
func TestHangUpWhileStopping(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"stop.wait": "4s"}})
	c.Healthy()
	n := c.Nodes[1]
	c.Nodes[2].Kill()
	n.Signal(syscall.SIGTERM)
	c.Until(patience, "it waits for its turn", func() error {
		if !strings.Contains(n.Log(), "shutdown requested") {
			return errors.New("it does not say so")
		}
		return nil
	})
	n.Signal(syscall.SIGHUP)
	if code := n.Exit(patience); code != 0 {
		t.Errorf("it ended with code %d", code)
	}
}
