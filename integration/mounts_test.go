package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdfast/integration"
)

// mounted makes a cluster of hosts with the same configuration, whose roots of local volumes are mounts that no fstab
// lists. Each host has its own backup store, so that no store vetoes a founding.
func mounted(t *testing.T) *integration.Cluster {
	t.Helper()
	c := machines(site(t), zones[0], zones[0], zones[0]).cluster
	for _, n := range c.Nodes {
		n.Root = filepath.Join(n.Dir, "volumes")
		n.Keys["volume.provider"], n.Keys["volume.local.root"], n.Keys["gossip.seeds"] = "local", n.Root, c.Addresses()
		n.Keys["snapshot.store"] = filepath.Join(n.Data, "snapshots")
		must(t, errors.Join(os.Mkdir(n.Root, 0o700), os.Mkdir(disk(n), 0o700)))
		mount(t, n)
	}
	return c
}

// disk is what is mounted at the root of a node's volumes.
func disk(n *integration.Node) string { return filepath.Join(n.Dir, "disk") }

func mount(t *testing.T, n *integration.Node) {
	t.Helper()
	if out, err := n.Machine.Host.Command(t.Context(), "mount", "--bind", disk(n), n.Root).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
}

func unmount(t *testing.T, n *integration.Node) {
	t.Helper()
	if out, err := n.Machine.Host.Command(t.Context(), "umount", n.Root).CombinedOutput(); err != nil {
		t.Fatalf("umount: %v: %s", err, out)
	}
}

// Every host starts before its disk is mounted. No node founds the cluster again, and each names the missing disk.
// When the disks are mounted, the cluster is back with its data.
func TestDisksMountedLate(t *testing.T) {
	c := mounted(t)
	c.Start()
	c.Serving()
	w := c.Write()
	w.More(20)
	before, id := c.Members(), oneCluster(t, c)
	held := map[string]string{}
	for _, n := range c.Nodes {
		s, err := n.Self()
		must(t, err)
		held[n.Name] = s.Volume.Disk
	}
	c.Stop()
	for _, n := range c.Nodes {
		unmount(t, n)
	}
	c.Start()
	for _, n := range c.Nodes {
		n.Says(held[n.Name], n.Root, "probably not mounted", "holdfast volume set-aside")
	}
	for _, n := range c.Nodes {
		for _, d := range n.Decisions() {
			if slices.Contains([]string{"promise", "commit", "start", "vacate"}, d.Action) {
				t.Errorf("%s decided to %s without its disk", n.Name, d.Action)
			}
		}
		mount(t, n)
		if code := n.Exit(10 * time.Second); code <= 0 { // a service manager starts it again
			t.Errorf("%s, with its disk mounted over what it held: exit code %d", n.Name, code)
		}
	}
	c.Start()
	c.Serving()
	sameMembers(t, c, before)
	if got := oneCluster(t, c); got != id {
		t.Errorf("cluster %s, want %s", got, id)
	}
	w.More(20)
	w.Verify()
}

// unpromised checks that no node has promised to found a cluster at the place to which the configuration was changed.
func unpromised(t *testing.T, c *integration.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		for _, d := range n.Decisions() {
			if d.Action == "promise" {
				t.Errorf("%s has promised to found a cluster at another place", n.Name)
			}
		}
	}
}

// A change of the configuration gives every host another root of volumes, and nothing else knows the cluster. It is
// not founded again there. With the right root it is back.
func TestRootChangedEverywhere(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	for _, n := range c.Nodes {
		delete(n.Keys, "volume.local.slot")
		n.Keys["snapshot.store"] = filepath.Join(n.Data, "snapshots")
	}
	c.Start()
	c.Serving()
	w := c.Write()
	w.More(20)
	id := oneCluster(t, c)
	c.Stop()
	for _, n := range c.Nodes {
		n.Keys["volume.local.root"] = filepath.Join(n.Data, "other")
	}
	c.Start()
	for _, n := range c.Nodes {
		n.Says("is not in "+filepath.Join(n.Data, "other"), "was held below "+n.Root)
	}
	c.Stop()
	unpromised(t, c)
	for _, n := range c.Nodes {
		n.Keys["volume.local.root"] = n.Root
	}
	c.Start()
	c.Serving()
	if got := oneCluster(t, c); got != id {
		t.Errorf("cluster %s, want %s", got, id)
	}
	w.Verify()
}

// A change of the configuration gives every host another data directory, with other volumes and another store. The
// unit's state directory stays and remembers the disk, so the cluster is not founded again.
func TestDataDirChangedEverywhere(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Env: []string{"STATE_DIRECTORY=" + t.TempDir()}})
	move := func(name string) {
		for _, n := range c.Nodes {
			n.Data = filepath.Join(n.Dir, name)
			n.Root = filepath.Join(n.Data, "volumes")
			n.Keys["snapshot.store"] = filepath.Join(n.Data, "snapshots")
			delete(n.Keys, "volume.local.slot")
		}
	}
	move("data")
	c.Start()
	c.Serving()
	w := c.Write()
	w.More(20)
	id := oneCluster(t, c)
	c.Stop()
	move("other")
	c.Start()
	for _, n := range c.Nodes {
		n.Says("is not in "+n.Root, "was held below "+filepath.Join(n.Dir, "data"))
	}
	c.Stop()
	unpromised(t, c)
	move("data")
	c.Start()
	c.Serving()
	if got := oneCluster(t, c); got != id {
		t.Errorf("cluster %s, want %s", got, id)
	}
	w.Verify()
}

// One host comes back with a blank disk in the place of its old one. It joins only when an operator says that the old
// disk is gone.
func TestMissingDiskIsGivenUp(t *testing.T) {
	c := mounted(t)
	c.Start()
	c.Serving()
	w := c.Write()
	w.More(20)
	n := c.Holder("b")
	old := c.Members()["b"].ID
	n.Stop()
	unmount(t, n)
	n.Start()
	n.Says("probably not mounted", "holdfast volume set-aside")
	w.More(20)
	if got := c.Members()["b"].ID; got != old {
		t.Errorf("member of slot b: got %x, want %x as long as its disk may come back", got, old)
	}
	done(t, n, "volume", "set-aside", "--yes")
	c.Until(time.Minute, "slot b is another voter", func() error {
		if m, ok := c.Members()["b"]; !ok || m.ID == old || m.Learner {
			return fmt.Errorf("member %x, learner %t; it was %x", m.ID, m.Learner, old)
		}
		return nil
	})
	c.Serving()
	n.Stop()
	n.Start() // the disk that it remembers now is the new one
	c.Serving()
	w.More(20)
	w.Verify()
}
