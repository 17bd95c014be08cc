package integration_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/snapshot/snapshottest/gateway"
)

// A bucket lies about a tenth of the requests while backups are made and pruned: what is listed as good afterwards is
// good. Then its listings show no backups while only a member is left that lacks what the newest backup holds. It does
// not continue by itself, and an order to do so is refused.
func TestBucketLies(t *testing.T) {
	story(t)
	c, proxy := onBucket(t, map[string]any{
		"cluster.recovery": "automatic",
		"snapshot.keep":    map[string]any{"all": "1s", "hourly": "1s", "daily": "1s", "newest": 3},
	})
	n := c.Leader()
	w := c.Write()
	made := func() (count int) {
		for _, n := range c.Nodes {
			count += strings.Count(n.Log(), `"msg":"saved backup"`)
		}
		return count
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	proxy.Set(gateway.NewLiar(seed, 0.1).Lie)
	had := made()
	c.Until(2*time.Minute, "backups are made between the lies", func() error {
		if n := made() - had; n < 3 {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
	proxy.Set(nil)
	w.More(20)
	more(t, c, n, time.Minute)
	unscheduled(c)
	done(t, n, append([]string{"snapshot", "verify"}, good(t, n)...)...)
	w.Verify()

	b := overtaken(t, c, func(n *integration.Node) { must(t, os.RemoveAll(filepath.Join(n.Volume(), "etcd"))) })
	proxy.Set(func(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
		return !strings.Contains(r.URL.Query().Get("prefix"), "/holdfast/") && gateway.AlterListing(gateway.Unlisted)(p, w, r)
	})
	for _, lost := range c.Nodes[:2] {
		lost.Start()
	}
	n = c.Nodes[2]
	n.Says("waits for a quorum", "a: vacant on n1", "b: vacant on n2", "backup "+b.Name, "holds more than slot c")
	o := n.Command("recover", "--lost", "a,b", "--yes")
	if o.Code == 0 || !strings.Contains(o.Err, b.Name+" holds more than any other") ||
		!strings.Contains(o.Err, "nothing was changed") {
		t.Errorf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if s, err := n.Self(); err != nil || s.Record.Generation != 1 || s.Restore != nil {
		t.Errorf("it has begun something: %+v, %v", s, err)
	}
	c.Kill()
}
