package integration_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/embedded/pki/pkitest"
	"holdfast/integration"
)

// Three nodes have the authorities of `tls init`. etcd's client port and its peer port refuse everyone without a
// certificate of the right authority. A member with a certificate of the wrong authority stays alone until it has the
// right one.
func TestTLSGiven(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	ours, foreign := filepath.Join(c.Dir, "ca"), filepath.Join(c.Dir, "foreign")
	n := c.Nodes[0]
	for _, dir := range []string{ours, foreign} {
		if out := n.Holdfast("tls", "init", dir); out.Code != 0 {
			t.Fatalf("tls init: %+v", out)
		}
	}
	if out := n.Holdfast("tls", "init", ours); out.Code == 0 || !strings.Contains(out.Err, "never overwritten") {
		t.Errorf("tls init in a directory that has authorities: %+v", out)
	}
	c.Set("tls.ca-dir", ours)
	c.TLS = clientTLS(t, c, n, "story")
	c.Start()
	c.Healthy()
	w := c.Write()
	w.More(100)
	w.Stop()
	w.Verify()
	for _, n := range c.Nodes {
		if out := n.Holdfast("etcdctl", "--config", n.File(), "endpoint", "health"); out.Code != 0 {
			t.Errorf("etcdctl on %s: %+v", n.Name, out)
		}
	}
	strangers(t, c, ours, foreign)

	// The peers' authority of one node is a foreign one.
	lone := c.Nodes[2]
	swap := func(change func()) {
		t.Helper()
		lone.Signal(syscall.SIGTERM)
		lone.Exit(20 * time.Second)
		change()
		must(t, os.RemoveAll(filepath.Join(lone.Data, "tls")))
		lone.Start()
	}
	swap(func() {
		lone.Keys["tls.peer-ca-file"] = filepath.Join(foreign, "etcd-peers-ca.crt")
		lone.Keys["tls.peer-ca-key-file"] = filepath.Join(foreign, "etcd-peers-ca.key")
	})
	lone.Says("waits for a quorum")
	lone.Logs("rejected connection on peer endpoint")
	if s, err := n.Status(); err != nil || !strings.Contains(strings.Join(s.Reasons(), " "), "slot c") {
		t.Errorf("%s with a stranger says %v, %v", n.Name, s.Reasons(), err)
	}
	// It is the clients' authority: with it, any client could be a member.
	swap(func() {
		lone.Keys["tls.peer-ca-file"] = filepath.Join(ours, "etcd-clients-ca.crt")
		lone.Keys["tls.peer-ca-key-file"] = filepath.Join(ours, "etcd-clients-ca.key")
	})
	lone.Logs("any client could be a member")
	swap(func() { delete(lone.Keys, "tls.peer-ca-file"); delete(lone.Keys, "tls.peer-ca-key-file") })
	c.Healthy()
	w.Verify()
}

// strangers tries every port with what must be refused. The control cases show that the ports were reached.
func strangers(t *testing.T, c *integration.Cluster, ours, foreign string) {
	t.Helper()
	n := c.Nodes[0]
	made := filepath.Join(n.Data, "tls")
	trusted := func(names ...string) *x509.CertPool {
		pool := x509.NewCertPool()
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(ours, name))
			if err != nil || !pool.AppendCertsFromPEM(text) {
				t.Fatalf("read %s: %v", name, err)
			}
		}
		return pool
	}
	pair := func(path string) *tls.Certificate {
		p, err := tls.LoadX509KeyPair(path, path)
		must(t, err)
		return &p
	}
	for _, try := range []struct {
		what     string
		port     int
		pair     *tls.Certificate
		admitted bool
	}{
		{"the client's certificate", 2379, &c.TLS.Certificates[0], true},
		{"no certificate", 2379, nil, false},
		{"a client's certificate of a foreign authority", 2379, signed(t, foreign, "etcd-clients-ca", "root"), false},
		{"a member's certificate", 2379, pair(filepath.Join(made, "peer.pem")), false},
		{"a member's certificate", 2380, pair(filepath.Join(made, "peer.pem")), true},
		{"no certificate", 2380, nil, false},
		{"a member's certificate of a foreign authority", 2380, signed(t, foreign, "etcd-peers-ca", "peer.story.holdfast.internal"), false},
		{"a client's certificate", 2380, &c.TLS.Certificates[0], false},
		{"a member's name under the clients' authority", 2380, signed(t, ours, "etcd-clients-ca", "peer.story.holdfast.internal"), false},
		{"another cluster's name under the peers' authority", 2380, signed(t, ours, "etcd-peers-ca", "peer.other.holdfast.internal"), false},
	} {
		cfg := &tls.Config{RootCAs: trusted("etcd-clients-ca.crt", "etcd-peers-ca.crt")}
		if try.port == 2380 {
			cfg.ServerName = "peer.story.holdfast.internal"
		}
		if try.pair != nil { // whatever the server says that it accepts
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return try.pair, nil }
		}
		err := fetch(cfg, fmt.Sprintf("https://%s:%d/version", n.Address, try.port))
		if (err == nil) != try.admitted {
			t.Errorf("port %d with %s: admitted %v, want %v (%v)", try.port, try.what, err == nil, try.admitted, err)
		}
	}
	for _, port := range []int{2379, 2380} {
		if err := fetch(nil, fmt.Sprintf("http://%s:%d/version", n.Address, port)); err == nil {
			t.Errorf("port %d speaks plain HTTP", port)
		}
	}
}

// fetch makes one request on a connection of its own.
func fetch(cfg *tls.Config, url string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// clientTLS has a node issue a certificate for a user, and returns a client's TLS configuration.
func clientTLS(t testing.TB, c *integration.Cluster, n *integration.Node, user string) *tls.Config {
	t.Helper()
	n.Configure()
	dir := filepath.Join(c.Dir, "client-"+user)
	done(t, n, "tls", "client", user, "--to", dir)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, user+".crt"), filepath.Join(dir, user+".key"))
	must(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	must(t, err)
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: x509.NewCertPool()}
	if !cfg.RootCAs.AppendCertsFromPEM(text) {
		t.Fatal("ca.crt holds no certificate")
	}
	return cfg
}

// overTLS makes members and clients of a cluster of holdfast use TLS. It returns the directory of the authorities.
func overTLS(t testing.TB, c *integration.Cluster) (authorities string) {
	t.Helper()
	authorities = filepath.Join(c.Dir, "authorities")
	if out := c.Nodes[0].Holdfast("tls", "init", authorities); out.Code != 0 {
		t.Fatalf("tls init: %+v", out)
	}
	c.Set("tls.ca-dir", authorities)
	c.TLS = clientTLS(t, c, c.Nodes[0], "story")
	return authorities
}

// signed returns a certificate with a name, and with more names or addresses, of an authority in a directory that `tls
// init` has made.
func signed(t testing.TB, dir, authority, name string, more ...string) *tls.Certificate {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, authority+".crt"), filepath.Join(dir, authority+".key"))
	must(t, err)
	template := x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}
	for _, other := range more {
		if ip := net.ParseIP(other); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, other)
		}
	}
	return pkitest.Sign(t, &ca, template)
}
