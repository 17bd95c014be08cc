package integration_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/embedded/plan"
	"holdfast/integration"
)

// keepCopy copies a stopped node's disks, and returns a function that puts the copy back.
func keepCopy(t *testing.T, n *integration.Node) (back func()) {
	t.Helper()
	older := n.Root + "-older"
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", n.Root, older).CombinedOutput(); err != nil {
		t.Fatalf("copy the disk: %v: %s", err, out)
	}
	return func() {
		t.Helper()
		must(t, os.RemoveAll(n.Root))
		must(t, os.Rename(older, n.Root))
	}
}

func rolledBack(t *testing.T, n *integration.Node) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(n.Volume(), "aside", "*-rolled-back", "member"))
	must(t, err)
	return found
}

// A disk is reset to an older state, in which it had acknowledged less. etcd would panic on it again and again. The
// node says so, makes way for a replacement, and its slot is a voter again. No acknowledged write is lost, and the
// disk's data is kept.
func TestRolledBackDisk(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"restore.reclaim-after": "2s"}})
	w := c.Write()
	w.More(50)
	leader := c.Leader()
	n := c.Nodes[slices.IndexFunc(c.Nodes, func(n *integration.Node) bool { return n != leader })]
	slot := n.Keys["volume.local.slot"].(string)
	before := c.Members()
	n.Stop()
	back := keepCopy(t, n)
	n.Start()
	c.Healthy()
	w.More(50)
	n.Stop()
	back()
	w.More(20)
	n.Start()
	c.Until(patience, "the disk makes way", func() error {
		if !n.Running() {
			t.Fatalf("the process ended: %s", n.Report())
		}
		if len(rolledBack(t, n)) == 0 {
			s, err := n.Self()
			return errors.Join(err, fmt.Errorf("it says %s: %s", s.Action, s.Why))
		}
		return nil
	})
	c.Healthy()
	said := slices.IndexFunc(n.Decisions(), func(d integration.Decision) bool {
		return d.Action == "set-aside" && strings.Contains(d.Why, "the disk of slot "+slot+" went back in time")
	})
	if said < 0 || len(rolledBack(t, n)) != 1 {
		t.Errorf("it said %+v, and has set aside %v", n.Decisions(), rolledBack(t, n))
	}
	if strings.Contains(n.Log(), "tocommit") {
		t.Errorf("etcd panicked: %s", n.Report())
	}
	for name, m := range c.Members() {
		if was := before[name]; m.Learner || (m.ID == was.ID) == (name == slot) {
			t.Errorf("member %s is %+v, and was %+v", name, m, was)
		}
	}
	c.Until(patience, "the status tells what is kept, however soon the rest is reclaimed", func() error {
		s, err := n.Self()
		if err != nil || !slices.ContainsFunc(s.Aside, func(a plan.Aside) bool { return a.Reason == "rolled-back" && a.Reclaimed == nil }) {
			return errors.Join(err, fmt.Errorf("aside: %+v", s.Aside))
		}
		return nil
	})
	w.Verify()
}

// All disks are reset together. No leader can notice it, and they serve what they have.
func TestRolledBackFleet(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(50)
	w.Stop()
	c.Stop()
	var back []func()
	for _, n := range c.Nodes {
		back = append(back, keepCopy(t, n))
	}
	c.Start()
	c.Healthy()
	lost := c.Write()
	lost.More(50)
	lost.Stop()
	c.Stop()
	for _, put := range back {
		put()
	}
	c.Start()
	c.Healthy()
	for _, n := range c.Nodes {
		if aside := rolledBack(t, n); len(aside) > 0 {
			t.Errorf("%s has set aside %v", n.Name, aside)
		}
	}
	w.Verify()
}
