package integration_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
)

const (
	clientPort, peerPort = 2379, 2380
	peersName            = "peer.story.holdfast.internal" // in every member's certificate
)

// credentials are a client's certificate and the authorities that it trusts. Both can be replaced while clients use
// its config.
type credentials struct {
	mu    sync.Mutex
	pair  *tls.Certificate
	roots *x509.CertPool
}

func (c *credentials) set(pair *tls.Certificate, roots *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pair, c.roots = pair, roots
}

func (c *credentials) now() (*tls.Certificate, *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair, c.roots
}

// config verifies as crypto/tls does, but without the name, and with the current roots.
func (c *credentials) config() *tls.Config {
	return &tls.Config{
		InsecureSkipVerify:   true, //nolint:gosec // VerifyConnection does
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { pair, _ := c.now(); return pair, nil },
		VerifyConnection: func(s tls.ConnectionState) error {
			_, roots := c.now()
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots})
			return err
		},
	}
}

// of copies the certificate and the roots of a config from clientTLS.
func (c *credentials) of(cfg *tls.Config) { c.set(&cfg.Certificates[0], cfg.RootCAs) }

// as returns the credentials of another client, which trusts what c trusts.
func (c *credentials) as(pair *tls.Certificate) *tls.Config {
	_, roots := c.now()
	own := &credentials{pair: pair, roots: roots}
	return own.config()
}

// presented makes a handshake and returns the server's certificate.
func presented(n *integration.Node, port int, cfg *tls.Config) (*x509.Certificate, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", fmt.Sprintf("%s:%d", n.Address, port), cfg)
	if err != nil {
		return nil, fmt.Errorf("shake hands with %s, port %d: %w", n.Name, port, err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}

// admits returns nil if a port of a node answers a client with a certificate.
func admits(n *integration.Node, port int, cfg *tls.Config) error {
	return fetch(cfg, fmt.Sprintf("https://%s:%d/version", n.Address, port))
}

// everywhere returns nil if check does, for every running node.
func everywhere(c *integration.Cluster, check func(n *integration.Node) error) error {
	for _, n := range c.Running() {
		if err := check(n); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	return nil
}

// authorities makes two authorities with `tls init`, and returns the pool of their certificates.
func authorities(t *testing.T, n *integration.Node, dir string) *x509.CertPool {
	t.Helper()
	if out := n.Holdfast("tls", "init", dir); out.Code != 0 {
		t.Fatalf("tls init: %+v", out)
	}
	pool := x509.NewCertPool()
	trust(t, pool, dir)
	return pool
}

var authorityNames = []string{"etcd-clients-ca", "etcd-peers-ca"}

func trust(t *testing.T, pool *x509.CertPool, dir string) {
	t.Helper()
	for _, name := range authorityNames {
		text, err := os.ReadFile(filepath.Join(dir, name+".crt"))
		must(t, err)
		if !pool.AppendCertsFromPEM(text) {
			t.Fatalf("no certificate in %s of %s", name, dir)
		}
	}
}

// bundle replaces the authorities' certificates in dir, one file after the other.
func bundle(t *testing.T, dir string, others ...string) {
	t.Helper()
	for _, name := range authorityNames {
		var all []byte
		for _, other := range others {
			text, err := os.ReadFile(filepath.Join(other, name+".crt"))
			must(t, err)
			all = append(all, text...)
		}
		replace(t, filepath.Join(dir, name+".crt"), all)
	}
}

// Certificates that live for seconds are renewed again and again on three nodes. Then both authorities are replaced
// with bundles, under writes over TLS and without a restart of a process. No handshake fails while leaves are renewed,
// and writes fail only because of a change of the leader.
func TestTLSForLife(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Keys: map[string]any{"tls.mode": "ca", "tls.leaf-life": "9s"}})
	given, old, next := filepath.Join(c.Dir, "ca"), filepath.Join(c.Dir, "old"), filepath.Join(c.Dir, "next")
	n := c.Nodes[0]
	before, after := authorities(t, n, given), authorities(t, n, next)
	must(t, os.CopyFS(old, os.DirFS(given)))
	c.Set("tls.ca-dir", given)
	both := before.Clone()
	trust(t, both, next)
	me := &credentials{}
	me.set(signed(t, old, "etcd-clients-ca", "story"), both)
	c.TLS = me.config()
	c.Start()
	c.Healthy()
	w := c.Write()
	w.More(50)
	p, rest := beating(t, c)
	begin := time.Now()
	renewed(t, c, me, 4)
	if gap := p.gap(begin, time.Now()); p.failed() > 0 || gap > longestGap {
		t.Errorf("while certificates were renewed %d writes failed, and the longest time without one was %s", p.failed(), gap)
	}
	if each := fmt.Sprint(reloads(c)); each != "[0 0 0]" {
		t.Errorf("members were started anew for renewed certificates: %s", each)
	}
	t.Logf("renewed in %s", time.Since(begin).Round(100*time.Millisecond))

	stranger := signed(t, next, "etcd-clients-ca", "story")
	if err := admits(n, clientPort, me.as(stranger)); err == nil {
		t.Error("a client of the next authority was admitted before the time")
	}
	begin = time.Now()
	bundle(t, given, old, next) // the new one must sign, although no client trusts it yet
	for _, name := range authorityNames {
		key, err := os.ReadFile(filepath.Join(next, name+".key"))
		must(t, err)
		replace(t, filepath.Join(given, name+".key"), key)
	}
	c.Until(60*time.Second, "clients and members of the next authority are admitted", func() error {
		return everywhere(c, func(n *integration.Node) error {
			return errors.Join(admits(n, clientPort, me.as(stranger)), admits(n, peerPort, me.as(signed(t, next, "etcd-peers-ca", peersName))))
		})
	})
	c.Until(patience, "all present certificates of the next authority", func() error {
		return everywhere(c, func(n *integration.Node) error { return shows(n, me, after) })
	})
	was, _ := me.now()
	me.set(stranger, after)
	bundle(t, given, next)
	c.Until(60*time.Second, "nobody trusts the old authority", func() error {
		return everywhere(c, func(n *integration.Node) error {
			for port, pair := range map[int]*tls.Certificate{clientPort: was, peerPort: signed(t, old, "etcd-peers-ca", peersName)} {
				if admits(n, port, me.as(pair)) == nil {
					return fmt.Errorf("port %d admits a certificate of the old authority", port)
				}
			}
			return errors.Join(admits(n, clientPort, me.config()), shows(n, me, after))
		})
	})
	c.Healthy()
	w.More(50)
	t.Logf("exchanged in %s; members were started anew %v times", time.Since(begin).Round(100*time.Millisecond), reloads(c))
	neverSilent(t, p, rest, begin)
	w.Verify()
	for _, n := range c.Nodes {
		for name, file := range map[string]string{"etcd-clients-ca": "clients-ca.crt", "etcd-peers-ca": "peers-ca.crt"} {
			want, err := os.ReadFile(filepath.Join(next, name+".crt"))
			must(t, err)
			got, err := os.ReadFile(filepath.Join(n.Data, "tls", file))
			if err != nil || !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) {
				t.Errorf("%s of %s is not the new authority alone: %v", file, n.Name, err)
			}
		}
	}
}

// renewed makes handshakes with every port until each has shown this many other certificates. No handshake may fail.
func renewed(t *testing.T, c *integration.Cluster, me *credentials, times int) {
	t.Helper()
	seen := map[string]map[string]bool{}
	c.Until(90*time.Second, fmt.Sprintf("every certificate is renewed %d times", times), func() error {
		var missing error
		for _, n := range c.Nodes {
			for _, port := range []int{clientPort, peerPort} {
				cert, err := presented(n, port, me.config())
				if err != nil {
					t.Errorf("while certificates are renewed: %v", err)
					continue
				}
				at := fmt.Sprintf("%s:%d", n.Name, port)
				if seen[at] == nil {
					seen[at] = map[string]bool{}
				}
				if seen[at][cert.SerialNumber.String()] = true; len(seen[at]) <= times {
					missing = fmt.Errorf("%s has shown %d", at, len(seen[at]))
				}
			}
		}
		return missing
	})
}

// shows returns nil if both ports of a node show certificates that roots have signed.
func shows(n *integration.Node, me *credentials, roots *x509.CertPool) error {
	for _, port := range []int{clientPort, peerPort} {
		cert, err := presented(n, port, me.config())
		if err == nil {
			_, err = cert.Verify(x509.VerifyOptions{Roots: roots})
		}
		if err != nil {
			return fmt.Errorf("port %d: %w", port, err)
		}
	}
	return nil
}

// All nodes are off until every certificate has expired. They start, and the cluster serves. Then the authorities
// themselves have expired: the nodes say so, start no member, and continue when there are others.
func TestTLSExpired(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Keys: map[string]any{"tls.mode": "ca", "tls.leaf-life": "3s"}})
	given, next := filepath.Join(c.Dir, "ca"), filepath.Join(c.Dir, "next")
	n := c.Nodes[0]
	before, after := authorities(t, n, given), authorities(t, n, next)
	c.Set("tls.ca-dir", given)
	me := &credentials{}
	me.set(signed(t, given, "etcd-clients-ca", "story"), before)
	c.TLS = me.config()
	c.Start()
	c.Healthy()
	w := c.Write()
	w.More(20)
	w.Stop()

	ended(c)
	c.Start()
	c.Healthy()
	w.Verify()

	ended(c)
	for _, name := range authorityNames {
		path := filepath.Join(given, name+".crt")
		ca, err := tls.LoadX509KeyPair(path, strings.TrimSuffix(path, ".crt")+".key")
		must(t, err)
		replace(t, path, aged(t, ca))
	}
	c.Start()
	for _, n := range c.Nodes {
		c.Until(patience, n.Name+" tells that the authorities have ended", func() error {
			s, err := n.Self()
			if said := s.Why + strings.Join(health.Texts(s.Found), "\n"); err == nil && !strings.Contains(said, "expired") {
				err = errors.New(said)
			}
			return err
		})
		if _, err := presented(n, clientPort, me.config()); err == nil {
			t.Errorf("%s shows a certificate", n.Name)
		}
	}
	for _, name := range authorityNames { // the certificate first, then its key: in between they do not match
		for _, file := range []string{name + ".crt", name + ".key"} {
			text, err := os.ReadFile(filepath.Join(next, file))
			must(t, err)
			replace(t, filepath.Join(given, file), text)
		}
	}
	me.set(signed(t, next, "etcd-clients-ca", "story"), after)
	c.Healthy()
	w.Verify()
}

// ended stops all nodes and waits until all their certificates have expired.
func ended(c *integration.Cluster) {
	c.Stop()
	c.Until(patience, "every certificate has ended", func() error {
		return everyLeaf(c, func(cert *x509.Certificate) error {
			if time.Now().Before(cert.NotAfter) {
				return fmt.Errorf("one ends at %s", cert.NotAfter)
			}
			return nil
		})
	})
}

func everyLeaf(c *integration.Cluster, check func(*x509.Certificate) error) error {
	for _, n := range c.Nodes {
		for _, name := range []string{"server.pem", "peer.pem"} {
			path := filepath.Join(n.Data, "tls", name)
			pair, err := tls.LoadX509KeyPair(path, path)
			if err == nil {
				err = check(pair.Leaf)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return nil
}

// aged returns the certificate of an authority with its key, as if it had expired a minute ago.
func aged(t *testing.T, ca tls.Certificate) []byte {
	t.Helper()
	template := *ca.Leaf
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, ca.Leaf.PublicKey, ca.PrivateKey)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
