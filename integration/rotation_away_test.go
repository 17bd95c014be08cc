package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
)

// A node is away. Its slot is replaced elsewhere, the cluster is restored from a backup, and the authorities rotate
// until the node knows none of them. It comes back with its old disk and the old authorities. It follows the editions
// that it has missed, finds the generation proven by the leader's attestation, and sets its data aside. It never
// serves in the old generation.
func TestAwayOverRestoreAndRotation(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Nodes: 4, Keys: map[string]any{"tls.mode": "auto", "tls.leaf-life": "30s", "tls.ca-life": "10m"}})
	n1, away, other := c.Nodes[0], c.Nodes[2], c.Nodes[3]
	for _, n := range c.Nodes[:3] {
		n.Start()
	}
	c.Healthy()
	etcdctl := func(n *integration.Node, args ...string) integration.Output {
		return n.Holdfast(append([]string{"etcdctl", "--config", n.File()}, args...)...)
	}
	put := func(key string) {
		t.Helper()
		c.Until(patience, key+" is written", func() error {
			if out := etcdctl(n1, "put", key, "it"); out.Code != 0 {
				return fmt.Errorf("%+v", out)
			}
			return nil
		})
	}
	put("before")
	saved := save(t, n1)
	put("lost")
	away.Stop()
	known, err := os.ReadFile(filepath.Join(away.Data, "tls", "peers-ca.crt"))
	must(t, err)
	other.Keys["volume.local.slot"] = "c"
	other.Start()
	c.Healthy()
	restore(t, n1, saved.Name)
	generation(t, c, 2)
	put("after")
	c.Nodes[1].Kill() // otherwise a majority of the founders' disks would show that they have entered, without the store
	c.Nodes[1].Wipe()
	c.Nodes[1].Start()
	generation(t, c, 2)
	for _, step := range []string{"", "--now"} {
		done(t, n1, append([]string{"tls", "rotate-ca", "--yes"}, strings.Fields(step)...)...)
	}
	began := time.Now()
	c.Until(3*time.Minute, "no node that runs trusts an authority that the other one knows", func() error {
		for _, n := range c.Running() {
			text, err := os.ReadFile(filepath.Join(n.Data, "tls", "peers-ca.crt"))
			if err != nil || strings.Contains(string(text), strings.TrimSpace(string(known))) {
				return fmt.Errorf("%s does, %v", n.Name, err)
			}
		}
		return c.Fit()
	})
	t.Logf("rotated in %s", time.Since(began).Round(time.Second))
	c.Until(time.Minute, "the leader has attested the generation", func() error {
		if len(objects(t, c.Store, "proof-000002.json")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	var has struct{ Serial int }
	text, err := os.ReadFile(filepath.Join(away.Data, "tls", "authorities.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &has))
	if n := len(objects(t, c.Store, "pki-*.json")); n < has.Serial+2 {
		t.Errorf("it knows edition %d of %d: nothing is proven", has.Serial, n)
	}

	other.Stop()
	away.Start()
	generation(t, c, 2)
	met(c, c.Nodes[:3]...)
	c.Until(patience, "it serves what the cluster has", func() error {
		for key, want := range map[string]string{"before": "before\nit", "after": "after\nit", "lost": ""} {
			if out := etcdctl(away, "get", key); out.Code != 0 || strings.TrimSpace(out.Out) != want {
				return fmt.Errorf("%s: %+v", key, out)
			}
		}
		return nil
	})
	if got, _ := filepath.Glob(filepath.Join(away.Root, "*", "aside", "*")); len(got) == 0 {
		t.Error("it has set nothing aside")
	}
}

// A voter is away until the authority has expired that the others used. By then they have certificates of the next
// one, and would refuse it. The voter restarts with that authority, without help, and finds the others.
func TestAwayUntilTheAuthorityHasEnded(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Keys: map[string]any{"tls.mode": "auto", "tls.leaf-life": "20s", "tls.ca-life": "90s"}})
	c.Start()
	c.Healthy()
	n1, n2, away := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	away.Stop()
	known, err := os.ReadFile(filepath.Join(away.Data, "tls", "peers-ca.crt"))
	must(t, err)
	c.Until(3*time.Minute, "the authority has ended", func() error {
		for _, n := range []*integration.Node{n1, n2} {
			text, err := os.ReadFile(filepath.Join(n.Data, "tls", "peers-ca.crt"))
			if err != nil || strings.Contains(string(text), strings.TrimSpace(string(known))) {
				return fmt.Errorf("%s trusts it, %v", n.Name, err)
			}
		}
		return errors.Join(serves(n1), serves(n2))
	})
	c.Until(patience, "the others have restarted without it", func() error {
		for _, n := range []*integration.Node{n1, n2} {
			if s, err := n.Self(); err != nil || strings.Contains(s.Why, "the reload waits") {
				return fmt.Errorf("%s says %q, %v", n.Name, s.Why, err)
			}
		}
		return errors.Join(serves(n1), serves(n2))
	})
	away.Start()
	c.Healthy()
	c.Stop() // with certificates that live for seconds, the views never agree for long at the end
}
