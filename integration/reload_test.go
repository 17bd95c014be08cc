package integration_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
)

// ca is an authority of a story.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCA(t *testing.T, name string) ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return ca{cert, key}
}

// trusted replaces a node's bundle.
func trusted(t *testing.T, n *integration.Node, all ...ca) {
	t.Helper()
	var data []byte
	for _, a := range all {
		data = append(data, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})...)
	}
	replace(t, filepath.Join(n.Dir, "peers-ca.crt"), data)
}

// leaf replaces a node's certificate and its key, which are in one file so that they change at once.
func (a ca) leaf(t *testing.T, n *integration.Node) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: n.Name}, DNSNames: []string{"peer.story.holdfast.internal"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	var both bytes.Buffer
	must(t, pem.Encode(&both, &pem.Block{Type: "CERTIFICATE", Bytes: der}))
	must(t, pem.Encode(&both, &pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	replace(t, filepath.Join(n.Dir, "peer.pem"), both.Bytes())
}

func replace(t *testing.T, file string, data []byte) {
	t.Helper()
	must(t, os.WriteFile(file+".new", data, 0o600))
	must(t, os.Rename(file+".new", file))
}

// reloads counts how often each node has restarted its member because of its authorities.
func reloads(c *integration.Cluster) (each []int) {
	for _, n := range c.Nodes {
		each = append(each, strings.Count(n.Log(), "stopped etcd to restart it with its new authorities"))
	}
	return each
}

// The peers' authority is replaced under writes, without a restart of a process: first old and new, then certificates
// of the new one, then the new one alone. Each change restarts every member once, one at a time.
func TestAuthorityChange(t *testing.T) {
	story(t)
	before, after := newCA(t, "before"), newCA(t, "after")
	c := cluster(t, integration.Options{})
	for _, n := range c.Nodes {
		n.Keys["etcd.peer-cert-file"], n.Keys["etcd.peer-key-file"] = filepath.Join(n.Dir, "peer.pem"), filepath.Join(n.Dir, "peer.pem")
		n.Keys["etcd.peer-trusted-ca-file"] = filepath.Join(n.Dir, "peers-ca.crt")
		trusted(t, n, before)
		before.leaf(t, n)
	}
	c.Start()
	c.Serving()
	c.Healthy()
	w := c.Write()
	w.More(50)
	p, rest := beating(t, c)
	begin := time.Now()
	for round, all := range [][]ca{{before, after}, {after}} {
		for _, n := range c.Nodes {
			trusted(t, n, all...)
		}
		c.Until(60*time.Second, "every member was started anew", func() error {
			if each := reloads(c); fmt.Sprint(each) != fmt.Sprint([]int{round + 1, round + 1, round + 1}) {
				return fmt.Errorf("%v", each)
			}
			return c.Fit()
		})
		for _, n := range c.Nodes {
			after.leaf(t, n)
		}
		w.More(50)
	}
	t.Logf("two changes in %s", time.Since(begin).Round(100*time.Millisecond))
	neverSilent(t, p, rest, begin)
	w.Verify()
}
