//go:build !etcd36

package integration_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/integration"
)

// older builds the holdfast that embeds etcd 3.6, once, for the first story that needs it.
var older = sync.OnceValues(func() (string, error) { return integration.BuildEtcd36(work) })

// bothBinaries returns the holdfast with etcd 3.6 and the one under test.
func bothBinaries(t *testing.T) (etcd36, etcd37 string) {
	t.Helper()
	etcd37, err := binary()
	must(t, err)
	began := time.Now()
	etcd36, err = older()
	must(t, err)
	t.Logf("the binary with etcd 3.6 was there after %s", time.Since(began).Round(time.Millisecond))
	return etcd36, etcd37
}

// Up, down and up again, one node at a time, under writes. No acknowledged write is lost, and the members stay equal.
func TestUpgradeAndDowngrade(t *testing.T) {
	story(t)
	old, now := bothBinaries(t)
	c := integration.New(t, old, integration.Options{})
	c.Start()
	c.Serving()
	atVersion(t, c, "3.6.0")

	w := c.Write()
	w.More(50)
	swap(t, c, w, now)
	atVersion(t, c, "3.7.0")
	w.More(50)
	w.Verify()

	down := c.Write()
	for to, says := range map[string]string{"3.5": "only 3.6 is possible", "3.8": "only 3.6 is possible", "six": "no version of etcd"} {
		if out := c.Nodes[0].Command("downgrade", "--to", to, "--yes"); out.Code != 1 || !strings.Contains(out.Err, says) {
			t.Errorf("downgrade to %s: code %d, %s%s", to, out.Code, out.Out, out.Err)
		}
	}
	if out := c.Nodes[0].Command("downgrade", "--to", "3.6", "--dry-run"); out.Code != 0 || !strings.Contains(out.Out, "nothing was changed") {
		t.Errorf("dry run: code %d, %s%s", out.Code, out.Out, out.Err)
	}
	tooOld(t, c, old, now)
	downgraded(t, c.Nodes[0])
	if out := c.Nodes[1].Command("downgrade", "--cancel", "--yes"); out.Code != 0 || !strings.Contains(out.Out, "is given up") {
		t.Errorf("cancel: code %d, %s%s", out.Code, out.Out, out.Err)
	}
	atVersion(t, c, "3.7.0")
	downgraded(t, c.Nodes[1])
	atVersion(t, c, "3.6.0")
	swap(t, c, down, old)
	down.More(50)
	down.Verify()
	if out := c.Nodes[2].Command("downgrade", "--to", "3.6"); out.Code != 0 || !strings.Contains(out.Out, "nothing is left to do") {
		t.Errorf("downgrade of what is downgraded: code %d, %s%s", out.Code, out.Out, out.Err)
	}

	again := c.Write()
	swap(t, c, again, now)
	atVersion(t, c, "3.7.0")
	again.More(50)
	again.Verify()
	w.Verify()
}

// swap gives every node another binary, one at a time and the leader last, as docs/upgrade.md says.
func swap(t *testing.T, c *integration.Cluster, w *integration.Writer, binary string) {
	t.Helper()
	leader := c.Leader()
	order := []*integration.Node{}
	for _, n := range c.Nodes {
		if n != leader {
			order = append(order, n)
		}
	}
	for i, n := range append(order, leader) {
		w.Gap()
		began := time.Now()
		n.Stop()
		n.Binary = binary
		n.Start()
		c.Healthy()
		w.More(20)
		t.Logf("%s has another binary and is healthy after %s; longest time without a write: %s", n.Name,
			time.Since(began).Round(10*time.Millisecond), w.Gap().Round(time.Millisecond))
		if i < len(order) {
			c.Leader().Says("the member list stays as it is until the minors are the same")
		}
	}
}

// atVersion waits until the cluster and every member's data are at a version.
func atVersion(t *testing.T, c *integration.Cluster, version string) {
	t.Helper()
	c.Until(30*time.Second, "every member is at etcd "+version, func() error {
		for _, n := range c.Nodes {
			s, err := n.Self()
			switch {
			case err != nil:
				return err
			case s.Etcd == nil:
				return errors.New(s.Why)
			case s.Etcd.ClusterVersion != version || s.Etcd.StorageVersion != version:
				return fmt.Errorf("%s is at %s, its data at %s", n.Name, s.Etcd.ClusterVersion, s.Etcd.StorageVersion)
			}
		}
		return nil
	})
}

// downgraded orders the cluster to downgrade to 3.6.
func downgraded(t *testing.T, n *integration.Node) {
	t.Helper()
	began := time.Now()
	out := n.Command("downgrade", "--to", "3.6", "--yes")
	if out.Code != 0 || !strings.Contains(out.Out, "replace the binary, one node at a time") {
		t.Fatalf("downgrade: code %d, %s%s", out.Code, out.Out, out.Err)
	}
	t.Logf("%s\nafter %s", out.Out, time.Since(began).Round(10*time.Millisecond))
}

// tooOld starts a node with an etcd that is too old for the cluster. The node waits, whether the others run or not,
// and loses nothing.
func tooOld(t *testing.T, c *integration.Cluster, old, now string) {
	t.Helper()
	n := c.Nodes[2]
	n.Stop()
	n.Binary = old
	n.Start()
	n.Says("does not start", "the cluster is at etcd 3.7.0", "embeds 3.6.", "holdfast downgrade --to 3.6")
	n.Stop()
	n.Binary = now
	n.Start()
	c.Healthy()
}

// A whole cluster is started with an etcd that is too old for its data. No other member can tell, but the data does.
func TestUpgradeBackedOutTooLate(t *testing.T) {
	story(t)
	old, now := bothBinaries(t)
	c := integration.New(t, now, integration.Options{Nodes: 1, Slots: []string{"a"}})
	c.Start()
	c.Serving()
	atVersion(t, c, "3.7.0")
	w := c.Write()
	w.More(20)
	w.Stop()
	n := c.Nodes[0]
	n.Stop()
	n.Binary = old
	n.Start()
	n.Says("slot a does not start", "it was made by etcd 3.7", "use a holdfast that embeds etcd 3.7 or newer")
	n.Stop()
	n.Binary = now
	n.Start()
	c.Healthy()
	w.Verify()
}
