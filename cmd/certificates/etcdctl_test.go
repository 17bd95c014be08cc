package certificates

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded/pki"
)

// withAuthorities is a configuration that issues, with authorities of its own.
func withAuthorities(t *testing.T) config.Config {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{config.GivenClientsCA, config.GivenPeersCA} {
		a, err := pki.NewAuthority(name, 365*24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		bundle, key, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string][]byte{name + ".crt": bundle, name + ".key": key} {
			if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(dir, "holdfast.yaml")
	if err := os.WriteFile(path, []byte("node: {data-dir: "+dir+"/data, name: n1}\ntls: {ca-dir: "+dir+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(path, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l.Config
}

// etcdctl's certificate is issued once, and reissued when it is old or the authorities are others.
func TestEtcdctlCertificate(t *testing.T) {
	cfg := withAuthorities(t)
	now := time.Now()
	if _, err := etcdctl(t.Context(), cfg, now); err == nil || !strings.Contains(err.Error(), "has not run") {
		t.Errorf("before the node has run: %v", err)
	}
	trust := func(from string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(cfg.TLS.Dir, 0o700)
		}
		if err == nil {
			err = os.WriteFile(cfg.TLS.Files().ClientsCA, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	issue := func(at time.Time) string {
		t.Helper()
		path, err := etcdctl(t.Context(), cfg, at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tls.LoadX509KeyPair(path, path); err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(path)
		return string(text)
	}
	trust(cfg.TLS.ClientCAFile)
	first := issue(now)
	if issue(now.Add(time.Hour)) != first {
		t.Error("it was issued anew after an hour")
	}
	second := issue(now.Add(20 * time.Hour))
	if second == first {
		t.Error("it was kept until its end")
	}
	trust(cfg.TLS.PeerCAFile) // any other authority
	if issue(now) == second {
		t.Error("it was kept although the authority is another one")
	}
}
