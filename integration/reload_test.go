package integration_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/pki/pkitest"
	"holdfast/integration"
)

// trusted replaces a node's bundle.
func trusted(t *testing.T, n *integration.Node, all ...*tls.Certificate) {
	t.Helper()
	var data []byte
	for _, a := range all {
		cert, _ := pkitest.Encode(t, a)
		data = append(data, cert...)
	}
	replace(t, filepath.Join(n.Dir, "peers-ca.crt"), data)
}

// certify replaces a node's certificate and its key, which are in one file so that they change at once.
func certify(t *testing.T, n *integration.Node, by *tls.Certificate) {
	t.Helper()
	cert, key := pkitest.Encode(t, pkitest.Sign(t, by, x509.Certificate{Subject: pkix.Name{CommonName: n.Name},
		DNSNames: []string{"peer.story.holdfast.internal"}}))
	replace(t, filepath.Join(n.Dir, "peer.pem"), append(cert, key...))
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
	before, after := pkitest.Authority(t, "before"), pkitest.Authority(t, "after")
	c := cluster(t, integration.Options{})
	for _, n := range c.Nodes {
		n.Keys["etcd.peer-cert-file"], n.Keys["etcd.peer-key-file"] = filepath.Join(n.Dir, "peer.pem"), filepath.Join(n.Dir, "peer.pem")
		n.Keys["etcd.peer-trusted-ca-file"] = filepath.Join(n.Dir, "peers-ca.crt")
		trusted(t, n, before)
		certify(t, n, before)
	}
	c.Start()
	c.Serving()
	c.Healthy()
	w := c.Write()
	w.More(50)
	p, rest := beating(t, c)
	begin := time.Now()
	for round, all := range [][]*tls.Certificate{{before, after}, {after}} {
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
			certify(t, n, after)
		}
		w.More(50)
	}
	t.Logf("two changes in %s", time.Since(begin).Round(100*time.Millisecond))
	neverSilent(t, p, rest, begin)
	w.Verify()
}
