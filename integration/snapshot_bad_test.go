package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
	"holdfast/snapshot"
)

// TestBadBackup loses the quorum, when the content of the store matters most: the remaining node shows it. Then a
// machine without a node finds that the newest backup is bad. The remaining node shows that until another backup is
// saved.
func TestBadBackup(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"snapshot.every": "1h"}})
	n := c.Nodes[0]
	c.Until(patience, "the schedule has made its first backup", func() error {
		if len(good(t, n)) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	var older, newest snapshot.Meta
	ask(t, n, &older, "snapshot", "save", "-o", "json")
	ask(t, n, &newest, "snapshot", "save", "-o", "json")
	for _, other := range c.Nodes[1:] {
		other.Kill()
	}
	says := func(what string, code int, texts ...string) {
		t.Helper()
		c.Until(3*time.Minute, what, func() error {
			o := n.Command("status")
			for _, text := range texts {
				if !strings.Contains(o.Out, text) {
					return fmt.Errorf("status: want %q in:\n%s%s", text, o.Out, o.Err)
				}
			}
			if code >= 0 && o.Code != code {
				return fmt.Errorf("status: want exit code %d, got %d:\n%s", code, o.Code, o.Out)
			}
			return nil
		})
	}
	says("no quorum, and the newest backup", 2, "newest: "+newest.Name)
	views(t, c, health.NoQuorum)

	data := filepath.Join(c.Store, newest.Name, "etcd.backup.zst")
	bytes, err := os.ReadFile(data)
	must(t, err)
	bytes[len(bytes)/2] ^= 1
	must(t, os.WriteFile(data, bytes, 0o600))
	o := n.Holdfast("snapshot", "verify", newest.Name, "--snapshot.store", c.Store, "--cluster.name", c.Name)
	if o.Code != 1 || !strings.Contains(o.Err, "the newest good one is "+older.Name) {
		t.Errorf("verify: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	says("the bad backup", 2, "BAD: the newest backup, "+newest.Name+", is bad: the newest good one is "+older.Name,
		newest.Name+" FAILED its verify", "newest: "+older.Name)
	if o := n.Command("snapshot", "list"); o.Code != 0 || !strings.Contains(o.Out, "the newest good backup is "+older.Name) {
		t.Errorf("list: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}

	views(t, c, health.NoQuorum)
	for _, other := range c.Nodes[1:] {
		other.Start()
	}
	c.Serving()
	says("degraded: the leader tells it, too", 1, "BAD: the newest backup, "+newest.Name)
	views(t, c, health.Degraded)
	var another snapshot.Meta
	ask(t, n, &another, "snapshot", "save", "-o", "json")
	says("healthy, and the bad backup", 0, "newest: "+another.Name, "bad: "+newest.Name+" FAILED its verify")
	views(t, c, health.Healthy)
}
