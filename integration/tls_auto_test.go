package integration_test

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
)

// Three nodes with a directory as their store make their own authorities. Strangers stay out of the gossip. A rotation
// succeeds under writes although the store is emptied meanwhile, and blank machines join afterwards. No output
// contains a key.
func TestTLSAuto(t *testing.T) {
	story(t)
	// The steps of a rotation are checked every hundredth of an authority's life, and the store every twentieth of a
	// leaf's life.
	c := cluster(t, integration.Options{Nodes: 4, Keys: map[string]any{"tls.mode": "auto", "tls.leaf-life": "30s", "tls.ca-life": "10m"}})
	n1, n3, other := c.Nodes[0], c.Nodes[2], c.Nodes[3]
	c.Set("gossip.seeds", []string{n1.Address, c.Nodes[1].Address, n3.Address}) // a seed that does not exist would be a finding
	var said strings.Builder
	run := func(n *integration.Node, args ...string) integration.Output {
		t.Helper()
		out := n.Command(args...)
		fmt.Fprintln(&said, args, out.Out, out.Err)
		if out.Code != 0 {
			t.Fatalf("holdfast %v: %+v", args, out)
		}
		return out
	}
	for _, n := range c.Nodes[:3] {
		n.Start()
	}
	c.Healthy()
	me := &credentials{}
	me.of(clientTLS(t, c, n1, "story"))
	c.TLS = me.config()
	strangersGossip(t, c, other)

	w := c.Write()
	w.More(50)
	p, rest := beating(t, c)
	begin := time.Now()
	keys := planted(t, c)
	phases := map[string]bool{}
	inPhase(t, c, nil, phases)
	run(n1, "tls", "rotate-ca", "--yes")
	c.Until(patience, "every node says that a rotation is open", func() error {
		return everywhere(c, func(n *integration.Node) error { return inPhase(t, c, n, phases) })
	})
	if !phases["introduced"] || len(phases) != 1 {
		t.Errorf("after it was begun the phases were %v", phases)
	}
	objects := filepath.Join(c.Store, "holdfast", c.Name)
	must(t, os.RemoveAll(objects))
	c.Until(patience, "the authorities are put back into the store", func() error {
		_, err := os.Stat(filepath.Join(objects, "pki-000002.json"))
		return err
	})
	me.of(clientTLS(t, c, n1, "introduced")) // it trusts both now
	now := run(n1, "tls", "rotate-ca", "--now", "--yes")
	for _, said := range []string{"--etcd-cafile", "clients that presented an old certificate"} {
		if !strings.Contains(now.Out+now.Err, said) {
			t.Errorf("--now does not say %q before: %+v", said, now)
		}
	}
	c.Until(90*time.Second, "the rotation has come to its end", func() error {
		if err := inPhase(t, c, n1, phases); err != nil {
			return err
		}
		if out := n1.Command("tls", "export", filepath.Join(c.Dir, "export"), "--dry-run"); !strings.Contains(out.Out, "(settled)") {
			s, err := n1.Status()
			return fmt.Errorf("%s: %q, %v", strings.TrimSpace(out.Out+out.Err), s.Reasons(), err)
		}
		return nil
	})
	c.Until(patience, "every node says that the old clients' authority is still good, and who uses it", func() error {
		return everywhere(c, func(n *integration.Node) error {
			err := inPhase(t, c, n, phases)
			shown, doctor := n.Command("tls", "show").Out, n.Command("doctor").Out
			for _, said := range []string{"CA ROTATION retiring", "introduced 0s ago", "certificates issued by hand"} {
				if err == nil && !strings.Contains(shown, said) {
					err = fmt.Errorf("tls show does not say %q: %s", said, shown)
				}
			}
			for _, code := range []health.Code{health.AuthorityRotation, health.ClientsOld} {
				if err == nil && !strings.Contains(doctor, string(code)) {
					err = fmt.Errorf("doctor does not have %s: %s", code, doctor)
				}
			}
			return err
		})
	})
	views(t, c, health.Healthy)
	for _, phase := range []string{"introduced", "retiring"} { // the phase issuing may be over before a look
		if !phases[phase] {
			t.Errorf("nothing told of the phase %s: %v", phase, phases)
		}
	}
	drop := run(n1, "tls", "rotate-ca", "--drop-old", "--dry-run")
	for _, said := range []string{"introduced 0s ago", "no later certificate was issued"} {
		if !strings.Contains(drop.Err, said) {
			t.Errorf("--drop-old does not say %q: %+v", said, drop)
		}
	}
	run(n1, "tls", "export", filepath.Join(c.Dir, "export"))
	next := x509.NewCertPool()
	peers, err := os.ReadFile(filepath.Join(c.Dir, "export", "etcd-peers-ca.crt"))
	must(t, err)
	clients, err := os.ReadFile(filepath.Join(c.Dir, "export", "etcd-clients-ca.key"))
	must(t, err)
	keys.keys(t, "the exported key", clients)
	if !next.AppendCertsFromPEM(peers) || bytes.Count(peers, []byte("BEGIN")) != 1 {
		t.Errorf("members are to trust other authorities than the new one: %s", peers)
	}
	pair, _ := me.now()
	member := &credentials{pair: pair, roots: next}
	c.Until(60*time.Second, "members present and trust the new authority alone", func() error {
		return everywhere(c, func(n *integration.Node) error {
			_, err := presented(n, peerPort, member.config())
			text, err2 := os.ReadFile(filepath.Join(n.Data, "tls", "peers-ca.crt"))
			if err2 == nil && !bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(peers)) {
				err2 = errors.New("it trusts others still")
			}
			return errors.Join(err, err2)
		})
	})
	c.Until(60*time.Second, "every member was started anew twice", func() error {
		if each := fmt.Sprint(reloads(c)[:3]); each != "[2 2 2]" {
			return errors.New(each)
		}
		return c.Fit()
	})
	t.Logf("rotated in %s", time.Since(begin).Round(100*time.Millisecond))
	neverSilent(t, p, rest, begin)

	// The machine of a member is blank, and so is that of a standby.
	n3.Stop()
	must(t, os.RemoveAll(n3.Data))
	n3.Start()
	clear(other.Keys)
	other.Start()
	c.Healthy()
	met(c, c.Nodes...)
	w.More(50)
	w.Verify()

	dir := filepath.Join(c.Dir, "client-ctl")
	run(n1, "tls", "client", "ctl", "--to", dir)
	ctl := n1.Holdfast("etcdctl", "--endpoints", n3.ClientURL(), "--cacert", filepath.Join(dir, "ca.crt"), "--cert", filepath.Join(dir, "ctl.crt"),
		"--key", filepath.Join(dir, "ctl.key"), "get", "counter/", "--prefix")
	if ctl.Code != 0 || !strings.Contains(ctl.Out, "counter/") {
		t.Errorf("etcdctl with a client's certificate: %+v", ctl)
	}
	keys.files(t, dir)
	keys.files(t, filepath.Join(c.Store, "holdfast"))
	for _, n := range c.Nodes {
		keys.files(t, filepath.Join(n.Data, "tls"))
		for _, args := range [][]string{{"status", "--why", "-o", "json"}, {"tls", "show", "-o", "json"}, {"history", "-o", "json"}, {"config", "show"}} {
			fmt.Fprintln(&said, n.Command(args...))
		}
		whole, err := os.ReadFile(filepath.Join(n.Dir, "node.log"))
		must(t, err)
		keys.absent(t, "log of "+n.Name, string(whole))
	}
	if len(keys) < 10 {
		t.Errorf("only %d keys were planted: nothing is proven", len(keys))
	}
	keys.absent(t, "what commands say", said.String())
	if strings.Contains(said.String(), "PRIVATE KEY") {
		t.Error("a command has said a private key")
	}
}

// inPhase notes the phase of the open rotation. Status and `tls show` must agree on it, and it is no finding by
// itself. Without a node, inPhase checks that no rotation is open.
func inPhase(t *testing.T, c *integration.Cluster, n *integration.Node, phases map[string]bool) error {
	t.Helper()
	if n == nil {
		for _, args := range [][]string{{"status"}, {"tls", "show"}} {
			if out := c.Nodes[0].Command(args...); strings.Contains(out.Out, "CA ROTATION") {
				t.Errorf("before a rotation: %s", out.Out)
			}
		}
		return nil
	}
	shown := n.Command("tls", "show", "-o", "json")
	var tls struct {
		Rotation *struct{ Phase, Waits, Next string }
	}
	if err := json.Unmarshal([]byte(shown.Out), &tls); err != nil {
		return fmt.Errorf("%w: %+v", err, shown)
	}
	text := n.Command("status").Out
	switch r := tls.Rotation; {
	case r == nil:
		return fmt.Errorf("tls show knows of no rotation: %s", shown.Out)
	case r.Waits == "" || r.Next == "":
		t.Errorf("tls show says %+v", r)
	case !strings.Contains(text, "CA ROTATION "):
		return fmt.Errorf("status knows of no rotation: %s", text)
	case strings.Contains(text, "- "+n.Name+": authority rotation"):
		t.Errorf("a rotation is a problem by itself: %s", text)
	case strings.Contains(text, "CA ROTATION "+r.Phase): // the phase may have changed between the two looks
		phases[r.Phase] = true
	}
	return nil
}

// strangersGossip starts a node whose gossip has no certificate of the cluster, first with none that protects and then
// with a key. It is told why it is alone, and no node takes it for one of the cluster.
func strangersGossip(t *testing.T, c *integration.Cluster, n *integration.Node) {
	t.Helper()
	n.Keys["tls.mode"] = "off"
	keyFile := filepath.Join(c.Dir, "gossip.key")
	must(t, os.WriteFile(keyFile, []byte(n.Holdfast("gossip", "keygen").Out), 0o600))
	for _, file := range []string{"", keyFile} {
		n.Keys["gossip.key-file"] = file
		n.Start()
		for m, says := range map[*integration.Node]string{n: "TLS", c.Nodes[0]: "it refuses the certificate of this node"} {
			c.Until(patience, m.Name+" tells why the stranger is alone", func() error {
				s, err := m.Self()
				if text := strings.Join(health.Texts(s.Found), "\n"); err == nil && !strings.Contains(text, says) {
					err = fmt.Errorf("with key file %q: %s: %s", file, s.Why, text)
				}
				return err
			})
		}
		s, err := c.Nodes[0].Status()
		must(t, err)
		for _, m := range s.Nodes {
			if m.Node == n.Name {
				t.Errorf("a node with key file %q is one of the cluster's: %+v", file, m)
			}
		}
		n.Stop()
	}
}

// planted are all private keys of the nodes.
func planted(t *testing.T, c *integration.Cluster) secrets {
	t.Helper()
	s := secrets{}
	for _, n := range c.Nodes[:3] {
		s.files(t, filepath.Join(n.Data, "tls"))
	}
	return s
}

// files plants the private keys in the files below a directory.
func (s secrets) files(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		s.keys(t, path, text)
		return err
	}))
}

// keys plants the private keys in a text. PEM may be within JSON.
func (s secrets) keys(t *testing.T, where string, text []byte) {
	t.Helper()
	rest := bytes.ReplaceAll(text, []byte(`\n`), []byte("\n"))
	for {
		i := bytes.Index(rest, []byte("-----BEGIN PRIVATE KEY"))
		if i < 0 {
			return
		}
		block, after := pem.Decode(rest[i:])
		if block == nil || len(block.Bytes) < 68 {
			t.Fatalf("%s: not a key", where)
		}
		// The private number of P-256 in PKCS #8, as far as it is in the first line of PEM.
		number := block.Bytes[36:48]
		s.plant(where+" "+fmt.Sprint(len(s)), base64.StdEncoding.EncodeToString(number), number)
		rest = after
	}
}
