package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/integration"
)

// A machine without a node, without a key of an authority and without a member's certificate restores a backup: an
// operator's certificate signs the proposal, and a client's has the leader consent. With anything else nothing is put
// into the store that counts.
func TestOperatorOnAnotherMachine(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Keys: map[string]any{"tls.mode": "auto", "control.operators": []string{"alice"}}})
	for _, n := range c.Nodes {
		n.Keys["control.listen"] = n.Address + ":2391"
	}
	c.Start()
	c.Healthy()
	n1 := c.Nodes[0]
	c.TLS = clientTLS(t, c, n1, "story")
	w := c.Write()
	w.More(10)
	saved := save(t, n1)
	bastion := filepath.Join(c.Dir, "bastion")
	must(t, os.Mkdir(bastion, 0o700))
	for _, args := range [][]string{{"operator", "alice", "--to", filepath.Join(bastion, "operator.pem")},
		{"observer", "alice", "--to", filepath.Join(bastion, "observer.pem")}, {"client", "alice", "--to", bastion}} {
		if out := n1.Command(append([]string{"tls"}, args...)...); out.Code != 0 || strings.Contains(out.Err, "warning") {
			t.Fatalf("tls %s: %+v", args, out)
		}
	}
	order := func(file string, args ...string) integration.Output {
		return n1.Holdfast(append(args, "--cluster.name", c.Name, "--snapshot.store", c.Store, "--tls.operator-file", filepath.Join(bastion, file),
			"--control.remote.address", n1.Address+":2391", "--control.remote.cert-file", filepath.Join(bastion, "alice.crt"),
			"--control.remote.key-file", filepath.Join(bastion, "alice.key"), "--control.remote.ca-file", filepath.Join(bastion, "ca.crt"))...)
	}
	if out := order("observer.pem", "restore", saved.Name, "--yes"); out.Code == 0 || !strings.Contains(out.Err, "no member's") {
		t.Errorf("with an observer's certificate: %+v", out)
	}
	if out := order("missing.pem", "restore", saved.Name, "--yes"); out.Code == 0 || !strings.Contains(out.Err, "tls.operator-file") {
		t.Errorf("without one: %+v", out)
	}
	if left, err := filepath.Glob(filepath.Join(c.Store, "holdfast", c.Name, "restore-*")); err != nil || left != nil {
		t.Errorf("in the store: %v, %v", left, err)
	}
	if out := order("operator.pem", "restore", saved.Name, "--yes"); out.Code != 0 {
		t.Fatalf("with an operator's certificate: %+v", out)
	}
	generation(t, c, 2)
	for _, n := range c.Nodes { // each checks what began its generation
		n.Stop()
		n.Start()
		c.Until(patience, n.Name+" serves again", func() error { return serves(n) })
	}
	c.Healthy()
	for _, n := range c.Nodes {
		if s, err := n.Self(); err != nil || strings.Contains(fmt.Sprint(s.Found), "signed") {
			t.Errorf("%s: %+v, %v", n.Name, s.Found, err)
		}
	}
}
