package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"holdfast/integration"
	"holdfast/integration/tier"
)

// Nodes are killed, stopped and paused at random during one restore after the other. After each there is one
// generation, which no node leaves again, and the cluster has the data either of the backup or of before.
func TestRestoreStorm(t *testing.T) {
	tier.Long(t, "TestKillWhileRestoring kills at each step what this kills at random")
	story(t)
	random := dice(t)
	c := founded(t, integration.Options{})
	before := uint64(1)
	for range *restores {
		client := etcd(t, "", c.Nodes...)
		_, err := client.Put(t.Context(), "mark", "saved")
		must(t, err)
		saved := save(t, c.Nodes[0])
		_, err = client.Put(t.Context(), "mark", "late")
		must(t, err)
		p := pinned(t, c)
		done := c.Nodes[random.IntN(len(c.Nodes))].Begin("restore", saved.Name, "--yes", "--timeout", "60s")
		for range 6 {
			time.Sleep(time.Duration(random.IntN(800)) * time.Millisecond) // until the next blow
			strike(c.Nodes[random.IntN(len(c.Nodes))], random)
		}
		settle(c)
		said := <-done
		now, want := before, "late"
		if said.Code == 0 || strings.Contains(said.Err, "past the point of no return") {
			now, want = before+1, "saved"
		}
		generation(t, c, now)
		if all := p.everywhere(t, c, int(now-before)+1); now > before {
			t.Logf("no write was acknowledged for %s", switched(t, all).Round(time.Millisecond))
		}
		for _, n := range c.Nodes {
			got, err := etcd(t, "", n).Get(t.Context(), "mark")
			must(t, err)
			if value := fmt.Sprint(got.Kvs); len(got.Kvs) != 1 || string(got.Kvs[0].Value) != want {
				t.Errorf("%s: got %s, want %s; the command said: %s", n.Name, value, want, said.Err)
			}
		}
		before = now
	}
}

// A member with a seat in the new generation cannot read the backup, because it alone has no key. It joins the
// generation as a replacement when the others have a leader. Afterwards, the cluster can be backed up.
func TestRestoreWithoutAKey(t *testing.T) {
	story(t)
	key, err := age.GenerateX25519Identity()
	must(t, err)
	file := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(file, []byte(key.String()+"\n"), 0o600))
	c := cluster(t, integration.Options{Keys: map[string]any{"snapshot.recipients": []string{key.Recipient().String()}}})
	for _, n := range c.Nodes[:2] {
		n.Keys["snapshot.identity-file"] = file
	}
	c.Start()
	c.Serving()
	done(t, c.Nodes[0], "restore", beforeAndAfter(t, c), "--yes", "--timeout", "60s")
	generation(t, c, 2)
	holdsOnly(t, c)
	if members := c.Members(); len(members) != 3 {
		t.Errorf("members: %v", members)
	}
	// The restored generation is backed up and drilled like the one before.
	again := save(t, c.Nodes[0])
	done(t, c.Nodes[0], "snapshot", "drill", again.Name)
}
