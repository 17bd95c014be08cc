package integration_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/integration/tier"
)

// hash returns a digest of the names and contents of all files below dir.
func hash(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		io.WriteString(h, strings.TrimPrefix(path, dir)+"\x00")
		_, err = io.Copy(h, f)
		return err
	})
	must(t, err)
	return hex.EncodeToString(h.Sum(nil))
}

// place copies a directory to a path that does not exist yet.
func place(t *testing.T, from, to string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(to), 0o700)
	if err == nil {
		err = os.CopyFS(to, os.DirFS(from))
	}
	must(t, err)
}

// must fails the test for an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// foreign makes a cluster of one member with some data, and returns its data directory.
func foreign(t *testing.T) string {
	t.Helper()
	other := founded(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	w := other.Write()
	w.More(20)
	w.Stop()
	other.Stop()
	return filepath.Join(other.Nodes[0].Volume(), "etcd")
}

// A founding node's volume has another cluster's data. All nodes wait, and nothing is touched. When the operator has
// it set aside, the founding continues.
func TestForeignData(t *testing.T) {
	t.Parallel() // its parts are stories
	cases := map[string]string{
		"without identity": "holds data but no identity.json",
		"with identity":    "holds etcd data of a cluster that nobody here knows",
		"etcd-manager's":   "holds data but no identity.json",
	}
	for _, name := range tier.One(t, cases) {
		t.Run(name, func(t *testing.T) {
			story(t)
			data := foreign(t)
			c := cluster(t, integration.Options{})
			victim := c.Nodes[1]
			if name == "with identity" {
				victim.Start()
				victim.Says("slots a, c have no live holder")
				victim.Stop()
			}
			below := "etcd"
			if name == "etcd-manager's" {
				below = "data/token"
			}
			etcd := filepath.Join(victim.Volume(), below)
			place(t, data, etcd)
			if below != "etcd" {
				must(t, os.WriteFile(filepath.Join(victim.Volume(), "state"), []byte("state"), 0o600))
			}
			before := hash(t, etcd)
			c.Start()
			victim.Says(cases[name], "holdfast volume set-aside")
			c.Nodes[0].Says("the disk of slot b on node n2 is not blank")
			if got := hash(t, etcd); got != before {
				t.Errorf("the foreign data was touched")
			}
			for _, args := range [][]string{{}, {"--dry-run"}} {
				o := victim.Command(append([]string{"volume", "set-aside"}, args...)...)
				if unsure := len(args) == 0; unsure != (o.Code != 0 && strings.Contains(o.Err, "say --yes")) ||
					!strings.Contains(o.Out, victim.Volume()+", holds ") || hash(t, etcd) != before {
					t.Errorf("set aside %v: got %+v", args, o)
				}
				if got := strings.Contains(o.Out, "WARNING: that is the data of a cluster of etcd-manager (state, data/token)"); got != (below != "etcd") {
					t.Errorf("set aside %v: got %+v", args, o)
				}
			}
			done(t, victim, "volume", "set-aside", "--yes")
			c.Serving()
			kept, err := filepath.Glob(filepath.Join(victim.Volume(), "aside", "*"))
			must(t, err)
			if len(kept) != 1 {
				t.Fatalf("set aside: %v", kept)
			}
			aside := filepath.Join(kept[0], below)
			if got := hash(t, aside); got != before {
				t.Errorf("%s is not what was set aside", aside)
			}
			oneCluster(t, c)
			w := c.Write()
			w.More(20)
			w.Verify()
		})
	}
}

// Nodes on one machine share a root: one holds the only slot, and the other stands by and takes over.
func TestStandbyTakesOver(t *testing.T) {
	story(t)
	c := shared(t, 2, "a")
	c.Start()
	c.Serving()
	w := c.Write()
	w.More(20)
	first := c.Leader()
	first.Kill()
	c.Serving()
	if got := c.Holder("a"); got == first {
		t.Errorf("the holder is still %s", got.Name)
	}
	w.More(20)
	w.Verify()
}

// shared returns a cluster whose nodes share a root on one machine.
func shared(t *testing.T, nodes int, slots ...string) *integration.Cluster {
	t.Helper()
	c := cluster(t, integration.Options{Nodes: nodes, Slots: slots, Keys: map[string]any{
		"volume.local.scope": "machine", "volume.local.takeover-after": "2s",
	}})
	for _, n := range c.Nodes {
		n.Root = filepath.Join(c.Dir, "volumes")
		delete(n.Keys, "volume.local.slot")
	}
	must(t, os.Mkdir(filepath.Join(c.Dir, "volumes"), 0o700))
	return c
}

// Four nodes, three slots: the standby takes a killed node's slot with its data, and the member list does not change.
func TestStandbyTakesSlot(t *testing.T) {
	story(t)
	c := shared(t, 4, "a", "b", "c")
	c.Start()
	c.Serving()
	w := c.Write()
	w.More(20)
	before := c.Members()
	var standby *integration.Node
	c.Until(20*time.Second, "a node stands by", func() error {
		for _, n := range c.Nodes {
			s, err := n.Self()
			if err != nil {
				return err
			}
			if s.State == "standby" {
				standby = n
				return nil
			}
		}
		return os.ErrNotExist
	})
	victim := c.Holder("b")
	victim.Kill()
	c.Serving()
	if got := c.Holder("b"); got != standby {
		t.Errorf("slot b: got %s, want the standby %s", got.Name, standby.Name)
	}
	sameMembers(t, c, before)
	victim.Start() // finds its slot taken, and stands by
	waitsOnStandby(c, victim)
	w.More(20)
	w.Verify()
}

// Five hosts with the same configuration, which names no slot, share three slots. They claim them at the same moment,
// so that several promise with themselves in a slot. Those that come late become free again.
func TestIdenticalHosts(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Nodes: 5, Slots: []string{"a", "b", "c"}})
	for _, n := range c.Nodes {
		delete(n.Keys, "volume.local.slot")
	}
	c.Start()
	c.Serving()
	c.Until(patience, "two nodes stand by", func() error {
		standing := 0
		for _, n := range c.Nodes {
			s, err := n.Self()
			if err != nil {
				return err
			}
			if s.Volume == nil {
				standing++
			}
		}
		if standing != 2 {
			return fmt.Errorf("%d do", standing)
		}
		return nil
	})
	oneCluster(t, c)
	for _, slot := range c.Slots {
		c.Holder(slot)
	}
	w := c.Write()
	w.More(20)
	before := c.Members()
	c.Kill()
	c.Start() // each finds its own slot again
	c.Serving()
	sameMembers(t, c, before)
	w.More(20)
	w.Verify()
}

// The volume of a serving node disappears. The process ends at once with an error, the others continue, and a blank
// disk in its place becomes a new member.
func TestVolumeLost(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(20)
	n := c.Leader()
	replaced(t, c, n, func() {
		begin := time.Now()
		must(t, os.Rename(n.Volume(), n.Volume()+".lost"))
		if code := n.Exit(5 * time.Second); code <= 0 {
			t.Errorf("exit code %d", code)
		}
		t.Logf("ended after %s", time.Since(begin).Round(time.Millisecond))
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("it took %s to end", took)
		}
		w.More(20)
		must(t, os.Mkdir(n.Volume(), 0o700)) // an empty directory in the place of the disk: the disk may not be mounted
		n.Start()
		n.Says("was formatted there: is it not mounted?")
		n.Stop()
		must(t, os.Remove(n.Volume()))
		n.Start()
	})
	decided(t, n, "accept") // as a learner
	w.More(20)
	w.Verify()
}

// The ledger of a member's data is missing. It is written again from what the other nodes know, or from the store.
func TestLedgerMissing(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(20)
	before := c.Members()
	n := c.Nodes[1]
	n.Kill()
	must(t, os.Remove(filepath.Join(n.Volume(), "founding.json")))
	n.Start()
	c.Serving()
	decided(t, n, "repair")
	c.Kill()
	for _, n := range c.Nodes {
		must(t, os.Remove(filepath.Join(n.Volume(), "founding.json")))
	}
	c.Start()
	c.Serving()
	sameMembers(t, c, before)
	w.More(20)
	w.Verify()
}

// decided checks that a node has decided on an action since its last start.
func decided(t *testing.T, n *integration.Node, action string) {
	t.Helper()
	var all []string
	for _, d := range n.Decisions() {
		if d.Action == action {
			return
		}
		all = append(all, d.Action)
	}
	t.Errorf("%s never decided to %s: %v", n.Name, action, all)
}

// threeAndOne returns a serving cluster of three, its members, a writer that has written, and a fourth host on which
// nothing runs.
func threeAndOne(t *testing.T) (c *integration.Cluster, fourth *integration.Node, w *integration.Writer,
	before map[string]integration.Member) {
	t.Helper()
	c = cluster(t, integration.Options{Nodes: 4})
	for _, n := range c.Nodes[:3] {
		n.Start()
	}
	c.Serving()
	w = c.Write()
	w.More(20)
	return c, c.Nodes[3], w, c.Members()
}

// A copy of a running slot's volume appears on another host. It does not start, and the slot's name stays with the
// original.
func TestClone(t *testing.T) {
	story(t)
	c, thief, w, before := threeAndOne(t)
	place(t, c.Nodes[1].Volume(), filepath.Join(thief.Root, "b"))
	thief.Start()
	thief.Says("node n2 runs slot b", "does not start")
	w.More(50)
	sameMembers(t, c, before)
	for _, n := range c.Nodes[:3] {
		if got, want := n.Resolves("b"), c.Nodes[1].Address; got != want {
			t.Errorf("%s takes slot b to be at %s, want %s", n.Name, got, want)
		}
	}
	if s, err := c.Nodes[1].Self(); err != nil || s.Etcd == nil || !s.Etcd.HasLead {
		t.Errorf("n2 does not serve: %+v, %v", s, err)
	}
	w.Verify()
}

// A member's disk is copied to another host while it is down, and both are started at the same moment. Only one of
// them runs the member, and the other says so.
func TestCopiesStartAtOnce(t *testing.T) {
	story(t)
	c, other, w, before := threeAndOne(t)
	both := []*integration.Node{c.Nodes[1], other}
	both[0].Stop()
	place(t, both[0].Volume(), filepath.Join(both[1].Root, "b"))
	for _, n := range both {
		n.Start()
	}
	c.Until(patience, "one of both runs slot b, and the other waits", func() error {
		var runs, waits []string
		for _, n := range both {
			s, err := n.Self()
			switch {
			case err != nil:
				return err
			case s.Etcd != nil:
				runs = append(runs, n.Name)
			case strings.Contains(s.Why, "does not start; stop one of the two"):
				waits = append(waits, n.Name)
			}
		}
		if len(runs) > 1 {
			t.Fatalf("%v both run slot b", runs)
		}
		if len(runs)+len(waits) < 2 {
			return fmt.Errorf("%v run it, %v wait", runs, waits)
		}
		return nil
	})
	w.More(50)
	sameMembers(t, c, before)
	w.Verify()
}

// An operator brings a node back with etcd's directory from its neighbour, while all are down, and starts all at once.
// Two processes would run that neighbour's member. The copy never starts, says whose it is, and makes way for a
// replacement on the operator's order.
func TestCopyInAnotherSlot(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(20)
	w.Stop()
	before := c.Members()
	c.Stop()
	own, other := c.Nodes[0], c.Nodes[1]
	dir := filepath.Join(other.Volume(), "etcd")
	must(t, os.RemoveAll(dir))
	place(t, filepath.Join(own.Volume(), "etcd"), dir)
	copied := hash(t, dir)
	c.Start()
	other.Says("etcd data on slot b is not that of its own member", "which is slot a", "holdfast volume set-aside")
	c.Until(patience, "the others serve", func() error {
		for _, n := range []*integration.Node{own, c.Nodes[2]} {
			if s, err := n.Self(); err != nil || s.Etcd == nil || !s.Etcd.HasLead {
				return fmt.Errorf("%s: %+v, %v", n.Name, s.Etcd, err)
			}
		}
		return nil
	})
	if s, err := other.Self(); err != nil || s.Etcd != nil {
		t.Errorf("%s runs the copy: %+v, %v", other.Name, s.Etcd, err)
	}
	if hash(t, dir) != copied {
		t.Error("the copy was touched")
	}
	done(t, other, "volume", "set-aside", "--yes")
	c.Healthy()
	if after := c.Members(); after["a"] != before["a"] || after["b"] == before["b"] {
		t.Errorf("members: %v, and before %v", after, before)
	}
	w.Verify()
}
