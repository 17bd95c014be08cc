package integration_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"holdfast/integration"
)

// The clients of a cluster that was founded without TLS change to it, one after the other and without a pause: the nodes
// are restarted one by one to serve both, then to serve TLS alone. The members keep their URLs. No acknowledged write is
// lost, and in the end nobody is served over http. One node is killed in the middle of each change.
func TestClientsFromHTTPToHTTPS(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	c.Start()
	c.Healthy()
	before := c.Members()
	old := c.Write()
	old.More(50)

	ca := filepath.Join(c.Dir, "ca")
	if out := c.Nodes[0].Holdfast("tls", "init", ca); out.Code != 0 {
		t.Fatalf("tls init: %+v", out)
	}
	roll := func(keys map[string]any) {
		t.Helper()
		for i, n := range c.Nodes {
			for key, value := range keys {
				n.Keys[key] = value
			}
			if i == 1 {
				n.Kill()
			} else {
				n.Signal(syscall.SIGTERM)
				n.Exit(20 * time.Second)
			}
			n.Start()
			c.Healthy()
		}
	}
	roll(map[string]any{"tls.ca-dir": ca, "tls.clients-only": true, "tls.plain-clients": true, "tls.insecure": true})
	old.More(50)
	c.TLS = clientTLS(t, c, c.Nodes[0], "story")
	secure := c.Write()
	secure.More(50)
	old.Stop()
	old.Verify()

	roll(map[string]any{"tls.plain-clients": false})
	secure.More(50)
	secure.Stop()
	secure.Verify()
	old.Verify()
	t.Logf("longest time without an acknowledgement: %v over http, %v over https", old.Gap(), secure.Gap())

	for slot, m := range c.Members() {
		if was := before[slot]; m != was {
			t.Errorf("slot %s is member %+v, and was %+v", slot, m, was)
		}
	}
	c.TLS = nil
	if _, err := c.ReadMembers(); err == nil {
		t.Error("a client without TLS is still served")
	}
}
