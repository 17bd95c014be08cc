package integration_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/integration/tier"
)

// plainTLS are the certificates of an operator's plain etcd: one authority, and one certificate for each member, for
// clients and peers. The zero value has none.
type plainTLS struct{ dir string }

// newPlainTLS makes them for the addresses of a cluster, and one for a client.
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

// pair returns the file with a member's certificate and its key.
func (p plainTLS) pair(n *integration.Node) string { return filepath.Join(p.dir, n.Name, "pair.pem") }

// configure makes a node, and etcd on its host, use the certificates.
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

// Members that were given back are connected only through holdfast's last member, because their names do not resolve,
// as when etcd-manager starts. That member is not released before they are connected, and clients notice nothing.
func TestReleaseOfTheLastLink(t *testing.T) {
	tier.Long(t, "TestSevered of embedded/health and TestSight of embedded/plan refuse such a release in each case")
	h := plainHandover(t, newPlainTLS(t))
	order := h.leaderLast()
	for _, i := range order {
		h.take(i)
	}
	h.healthy()
	order = h.leaderLast()
	name := func(i int) string { return h.seats[i].slot + "=" + h.seats[i].node.Address }
	last := order[2]
	for _, i := range order[:2] {
		s, whole := h.seats[i], h.seats[i].other
		s.other = func() *program { return launchPlain(t, s.node, name(i), name(last)) }
		h.release(i)
		s.other = whole
	}
	h.longest()
	s := h.seats[last]
	args := []string{"takeover", "release", "--to-etcd", s.etcd, "--control.socket", s.node.Socket(), "--wait", "0s"}
	const want = "are not connected, so there may be no quorum"
	for _, dry := range []bool{true, false} {
		all := args
		if dry {
			all = append(all, "--dry-run")
		}
		if out := s.node.Holdfast(all...); out.Code != 1 || !strings.Contains(out.Err, want) {
			t.Errorf("release of the last link, dry %t: %+v", dry, out)
		}
	}
	h.more(100)
	first := order[0]
	h.give(first) // it resolves the names by now
	h.release(last)
	h.verify()
	if h.worst > 3*time.Second {
		t.Errorf("the longest gap was %s", h.worst)
	}
}
