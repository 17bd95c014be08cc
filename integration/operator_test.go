package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
)

// A machine without a node, an authority's key or a member's certificate restores a backup. An operator's certificate
// signs the proposal, and with a client's certificate the leader consents. With any other certificate, nothing valid
// is put into the store.
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
	if out := order("observer.pem", "restore", saved.Name, "--yes"); out.Code == 0 || !strings.Contains(out.Err, "not a member's") {
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
	for _, n := range c.Nodes { // each node checks what began its generation
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

// Someone who can delete objects in the store deletes the signed abort of a restore that the cluster had consented to,
// again and again. The nodes remember the abort, take no part in the restore, and abort it again. Neither a restart
// nor an operator's order reopens it.
func TestAbortDeletedFromTheStore(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"tls.mode": "auto"}})
	n1 := c.Nodes[0]
	c.TLS = clientTLS(t, c, n1, "story")
	p := produce(t, c)
	saved := save(t, n1)
	operator := filepath.Join(c.Dir, "operator.pem")
	done(t, n1, "tls", "operator", "alice", "--to", operator)
	backups := filepath.Join(c.Store, saved.Name)
	elsewhere := make(chan integration.Output, 1)
	go func() {
		elsewhere <- n1.Holdfast("restore", saved.Name, "--yes", "--cluster.name", c.Name, "--snapshot.store", c.Store, "--tls.operator-file", operator,
			"--control.socket", filepath.Join(c.Dir, "nobody"))
	}()
	c.Until(patience, "it is proposed", func() error {
		if len(objects(t, c.Store, "restore-000002-01.json")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	must(t, os.Rename(backups, backups+".away")) // no node can prepare it, so there is time to abort it
	confirmed := n1.Begin("restore", "--confirm", "--yes")
	consent := func() string {
		return n1.Holdfast("etcdctl", "--config", n1.File(), "get", "holdfast.internal/consent").Out
	}
	c.Until(patience, "the cluster consents", func() error {
		if consent() == "" {
			return errors.New("not yet")
		}
		return nil
	})
	done(t, n1, "restore", "--abort")
	for _, ended := range []<-chan integration.Output{elsewhere, confirmed} {
		if out := <-ended; out.Code == 0 {
			t.Errorf("aborted, a command says that it was restored: %+v", out)
		}
	}
	must(t, os.Rename(backups+".away", backups))
	c.Until(time.Minute, "the consent is taken back", func() error {
		if text := consent(); text != "" {
			return errors.New(text)
		}
		return nil
	})
	abort := filepath.Join(c.Store, "holdfast", c.Name, "outcome-000002-01.json")
	again := func() {
		t.Helper()
		must(t, os.Remove(abort))
		out := n1.Command("restore", "--confirm", "--yes", "--timeout", "20s")
		if out.Code == 0 || !strings.Contains(out.Err, "was aborted") && !strings.Contains(out.Err, "is proposed") {
			t.Errorf("confirmed once more: %+v", out)
		}
		c.Until(patience, "it is aborted again", func() error { _, err := os.Stat(abort); return err })
		text, err := os.ReadFile(abort)
		if err != nil || !strings.Contains(string(text), `"signature"`) {
			t.Errorf("the abort is %s, %v", text, err)
		}
		p.still()
	}
	for range 3 {
		again()
	}
	for _, n := range p.Nodes {
		n.Stop()
		must(t, os.Remove(abort))
		n.Start()
		c.Until(time.Minute, n.Name+" serves again", func() error { return serves(n) })
		c.Until(patience, "it is aborted again", func() error { _, err := os.Stat(abort); return err })
	}
	again()
	p.untouched()
	done(t, n1, "restore", saved.Name, "--yes")
	generation(t, c, 2)
}
