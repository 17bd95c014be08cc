package integration_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"holdfast/integration"
)

// plainTLS are the certificates of plain etcd as an operator has them: one authority, and one certificate for each member,
// which clients and peers are shown alike. The zero value is none.
type plainTLS struct{ dir string }

// newPlainTLS makes them, for the addresses of a cluster, and a client's.
func newPlainTLS(t *testing.T) func(*integration.Cluster) plainTLS {
	return func(c *integration.Cluster) plainTLS {
		t.Helper()
		p := plainTLS{filepath.Join(c.Dir, "pki")}
		rsaAuthority(t, p.dir, "ca")
		for i, n := range c.Nodes {
			must(t, os.Mkdir(filepath.Dir(p.pair(n)), 0o700))
			writePair(t, filepath.Dir(p.pair(n)), signed(t, p.dir, "ca", fmt.Sprintf("etcd-%s.%s", c.Slots[i], plainZone), n.Name,
				"localhost", n.Address, "127.0.0.1"))
		}
		text, err := os.ReadFile(filepath.Join(p.dir, "ca.crt"))
		must(t, err)
		c.TLS = &tls.Config{Certificates: []tls.Certificate{*signed(t, p.dir, "ca", "story")}, RootCAs: x509.NewCertPool()}
		c.TLS.RootCAs.AppendCertsFromPEM(text)
		c.Set("tls.mode", "files")
		key := c.Nodes[0].Holdfast("gossip", "keygen")
		must(t, os.WriteFile(filepath.Join(p.dir, "gossip.key"), []byte(key.Out), 0o600))
		c.Set("gossip.key-file", filepath.Join(p.dir, "gossip.key"))
		return p
	}
}

// pair is the file of a member's certificate and its key.
func (p plainTLS) pair(n *integration.Node) string { return filepath.Join(p.dir, n.Name, "pair.pem") }

// configure has a node, and etcd on its host, use them.
func (p plainTLS) configure(n *integration.Node, etcd map[string]any) {
	if p.dir == "" {
		return
	}
	files := map[string]any{"cert-file": p.pair(n), "key-file": p.pair(n), "trusted-ca-file": filepath.Join(p.dir, "ca.crt")}
	for name, path := range files {
		n.Keys["etcd."+name], n.Keys["etcd.peer-"+name] = path, path
	}
	files["client-cert-auth"] = true
	etcd["client-transport-security"], etcd["peer-transport-security"] = files, files
	n.Keys["etcd.client-cert-auth"] = true
}

// A cluster of plain etcd with certificates of its operator becomes holdfast's, machine by machine, and goes back.
func TestTakeoverOfPlainEtcdWithTLS(t *testing.T) {
	h := plainHandover(t, newPlainTLS(t))
	h.thereAndBack(func() {})
}
