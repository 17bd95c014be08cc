package integration_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/integration"
	"holdfast/snapshot"
)

// overtaken makes slot c miss 20 writes that a backup has, and loses a and b as the test says. c comes back alone.
func overtaken(t *testing.T, c *integration.Cluster, lose func(n *integration.Node)) snapshot.Meta {
	t.Helper()
	c.Nodes[2].Kill()
	client := etcd(t, "", c.Nodes[:2]...)
	c.Until(patience, "a and b serve without c, which may have led", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := client.Get(ctx, "any")
		return err
	})
	for i := range 20 {
		_, err := client.Put(t.Context(), fmt.Sprintf("late/%d", i), "1")
		must(t, err)
	}
	saved := save(t, c.Nodes[0])
	for _, n := range c.Nodes[:2] {
		n.Kill()
		lose(n)
	}
	c.Nodes[2].Start()
	return saved
}

// late counts the writes that only the backup has, on every node.
func late(t *testing.T, c *integration.Cluster, want int64) {
	t.Helper()
	for _, n := range c.Nodes {
		got, err := etcd(t, "", n).Get(t.Context(), "late/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if must(t, err); got.Count != want {
			t.Errorf("%s has %d of the 20 writes, want %d", n.Name, got.Count, want)
		}
	}
}

// unproposed checks that nothing is proposed.
func unproposed(t *testing.T, c *integration.Cluster) {
	t.Helper()
	if all, err := filepath.Glob(filepath.Join(c.Store, "holdfast", "*", "restore-*")); err != nil || len(all) > 0 {
		t.Errorf("proposed: %v, %v", all, err)
	}
}

// A survivor is refused if the newest backup holds more. The error names the restore that keeps more, and that restore
// keeps the writes.
func TestRecoverBehindABackup(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	b := overtaken(t, c, func(n *integration.Node) { n.Wipe() })
	n := c.Nodes[2]
	again := "holdfast restore " + b.Name + " --lost a,b"
	n.Says("waits for a quorum", "holds more than slot c", "`"+again+"`")
	for _, args := range [][]string{nil, {"--yes", "--lost", "a,b"}, {"--yes", "--lost", "a,b", "--survivor", "c"}, {"--yes", "--lost", "a,b", "--survivor", "c", "--despite-backup", "unknown"}} {
		o := n.Command(append([]string{"recover"}, args...)...)
		if o.Code == 0 || !strings.Contains(o.Err, again) || !strings.Contains(o.Err, "holdfast recover --lost a,b --survivor c --despite-backup "+b.Name+" --yes") || !strings.Contains(o.Err, "nothing was changed") {
			t.Errorf("recover %v: exit code %d: %s%s", args, o.Code, o.Out, o.Err)
		}
		if !strings.Contains(o.Out, "it holds MORE than slot c") || strings.Contains(o.Out, "to do it:") {
			t.Errorf("recover %v shows %s", args, o.Out)
		}
	}
	unproposed(t, c)
	for _, lost := range c.Nodes[:2] {
		lost.Start()
	}
	done(t, n, append(strings.Fields(again)[1:], "--yes")...)
	generation(t, c, 2)
	allVoters(t, c)
	late(t, c, 20)
}

// The store goes back in time after a survivor has seen the newest backup there. The survivor does not forget it.
func TestRecoverFromAStoreThatWentBack(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"cluster.recovery": "automatic"}})
	save(t, c.Nodes[0])
	b := overtaken(t, c, func(n *integration.Node) { must(t, os.RemoveAll(filepath.Join(n.Volume(), "etcd"))) })
	n := c.Nodes[2]
	n.Says("waits for a quorum", "backup "+b.Name, "holds more than slot c")
	must(t, os.RemoveAll(filepath.Join(c.Store, b.Name)))
	must(t, os.Remove(filepath.Join(c.Store, "holdfast", c.Name, "newest.json")))
	for _, lost := range c.Nodes[:2] {
		lost.Start()
	}
	n.Says("waits for a quorum", "a: vacant on n1", "b: vacant on n2", "backup "+b.Name, "holds more than slot c")
	o := n.Command("recover", "--lost", "a,b", "--yes")
	if o.Code == 0 || !strings.Contains(o.Err, "a node has seen backup "+b.Name) ||
		!strings.Contains(o.Err, "nothing was changed") {
		t.Errorf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	unproposed(t, c)
	c.Kill()
}

// A node never continues automatically from less than a backup holds, although the loss is proven. An operator can, by
// naming both. The revision is raised beyond that of the backup.
func TestRecoverDespiteABackup(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"cluster.recovery": "automatic", "restore.revision-bump": 1}})
	b := overtaken(t, c, func(n *integration.Node) { must(t, os.RemoveAll(filepath.Join(n.Volume(), "etcd"))) })
	for _, lost := range c.Nodes[:2] {
		lost.Start()
	}
	n := c.Nodes[2]
	n.Says("waits for a quorum", "a: vacant on n1", "b: vacant on n2", "backup "+b.Name, "holds more than slot c")
	unproposed(t, c)
	o := n.Command("recover", "--lost", "a,b", "--survivor", "c", "--despite-backup", b.Name)
	if o.Code != 0 || !strings.Contains(o.Out, "to do it: holdfast recover --lost a,b --survivor c --despite-backup "+b.Name+" --yes") {
		t.Errorf("plan: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if o := n.Command("recover", "--lost", "a,b", "--survivor", "c", "--despite-backup", b.Name, "--yes"); o.Code != 0 || !strings.Contains(o.Out, "recovered from slot c") {
		t.Fatalf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	generation(t, c, 2)
	allVoters(t, c)
	late(t, c, 0)
	got, err := etcd(t, "", n).Get(t.Context(), "any")
	if must(t, err); got.Header.Revision <= b.Content.Revision {
		t.Errorf("it serves at revision %d, and the backup that was given up ends at %d", got.Header.Revision, b.Content.Revision)
	}
}

// The sidecar of the newest backup is cut short, so that nobody knows what it holds: by itself nobody continues from a
// member that may hold less, although there is an older backup that can be read. An operator can.
func TestRecoverBehindADamagedBackup(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"cluster.recovery": "automatic"}})
	save(t, c.Nodes[0])
	b := overtaken(t, c, func(n *integration.Node) {
		must(t, os.RemoveAll(filepath.Join(n.Volume(), "etcd")))
		all, err := filepath.Glob(filepath.Join(c.Store, "*", "holdfast.meta.json"))
		must(t, err)
		must(t, os.Truncate(all[len(all)-1], 100)) // sorted: of the newest
	})
	for _, lost := range c.Nodes[:2] {
		lost.Start()
	}
	n := c.Nodes[2]
	n.Says("recovery is automatic, and waits: the newest backup is not known", b.Name+" does not tell what it holds")
	unproposed(t, c)
	refused(t, n, b.Name+" does not tell", "recover", "--lost", "a,b", "--yes")
	if o := n.Command("recover", "--lost", "a,b", "--survivor", "c", "--despite-backup", "unknown", "--yes"); o.Code != 0 || !strings.Contains(o.Out, "recovered from slot c") {
		t.Fatalf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	generation(t, c, 2)
	allVoters(t, c)
	late(t, c, 0)
}
