package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
)

// nodeKeys is a line of `holdfast gossip keys -o json`.
type nodeKeys struct {
	Node   string
	Live   bool
	Origin string
	Keys   []struct {
		Fingerprint string
		Serial      int
	}
	Problem string
}

// agreed waits until this many nodes are live in the eyes of n and have one key, and returns it.
func agreed(c *integration.Cluster, n *integration.Node, live int, origin string) (fingerprint string, serial int) {
	c.Until(90*time.Second, fmt.Sprintf("%d nodes have the same gossip key", live), func() error {
		out := n.Command("gossip", "keys", "-o", "json")
		var all []nodeKeys
		if err := json.Unmarshal([]byte(out.Out), &all); err != nil {
			return fmt.Errorf("%s%s", out.Out, out.Err)
		}
		seen := 0
		fingerprint = ""
		for _, k := range all {
			if !k.Live {
				continue
			}
			if len(k.Keys) != 1 || k.Origin != origin || fingerprint != "" && k.Keys[0].Fingerprint != fingerprint {
				return fmt.Errorf("%s", out.Out)
			}
			fingerprint, serial = k.Keys[0].Fingerprint, k.Keys[0].Serial
			seen++
		}
		if seen != live {
			return fmt.Errorf("%d are live: %s", seen, out.Out)
		}
		return nil
	})
	return fingerprint, serial
}

// leftBehind waits until n refuses a rotation because of another node.
func leftBehind(c *integration.Cluster, n, other *integration.Node) {
	c.Until(patience, other.Name+" is lost", func() error {
		if out := n.Command("gossip", "rotate-key", "--dry-run"); !strings.Contains(out.Err, other.Name) || !strings.Contains(out.Err, "--force") {
			return fmt.Errorf("%+v", out)
		}
		return nil
	})
}

func TestGossipKeyFilesAreRotated(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	c := cluster(t, integration.Options{})
	line := c.Nodes[0].Holdfast("gossip", "keygen").Out
	var files []string
	for _, n := range c.Nodes {
		path := filepath.Join(n.Dir, "gossip.key")
		must(t, os.WriteFile(path, []byte("# of "+n.Name+"\n"+line), 0o600))
		n.Keys["gossip.key-file"] = path
		files = append(files, path)
	}
	c.Start()
	c.Healthy()
	n1, n3 := c.Nodes[0], c.Nodes[2]
	before, _ := agreed(c, n1, 3, "file")

	out := n1.Command("gossip", "rotate-key", "--dry-run")
	if out.Code != 0 || !strings.Contains(out.Out, "nothing was changed") {
		t.Fatalf("dry run: %+v", out)
	}
	if got, _ := agreed(c, n1, 3, "file"); got != before {
		t.Fatalf("a dry run has changed the key from %s to %s", before, got)
	}
	if out := n1.Command("gossip", "rotate-key"); out.Code == 0 || !strings.Contains(out.Err, "--yes") {
		t.Fatalf("without a terminal: %+v", out)
	}
	if out := n1.Command("gossip", "rotate-key", "--yes"); out.Code != 0 {
		t.Fatalf("rotate: %+v", out)
	}
	second, _ := agreed(c, c.Nodes[1], 3, "file")
	if second == before {
		t.Fatal("the key is still the old one")
	}
	for i, path := range files {
		text, err := os.ReadFile(path)
		must(t, err)
		if strings.Contains(string(text), strings.TrimSpace(line)) || !strings.HasPrefix(string(text), "# of "+c.Nodes[i].Name) {
			t.Errorf("%s: the old key is there, or the operator's comment is not", path)
		}
	}

	n3.Kill()
	leftBehind(c, n1, n3)
	if got, _ := agreed(c, n1, 2, "file"); got != second {
		t.Fatalf("a refused rotation has changed the key from %s to %s", second, got)
	}
	if out := n1.Command("gossip", "rotate-key", "--yes", "--force"); out.Code != 0 {
		t.Fatalf("rotate: %+v", out)
	}
	third, _ := agreed(c, n1, 2, "file")

	n3.Start()
	c.Until(patience, "n3 says why it is alone", func() error {
		s, err := n3.Self()
		if err == nil && !strings.Contains(strings.Join(health.Texts(s.Found), "\n"), "uses another gossip key") {
			err = fmt.Errorf("%q", health.Texts(s.Found))
		}
		return err
	})
	text, err := os.ReadFile(files[0])
	must(t, err)
	must(t, os.WriteFile(files[2], text, 0o600)) // without a restart
	if got, _ := agreed(c, n3, 3, "file"); got != third {
		t.Errorf("key: got %s, want %s", got, third)
	}
	c.Healthy()
	for _, n := range c.Nodes {
		for _, secret := range strings.Fields(line + string(text)) {
			if len(secret) == 44 && strings.Contains(n.Log(), secret) {
				t.Errorf("%s has logged a key", n.Name)
			}
		}
	}
}

func TestDerivedGossipKeysAreRotated(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	t.Parallel()
	c := cluster(t, integration.Options{})
	authorities := filepath.Join(c.Dir, "ca")
	if out := c.Nodes[0].Holdfast("tls", "init", authorities); out.Code != 0 {
		t.Fatalf("tls init: %+v", out)
	}
	c.Set("tls.mode", "ca")
	c.Set("tls.ca-dir", authorities)
	c.Start()
	n1, n3 := c.Nodes[0], c.Nodes[2]
	first, _ := agreed(c, n1, 3, "derived")
	if out := n1.Command("gossip", "rotate-key", "--yes"); out.Code != 0 {
		t.Fatalf("rotate: %+v", out)
	}
	if got, serial := agreed(c, n3, 3, "derived"); got == first || serial != 1 {
		t.Fatalf("key: got %s with serial %d after %s", got, serial, first)
	}

	n3.Kill()
	leftBehind(c, n1, n3)
	for range 2 {
		if out := n1.Command("gossip", "rotate-key", "--yes", "--force"); out.Code != 0 {
			t.Fatalf("rotate: %+v", out)
		}
	}
	n3.Start() // it was away
	if _, serial := agreed(c, n3, 3, "derived"); serial != 3 {
		t.Fatalf("serial: got %d, want 3", serial)
	}
	n3.Kill()
	must(t, os.Remove(filepath.Join(n3.Data, "tls", "gossip-keys.json")))
	n3.Start() // it knows nothing
	if _, serial := agreed(c, n3, 3, "derived"); serial != 3 {
		t.Fatalf("serial: got %d, want 3", serial)
	}
	// A new authority beside the old one, which only signs no more.
	next := filepath.Join(c.Dir, "next")
	if out := n1.Holdfast("tls", "init", next); out.Code != 0 {
		t.Fatalf("tls init: %+v", out)
	}
	was, _ := agreed(c, n1, 3, "derived")
	for _, name := range []string{"etcd-clients-ca", "etcd-peers-ca"} {
		fresh, err := os.ReadFile(filepath.Join(next, name+".crt"))
		must(t, err)
		old, err := os.ReadFile(filepath.Join(authorities, name+".crt"))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(authorities, name+".crt"), append(fresh, old...), 0o600))
		must(t, os.Rename(filepath.Join(next, name+".key"), filepath.Join(authorities, name+".key")))
	}
	c.Until(3*time.Minute, "the key of the new authority is used", func() error {
		if got, serial := agreed(c, n1, 3, "derived"); got == was || serial != 0 {
			return fmt.Errorf("it is %s, serial %d", got, serial)
		}
		return nil
	})

	to := filepath.Join(c.Dir, "observer.key")
	if out := n1.Command("gossip", "export-key", "--to", to); out.Code != 0 {
		t.Fatalf("export: %+v", out)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the exported key: %v, %v", info, err)
	}
	if out := n1.Command("gossip", "export-key", "--to", to); out.Code == 0 {
		t.Errorf("exported over a file: %+v", out)
	}
}
