package cmd

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/embedded/pki/pkitest"
	"holdfast/snapshot"
)

// What is handed out holds the authorities, and never a key.
func TestBundle(t *testing.T) {
	configPath, cfg := tlsCA(t)
	auto := filepath.Join(t.TempDir(), "holdfast.yaml")
	store := t.TempDir()
	text := "cluster: {name: main}\nnode: {data-dir: " + t.TempDir() + "/data, name: n1}\ntls: {mode: auto}\n" +
		"snapshot: {store: " + store + "}\n"
	must(t, os.WriteFile(auto, []byte(text), 0o600))
	if out, err := execute("tls", "bundle", "--config", auto); err == nil {
		t.Errorf("before there are any: %s", out)
	}
	l, err := config.Load(auto, nil, nil)
	must(t, err)
	a := authorities.New(node.EditionOptions(l.Config), snapshot.NewDir(store), zap.NewNop())
	if _, err := a.Authorities(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Advance(t.Context(), authorities.View{}, authorities.Order{Begin: true}, false); err != nil {
		t.Fatal(err)
	}
	given := func(path string) string {
		text, err := os.ReadFile(path)
		must(t, err)
		return string(text)
	}
	known, err := a.Authorities(t.Context())
	must(t, err)
	for _, tt := range []struct{ configPath, clients, peers string }{
		{configPath, given(cfg.TLS.ClientCAFile), given(cfg.TLS.PeerCAFile)},
		{auto, string(pki.EncodeCertificates(known.Clients.Bundle...)),
			string(pki.EncodeCertificates(known.Peers.Bundle...))},
	} {
		for want, args := range map[string][]string{tt.clients: nil, tt.peers: {"--peers"}} {
			out, err := execute(append([]string{"tls", "bundle", "--config", tt.configPath}, args...)...)
			if err != nil || out != want {
				t.Errorf("%v: %v, got\n%swant\n%s", args, err, out, want)
			}
		}
		to := filepath.Join(t.TempDir(), "out")
		write := []string{"tls", "bundle", "--config", tt.configPath, "--out", to}
		if out, err := execute(append(write, "--dry-run")...); err != nil || !strings.Contains(out, "nothing was changed") {
			t.Errorf("dry: %v, %s", err, out)
		}
		if _, err := os.Stat(to); err == nil {
			t.Error("a dry run made the directory")
		}
		if out, err := execute(write...); err != nil {
			t.Fatal(err, out)
		}
		got := given(filepath.Join(to, "etcd-clients-ca.crt")) + given(filepath.Join(to, "etcd-peers-ca.crt"))
		if got != tt.clients+tt.peers {
			t.Errorf("got\n%s", got)
		}
		files, _ := os.ReadDir(to)
		if len(files) != 2 {
			t.Errorf("got %v", files)
		}
		for _, f := range files {
			if bytes.Contains([]byte(given(filepath.Join(to, f.Name()))), []byte("PRIVATE KEY")) {
				t.Errorf("%s holds a key", f.Name())
			}
		}
		if _, err := execute(write...); err == nil || !strings.Contains(err.Error(), "never overwritten") {
			t.Errorf("again: %v", err)
		}
	}
	if strings.Count(string(pki.EncodeCertificates(known.Clients.Bundle...)), "BEGIN") != 2 {
		t.Error("while a rotation is open the bundle holds both authorities")
	}
	files := func(more ...string) (string, error) {
		ca := "--etcd.trusted-ca-file=" + cfg.TLS.ClientCAFile
		return execute(append([]string{"tls", "bundle", "--node.data-dir", t.TempDir(), "--tls.mode", "files", ca}, more...)...)
	}
	ours := serverPair(t, cfg.TLS.ClientCAFile, cfg.TLS.ClientCAKeyFile)
	if out, err := files(ours...); err != nil || out != given(cfg.TLS.ClientCAFile) {
		t.Errorf("mode files: %v, %s", err, out)
	}
	if out, err := files(append(ours, "--peers")...); err == nil || !strings.Contains(err.Error(), "not known here") {
		t.Errorf("mode files, peers: %v, %s", err, out)
	}
	if out, err := files(serverPair(t, cfg.TLS.PeerCAFile, cfg.TLS.PeerCAKeyFile)...); err == nil || !strings.Contains(err.Error(), "clients need another bundle") {
		t.Errorf("signed by another authority: %v, %s", err, out)
	}
	_, err = execute("tls", "bundle", "--node.data-dir", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "tls.mode is off") {
		t.Errorf("without TLS: %v", err)
	}
}

// serverPair are the flags of a server's certificate that an authority has signed.
func serverPair(t *testing.T, caFile, caKeyFile string) []string {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(caFile, caKeyFile)
	must(t, err)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	pkitest.Write(t, pkitest.Sign(t, &ca, x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}), cert, key)
	return []string{"--etcd.cert-file", cert, "--etcd.key-file", key}
}
