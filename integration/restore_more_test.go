package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"holdfast/integration"
	"holdfast/snapshot"
)

// beforeAndAfter saves a backup with the key "precious" and without the key "late", and returns its name.
func beforeAndAfter(t *testing.T, c *integration.Cluster) string {
	t.Helper()
	client := etcd(t, "", c.Nodes...)
	_, err := client.Put(t.Context(), "precious", "1")
	must(t, err)
	saved := save(t, c.Nodes[0])
	_, err = client.Put(t.Context(), "late", "1")
	must(t, err)
	return saved.Name
}

// holdsOnly checks that every node has the saved keys, and not the later ones.
func holdsOnly(t *testing.T, c *integration.Cluster) {
	t.Helper()
	oneCluster(t, c)
	for _, n := range c.Nodes {
		client := etcd(t, "", n)
		for key, want := range map[string]int64{"precious": 1, "late": 0} {
			got, err := client.Get(t.Context(), key, clientv3.WithCountOnly())
			if must(t, err); got.Count != want {
				t.Errorf("%s: key %s: got %d, want %d", n.Name, key, got.Count, want)
			}
		}
	}
}

// setAside returns the data that was set aside on a node's volume.
func setAside(n *integration.Node) []string {
	all, _ := filepath.Glob(filepath.Join(n.Volume(), "aside", "*", "member"))
	return all
}

// After a restore the newest backup holds what was discarded. The schedule replaces it at once.
func TestRestoreIsBackedUp(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Nodes: 1, Slots: []string{"a"}, Keys: map[string]any{"snapshot.every": "1h"}})
	n := c.Nodes[0]
	restore(t, n, beforeAndAfter(t, c))
	c.Until(patience, "the new generation has a backup", func() error {
		var all []snapshot.Backup
		ask(t, n, &all, "snapshot", "list", "-o", "json")
		if newest := all[len(all)-1]; newest.Generation != 2 || newest.Problem != "" {
			return fmt.Errorf("the newest of %d is of generation %d: %s", len(all), newest.Generation, newest.Problem)
		}
		return nil
	})
	restore(t, n, "latest")
	holdsOnly(t, c)
}

// An encrypted backup is restored if operator and nodes have the key. Without it nothing is proposed. If only the
// operator has it, no node can prepare, and nothing is changed. A single node without it joins those that have it.
func TestRestoreEncrypted(t *testing.T) {
	story(t)
	key, err := age.GenerateX25519Identity()
	must(t, err)
	c := founded(t, integration.Options{Keys: map[string]any{"snapshot.recipients": key.Recipient().String()}})
	file := filepath.Join(c.Dir, "key.txt")
	must(t, os.WriteFile(file, []byte(key.String()+"\n"), 0o600))
	n, without := c.Nodes[0], c.Nodes[2]
	name := beforeAndAfter(t, c)
	w, p := c.Write(), pinned(t, c)
	if o := n.Command("restore", "latest", "--yes"); o.Code == 0 || !strings.Contains(o.Err, "snapshot.identity-file") || !strings.Contains(o.Err, "nothing was changed") {
		t.Errorf("restore without the key: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	o := n.Command("restore", name, "--yes", "--timeout", "2s", "--snapshot.identity-file", file)
	if o.Code == 0 || !strings.Contains(o.Err, "aborted before the point of no return") {
		t.Errorf("restore with the key of the operator alone: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	for _, n := range c.Nodes {
		_, said, _ := strings.Cut(o.Err, n.Name+" could not prepare: ")
		if said, _, _ = strings.Cut(said, "could not prepare"); !strings.Contains(said, "set snapshot.identity-file") {
			t.Errorf("of %s it says %q in\n%s", n.Name, said, o.Err)
		}
	}
	nothingBuilt(t, c)
	w.More(20)
	for _, a := range p.everywhere(t, c, 1) {
		if a.cluster != p.all[0].cluster {
			t.Fatalf("%s serves another cluster", a.node)
		}
	}
	w.Verify()
	for _, n := range c.Nodes[:2] {
		n.Stop()
		n.Keys["snapshot.identity-file"] = file
		n.Start()
	}
	c.Serving()
	if r := restore(t, n, name); r.Health != "healthy" {
		t.Errorf("restored: %+v", r)
	}
	generation(t, c, 2)
	holdsOnly(t, c)
	without.Logs("action failed", "set snapshot.identity-file")
	if got := setAside(without); len(got) != 1 {
		t.Errorf("%s has set aside %v", without.Name, got)
	}
}

// One volume has no room for a second data directory. Its node says so, the others continue with the backup, and the
// node joins them.
func TestRestoreWithoutRoom(t *testing.T) {
	story(t)
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	c := cluster(t, integration.Options{})
	small := c.Nodes[2]
	small.Root = t.TempDir()
	must(t, unix.Mount("tmpfs", small.Root, "tmpfs", 0, "size=400m,mode=0700"))
	t.Cleanup(func() {
		c.Kill()
		_ = unix.Unmount(small.Root, unix.MNT_DETACH)
	})
	c.Start()
	c.Serving()
	name := beforeAndAfter(t, c)
	o := c.Nodes[0].Command("restore", name, "--yes", "-o", "json")
	var r restored
	if err := json.Unmarshal([]byte(o.Out), &r); err != nil || r.Health != "healthy" {
		t.Errorf("restored: %+v, %v: exit code %d: %s", r, err, o.Code, o.Err)
	}
	small.Logs("action failed", "the volume has", "make the volume larger")
	generation(t, c, 2)
	holdsOnly(t, c)
	if got := setAside(small); len(got) != 1 {
		t.Errorf("%s has set aside %v", small.Name, got)
	}
	if got, err := filepath.Glob(filepath.Join(small.Volume(), "restore-*")); len(got) > 0 {
		t.Errorf("%s still holds %v, %v", small.Name, got, err)
	}
}

// A node is killed while it proposes the restore that a command in the store asks for. The backup is restored once.
func TestKillWhileProposingCommand(t *testing.T) {
	story(t)
	c := founded(t, alone)
	name := beforeAndAfter(t, c)
	c.Stop()
	c.Set("restore.foreign-commands", true)
	order := queue(t, c, name, time.Now())
	k := killAtEach(t, "before-propose", "after-propose")
	k.start(c.Nodes...)
	k.until("the node serves", c.Served)
	generation(t, c, 2)
	holdsOnly(t, c)
	gone(t, c, order)
}

// A node is killed while it proposes the restore of restore.automatic.
func TestKillWhileProposingAutomatically(t *testing.T) {
	story(t)
	c := founded(t, alone)
	beforeAndAfter(t, c)
	c.Kill()
	c.Set("restore.automatic", true)
	c.Nodes[0].Wipe()
	k := killAtEach(t, "before-propose", "after-propose")
	k.start(c.Nodes...)
	k.until("the node serves", c.Served)
	generation(t, c, 2)
	holdsOnly(t, c)
}

// A node that has prepared is killed while it discards that, after an abort. Nothing of the restore is left, and the
// node continues to serve.
func TestKillWhileDiscarding(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	n := c.Nodes[0]
	name := beforeAndAfter(t, c)
	w := c.Write()
	w.More(20)
	w.Stop()
	c.Kill()
	k := killAtEach(t, "before-discard", "after-discard")
	k.start(n) // without the others no majority can prepare
	c.Until(patience, "the node has read the store", func() error {
		s, err := n.Self()
		if err == nil && s.Store == "" {
			err = fmt.Errorf("%s: %s", s.Action, s.Why)
		}
		return err
	})
	followed := n.Begin("restore", name, "--yes", "--lost", "b,c")
	c.Until(patience, "it has prepared", func() error {
		if s, err := n.Self(); err != nil || s.Restore == nil || s.Restore.State != "prepared" {
			return fmt.Errorf("%+v, %w", s.Restore, err)
		}
		return nil
	})
	done(t, n, "restore", "--abort")
	if o := <-followed; o.Code == 0 || !strings.Contains(o.Err, "was aborted") {
		t.Errorf("restore: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	k.until("the node is back", func() error { _, err := n.Self(); return err })
	for _, away := range c.Nodes[1:] {
		away.Start()
	}
	c.Serving()
	nothingBuilt(t, c)
	w.Verify()
	done(t, n, "restore", name, "--yes")
	holdsOnly(t, c)
}

// Data that a restore has set aside stays as long as the member does not serve, however old it is, and then for
// restore.reclaim-after.
func TestReclaimNotBefore(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	name := beforeAndAfter(t, c)
	restore(t, c.Nodes[0], name)
	c.Stop()
	const after = 2 * time.Second
	c.Set("restore.reclaim-after", after.String())
	first := c.Nodes[0]
	first.Start()
	since := time.Now()
	c.Until(patience, "it has waited for a quorum for twice that time", func() error {
		s, err := first.Self()
		if got := setAside(first); len(got) != 1 {
			t.Fatalf("%s has deleted what was set aside while it is %s: %v", first.Name, s.State, got)
		}
		if waited := time.Since(since); err != nil || len(s.Aside) != 1 || waited < 2*after {
			return fmt.Errorf("after %s: %+v, %w", waited, s.Aside, err)
		}
		if s.Aside[0].Reclaimed != nil {
			t.Errorf("%s is %s and will reclaim at %s", first.Name, s.State, s.Aside[0].Reclaimed)
		}
		return nil
	})
	back := time.Now()
	for _, n := range c.Nodes[1:] {
		n.Start()
	}
	for _, n := range c.Nodes {
		n.Logs("deleted data that was set aside")
		for line := range strings.Lines(n.Log()) {
			var l struct {
				Time time.Time `json:"ts"`
				Msg  string    `json:"msg"`
			}
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "deleted data that was set aside" && l.Time.Before(back.Add(after)) {
				t.Errorf("%s has deleted it %s after it could serve", n.Name, l.Time.Sub(back))
			}
		}
		if got := setAside(n); len(got) != 0 {
			t.Errorf("%s: set aside: %v", n.Name, got)
		}
	}
	c.Serving()
	holdsOnly(t, c)
}

// alone makes a cluster of one node.
var alone = integration.Options{Nodes: 1, Slots: []string{"a"}, Keys: map[string]any{"gossip.seeds": []string{}}}
