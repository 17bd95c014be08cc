package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// user is the client's side with a certificate.
func user(t testing.TB, k *Keeper, certificate, key []byte) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	for _, c := range k.now().clients {
		pool.AddCert(c)
	}
	cfg := &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS13}
	if certificate != nil {
		pair, err := tls.X509KeyPair(certificate, key)
		must(t, err)
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}

// serving is a server with these files, like etcd.
func serving(t testing.TB, files Files) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Server, files.Server)
	must(t, err)
	text, err := os.ReadFile(files.ClientsCA)
	must(t, err)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(text)
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
}

// A client's certificate is accepted by etcd's files, and nothing else is.
func TestClient(t *testing.T) {
	source := &given{now: newAuthorities(t, "one", time.Hour)}
	k := newKeeper(t, source, nil)
	prepare(t, k, "a")
	certificate, key, err := k.Client(t.Context(), "alice", nil, 24*time.Hour)
	must(t, err)
	alice := user(t, k, certificate, key)
	if err := handshake(serving(t, k.cfg.Files()), alice); err != nil {
		t.Error(err)
	}
	if leaf := alice.Certificates[0].Leaf; leaf.Subject.CommonName != "alice" || leaf.NotAfter.After(source.now.Clients.Primary.NotAfter) || len(leaf.ExtKeyUsage) != 1 {
		t.Errorf("alice's certificate: %s until %s, %v", leaf.Subject, leaf.NotAfter, leaf.ExtKeyUsage)
	}
	peer := []byte(read(t, k.cfg.Dir)["peer.pem"])
	if handshake(serving(t, k.cfg.Files()), user(t, k, peer, peer)) == nil {
		t.Error("a peer is accepted as a client")
	}
	// The files follow the authority.
	next := newAuthorities(t, "two", time.Hour)
	next.Peers = source.now.Peers
	source.set(next, nil)
	if _, err := k.look(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if handshake(serving(t, k.cfg.Files()), alice) == nil {
		t.Error("a client of an authority that was removed is accepted")
	}
	if certificate, key, err = k.Client(t.Context(), "alice", nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := handshake(serving(t, k.cfg.Files()), user(t, k, certificate, key)); err != nil {
		t.Error(err)
	}
}

func TestClientRefuses(t *testing.T) {
	source := &given{now: newAuthorities(t, "one", time.Hour)}
	k := newKeeper(t, source, nil)
	if _, _, err := k.Client(t.Context(), "", nil, time.Hour); err == nil || !strings.Contains(err.Error(), "common name") {
		t.Errorf("nobody: %v", err)
	}
	if _, _, err := k.Client(t.Context(), "bob", nil, 0); err == nil {
		t.Error("a certificate of no life")
	}
	source.now.Clients.Key, source.now.Clients.Primary = nil, nil
	if _, _, err := k.Client(t.Context(), "bob", nil, time.Hour); err == nil || !strings.Contains(err.Error(), "tls.client-ca-key-file") {
		t.Errorf("without the authority's key: %v", err)
	}
}

// If there is nothing to issue, nothing is written.
func TestOtherModes(t *testing.T) {
	for _, mode := range []string{ModeOff, ModeFiles} {
		cfg := Default()
		cfg.Mode, cfg.Dir = mode, t.TempDir()
		k, err := New(cfg, Identity{}, nil, zap.NewNop(), prometheus.NewRegistry())
		must(t, err)
		prepare(t, k, "a")
		if err := k.Learn(t.Context()); err != nil {
			t.Error(err)
		}
		if len(read(t, cfg.Dir)) > 0 || k.now().mesh != nil || k.Issuer() != "" {
			t.Errorf("mode %s does something", mode)
		}
		if _, _, err := k.Client(t.Context(), "bob", nil, time.Hour); err == nil {
			t.Errorf("mode %s issues", mode)
		}
	}
}
