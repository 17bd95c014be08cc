package integration_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/integration"
)

// The stories of this file come from the test lists of other projects, as far as no other file covers them;
// docs/scenarios.md has the lists. The originals check only health, but these check the data.

// The only node is killed, and started again.
func TestKillAlone(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	w := c.Write()
	w.More(50)
	c.Kill()
	c.Start()
	c.Serving()
	w.More(20)
	w.Verify()
}

// corrupt overwrites the whole database of a node that does not run.
func corrupt(t *testing.T, n *integration.Node) {
	t.Helper()
	db := filepath.Join(n.Volume(), "etcd", "member", "snap", "db")
	info, err := os.Stat(db)
	must(t, err)
	must(t, os.WriteFile(db, []byte(strings.Repeat("garbage ", int(info.Size()/8))), 0o600))
}

// orderSetAside gives the order to set aside data on which etcd cannot start. It repeats the order, which is refused
// while the node tries to start etcd.
func orderSetAside(t *testing.T, c *integration.Cluster, n *integration.Node) {
	t.Helper()
	c.Until(patience, n.Name+" sets its data aside", func() error {
		if o := n.Command("volume", "set-aside", "--yes"); o.Code != 0 {
			return errors.New(o.Err)
		}
		return nil
	})
}

// A member's database is overwritten. Its node does not serve and does not crash; it names the file and the command.
// The others serve. The operator gives the command, and the slot comes back as a learner. The same happens to another
// member while the other two are down, which come back first.
func TestCorruptOne(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(50)
	n := c.Nodes[1]
	replaced(t, c, n, func() {
		n.Kill()
		corrupt(t, n)
		n.Start()
		n.Logs("action failed", "the database is damaged", "holdfast volume set-aside")
		w.More(100)
		orderSetAside(t, c, n)
	})
	alive(t, c.Nodes...)
	w.More(20)

	n = c.Nodes[2]
	replaced(t, c, n, func() {
		c.Kill()
		corrupt(t, n)
		n.Start()
		c.Nodes[0].Start()
		c.Nodes[1].Start()
		w.More(50)
		orderSetAside(t, c, n)
	})
	alive(t, c.Nodes...)
	w.More(20)
	w.Verify()
}

// The database of the only node is overwritten. The node founds nothing again, and its newest backup is restored.
func TestCorruptAlone(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	n := c.Nodes[0]
	w := c.Write()
	w.More(50)
	saved := w.Snapshot()
	save(t, n)
	w.More(20)
	w.Stop()
	n.Kill()
	corrupt(t, n)
	n.Start()
	orderSetAside(t, c, n)
	n.Says("holdfast restore latest --lost a")
	restore(t, n, "latest", "--lost", "a")
	c.Serving()
	found := map[string]string{}
	got, err := etcd(t, "", n).Get(t.Context(), "", clientv3.WithPrefix())
	must(t, err)
	for _, kv := range got.Kvs {
		found[string(kv.Key)] = string(kv.Value)
	}
	if err := saved.Compare(found); err != nil {
		t.Error(err)
	}
}
