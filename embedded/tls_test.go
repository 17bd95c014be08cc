package embedded

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"holdfast/embedded/pki/pkitest"
	"holdfast/embedded/settings"
	"holdfast/invalid"
)

const peerName = "peer.test.holdfast.internal"

// authority signs certificates for a test.
type authority struct {
	*tls.Certificate
	dir string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{pkitest.Authority(t, "test ca"), t.TempDir()}
	pkitest.Write(t, a.Certificate, a.ca(), filepath.Join(a.dir, "ca.key"))
	return a
}

func (a *authority) ca() string { return filepath.Join(a.dir, "ca.pem") }

// issue makes a certificate with these DNS names and addresses and returns its files.
func (a *authority) issue(t *testing.T, file string, sans ...string) (cert, key string) {
	t.Helper()
	return a.issueAs(t, file, func(*x509.Certificate) {}, sans...)
}

func (a *authority) issueAs(t *testing.T, file string, change func(*x509.Certificate), sans ...string) (cert, key string) {
	t.Helper()
	tmpl := x509.Certificate{Subject: pkix.Name{CommonName: file}, DNSNames: slices.Clone(sans)}
	tmpl.DNSNames = slices.DeleteFunc(tmpl.DNSNames, func(san string) bool {
		ip := net.ParseIP(san)
		if ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		}
		return ip != nil
	})
	change(&tmpl)
	cert, key = filepath.Join(a.dir, file+".pem"), filepath.Join(a.dir, file+".key")
	pkitest.Write(t, pkitest.Sign(t, a.Certificate, tmpl), cert, key)
	return cert, key
}

// secure gives a node a peer certificate for san.
func (n *node) secure(t *testing.T, a *authority, san string) {
	t.Helper()
	n.cfg.PeerCertFile, n.cfg.PeerKeyFile = a.issue(t, n.spec.Slot, san)
	n.cfg.PeerTrustedCAFile = a.ca()
	n.cfg.Names.Peer = peerName
	n.spec.PeerURL = strings.Replace(n.spec.PeerURL, "http://", "https://", 1)
}

// Certificates have one name and no address: etcd's own check would refuse them.
func TestPeerTLS(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	ca := newAuthority(t)
	peers := map[string]string{}
	var nodes []*node
	for _, slot := range []string{"a", "b", "c"} {
		n := newNode(t, slot)
		n.secure(t, ca, peerName)
		if err := invalid.Join(n.cfg.Validate); err != nil {
			t.Fatal(err)
		}
		peers[slot] = n.spec.PeerURL
		nodes = append(nodes, n)
	}
	for _, n := range runAll(t, nodes, peers) {
		put(t, n.client(t), "k", n.spec.Slot)
	}
}

// A member whose certificate is of the same CA but has another name is refused, whichever side dials.
func TestPeerTLSWrongName(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	ca := newAuthority(t)
	right, wrong := newNode(t, "a"), newNode(t, "b")
	right.secure(t, ca, peerName)
	wrong.secure(t, ca, "peer.other.holdfast.internal")
	peers := map[string]string{"a": right.spec.PeerURL, "b": wrong.spec.PeerURL}
	core, logs := observer.New(zap.WarnLevel)
	right.lg = zap.New(core)
	for _, n := range []*node{right, wrong} {
		n.spec.Peers = peers
		n.run(t)
	}
	seen := func(msg, text string) func() bool {
		return func() bool {
			for _, e := range logs.FilterMessage(msg).All() {
				for _, v := range e.ContextMap() {
					if s, ok := v.(string); ok && strings.Contains(s, text) {
						return true
					}
				}
			}
			return false
		}
	}
	await(t, "the listener refuses the name", seen("rejected connection on peer endpoint", "client certificate authentication failed"))
	await(t, "the dialler refuses the name", func() bool {
		return seen("prober detected unhealthy status", "not "+peerName)() || seen("prober detected unhealthy status", "authentication failed")()
	})
	if right.Status().Ready || wrong.Status().Ready {
		t.Error("ready with a stranger")
	}
}

func TestSpecCheck(t *testing.T) {
	ca := newAuthority(t)
	for name, change := range map[string]func(*node){
		"slot is missing":                      func(n *node) { n.spec.Slot = "" },
		"token is missing":                     func(n *node) { n.spec.Token = "" },
		"want its own peer URL":                func(n *node) { n.spec.Peers = map[string]string{"a": "http://127.0.0.1:1"} },
		"does not start with https://":         func(n *node) { n.secure(t, ca, peerName); n.spec.PeerURL = "http://127.0.0.1:1" },
		"name in peer certificates is missing": func(n *node) { n.secure(t, ca, peerName); n.cfg.Names.Peer = "" },
	} {
		n := newNode(t, "a")
		change(n)
		if err := n.begin(t); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
		if _, err := os.Stat(n.spec.DataDir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the data directory was made", name)
		}
	}
	n := newNode(t, "a")
	if err := New(n.cfg, n.lg, nil).Start(soon(t), n.spec); err == nil || !strings.Contains(err.Error(), "was not resolved") {
		t.Errorf("unresolved config: got %v", err)
	}
}

// Members that holdfast did not start have only the host names of their peer URLs. With etcd.peer-url they and ours
// accept each other, and nobody else.
func TestPeerTLSOfHosts(t *testing.T) {
	ca := newAuthority(t)
	pair := func(file string, sans ...string) settings.PeerTLS {
		cert, key := ca.issue(t, file, sans...)
		return settings.PeerTLS{PeerCertFile: cert, PeerKeyFile: key, PeerTrustedCAFile: ca.ca()}
	}
	ours := pair("a", peerName, "etcd-a.internal.example.com")
	theirs := pair("b", "etcd-b.internal.example.com")
	stranger := pair("x", "etcd-x.internal.example.com")
	hosts := []string{"etcd-a.internal.example.com", "etcd-b.internal.example.com"}
	for name, c := range map[string]struct {
		client, server settings.PeerTLS
		url            string
		hosts          []string
		want           bool
	}{
		"ours dials theirs":                {ours, theirs, hosts[1], hosts, true},
		"theirs dials ours":                {theirs, ours, hosts[0], hosts, true},
		"ours dials ours":                  {ours, ours, hosts[0], hosts, true},
		"a stranger dials":                 {stranger, ours, hosts[0], hosts, false},
		"dials a stranger":                 {ours, stranger, "etcd-x.internal.example.com", hosts, false},
		"another member answers":           {ours, theirs, hosts[0], hosts, false},
		"without the pattern, theirs":      {theirs, ours, hosts[0], nil, false},
		"without the pattern, dials ours":  {ours, ours, "a.main.holdfast.internal", nil, true},
		"without the pattern, dials their": {ours, theirs, hosts[1], nil, false},
	} {
		names := Names{Peer: peerName, Hosts: c.hosts}
		if got := shake(t, peerTLS(c.client, names), peerTLS(c.server, names), c.url); (got == nil) != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// shake returns the result when client dials server by a host name.
func shake(t *testing.T, client, server transport.TLSInfo, host string) error {
	t.Helper()
	sc, err := server.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	cc, err := client.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if cc.ServerName == "" {
		cc.ServerName = host // as the HTTP client does
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		_, err = tls.Server(conn, sc).Write([]byte("x"))
		done <- err
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), cc)
	if err == nil {
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1)) // the server has also accepted the client
	}
	return errors.Join(err, <-done)
}
