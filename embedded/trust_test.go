package embedded

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/durable"
	"holdfast/embedded/pki"
)

// dial returns a client with a certificate of an authority. It accepts any server: the test is about which clients that
// lets in.
func dial(t *testing.T, n *node, of *authority) *clientv3.Client {
	t.Helper()
	cert, key := of.issue(t, "client", "client")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + n.addr + ":2379"}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// bundle replaces a file by the certificates of authorities, atomically.
func bundle(t *testing.T, file string, of ...*authority) {
	t.Helper()
	var all []byte
	for _, a := range of {
		data, err := os.ReadFile(a.ca())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	if err := os.WriteFile(file+".new", all, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// A member is stale once its authorities' files change. After a new start in the same process, it accepts what it
// refused before.
func TestStale(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	before, after, dir := newAuthority(t), newAuthority(t), t.TempDir()
	clients, peers := filepath.Join(dir, "clients.pem"), filepath.Join(dir, "peers.pem")
	bundle(t, clients, before)
	bundle(t, peers, before)
	n := newNode(t, "a")
	n.secure(t, before, peerName)
	n.spec.Peers = map[string]string{"a": n.spec.PeerURL}
	n.cfg.CertFile, n.cfg.KeyFile = before.issue(t, "server", "server.test")
	n.cfg.TrustedCAFile, n.cfg.PeerTrustedCAFile, n.cfg.ClientCertAuth = clients, peers, true
	n.run(t).awaitReady(t)

	only, both := []string{pki.Fingerprint(before.Leaf)}, []string{pki.Fingerprint(before.Leaf),
		pki.Fingerprint(after.Leaf)}
	slices.Sort(both)
	if s := n.Status(); s.Stale || !slices.Equal(s.Trusts, only) {
		t.Errorf("at first: stale %t, trusts %v, want %v", s.Stale, s.Trusts, only)
	}
	put(t, dial(t, n, before), "k", "1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := dial(t, n, after).Get(ctx, "k"); err == nil {
		t.Fatal("a client of an unknown authority was let in")
	}

	bundle(t, clients, after, before)
	await(t, "the member is stale", func() bool { return n.Status().Stale })
	bundle(t, clients, before, before)
	await(t, "the same set is as before", func() bool { return !n.Status().Stale })
	bundle(t, clients, before, after)
	bundle(t, peers, after, before)
	await(t, "the member is stale", func() bool { return n.Status().Stale })
	if s := n.Status(); !slices.Equal(s.Trusts, only) {
		t.Errorf("while it runs it trusts %v, want %v", s.Trusts, only)
	}

	stop(t, n, 0)
	n.run(t).awaitReady(t)
	if s := n.Status(); s.Stale || !slices.Equal(s.Trusts, both) {
		t.Errorf("after a new start: stale %t, trusts %v, want %v", s.Stale, s.Trusts, both)
	}
	put(t, dial(t, n, after), "k", "2")
	put(t, dial(t, n, before), "k", "3")
}

// The files may be on a mount that hangs. A caller gets the last answer, the first one after a moment.
func TestTrustOnADiskThatHangs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := syscall.Mkfifo(file, 0o600); err != nil { // nobody writes to it yet
		t.Fatal(err)
	}
	trust := &trust{client: transport.TLSInfo{TrustedCAFile: file}}
	trust.last.Store(true)
	for i := range 2 {
		if stale, ok := durable.Soon(20*time.Second, trust.stale); !stale || !ok {
			t.Errorf("question %d: got %t, answered: %t", i, stale, ok)
		}
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0) // the read that hangs ends
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	await(t, "it was read", func() bool { return !trust.last.Load() })
}

// Files with which etcd would not start make no member stale.
func TestNotStale(t *testing.T) {
	before, after, dir := newAuthority(t), newAuthority(t), t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	bundle(t, file, before)
	cfg := testConfig()
	cfg.PeerCertFile, cfg.PeerKeyFile = before.issue(t, "peer", peerName)
	cfg.PeerTrustedCAFile = file
	n := newNode(t, "a")
	cfg.Names.Peer = peerName
	n.spec.PeerURL, n.cfg = "https://"+n.addr+":2380", cfg
	n.spec.Peers = map[string]string{"a": n.spec.PeerURL}
	ec, err := etcdConfig(n.resolved(), n.spec, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	trust := newTrust(ec)
	bundle(t, file, after)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !trust.changed() {
		t.Fatal("another authority is no change")
	}
	for name, content := range map[string]string{
		"empty":          "",
		"half written":   string(whole) + string(whole[:len(whole)/2]),
		"no certificate": strings.ReplaceAll(string(whole), "MII", "AAA"),
		"text":           "not yet",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if trust.changed() {
			t.Errorf("%s: it is a change", name)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if trust.changed() {
		t.Error("a file that is gone is a change")
	}
	bundle(t, file, after)
	if err := os.Truncate(cfg.PeerKeyFile, 0); err != nil {
		t.Fatal(err)
	}
	if trust.changed() {
		t.Error("the key is unreadable, and yet the member would be stopped")
	}
}
