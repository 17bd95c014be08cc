package embedded

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/invalid"
)

// While clients change to TLS, a member serves both kinds at one address. Over TLS it still requires a certificate.
func TestPlainClients(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	ca, n := newAuthority(t), newNode(t, "a")
	n.cfg.CertFile, n.cfg.KeyFile = ca.issue(t, "server", n.addr)
	n.cfg.TrustedCAFile, n.cfg.ClientCertAuth, n.cfg.PlainClients = ca.ca(), true, true
	if err := invalid.Join(n.cfg.Resolve(n.addr).Validate); err != nil {
		t.Fatal(err)
	}
	n.run(t).awaitReady(t)
	s := &schemes{ca: ca, nodes: []*plainNode{{slot: "a", addr: n.addr}}}
	for _, scheme := range []string{"http", "https"} {
		put(t, s.client(t, scheme), "k", scheme)
	}
	bare := s.tlsConfig(t)
	bare.Certificates = nil
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + n.addr + ":2379"}, TLS: bare, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Get(ctx, "k"); err == nil {
		t.Error("a client over TLS without a certificate was served")
	}

	n.cfg.AdvertiseClientURLs = []string{"http://" + n.addr + ":2379"}
	if err := invalid.Join(n.cfg.Resolve(n.addr).Validate); err != nil {
		t.Error(err)
	}
	n.cfg.PlainClients = false
	if err := invalid.Join(n.cfg.Resolve(n.addr).Validate); err == nil {
		t.Error("clients are told http URLs at which nobody serves them")
	}
}
