package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/pki"
)

// given writes both authorities into a directory as kops lays them out, and returns the directory.
func given(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{GivenClientsCA, GivenPeersCA} {
		a, err := pki.NewAuthority(name, time.Hour)
		must(t, err)
		bundle, key, err := a.Encode()
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, name+".crt"), bundle, 0o600),
			os.WriteFile(filepath.Join(dir, name+".key"), key, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// etcd takes a user from a certificate only with etcd.client-cert-auth, even if it asks for one without.
func TestUserWithoutPassword(t *testing.T) {
	dir := given(t)
	users := filepath.Join(dir, "users.yaml")
	text := "enabled: true\nusers: [{name: root, no-password: true, roles: [root]}]\n"
	must(t, os.WriteFile(users, []byte(text), 0o600))
	ca := filepath.Join(dir, GivenClientsCA)
	for _, c := range []struct{ auth, want string }{
		{"false", "auth.file: user root has no password, and etcd.client-cert-auth is false: nobody can be that user"},
		{"true", ""},
	} {
		l := load(t, "auth: {file: "+users+"}\netcd: {cert-file: "+ca+".crt, key-file: "+ca+".key, trusted-ca-file: "+ca+
			".crt, client-cert-auth: "+c.auth+"}", nil)
		if got := strings.Join(l.Warnings, "\n"); got != c.want {
			t.Errorf("client-cert-auth %s: got %q, want %q", c.auth, got, c.want)
		}
	}
}

// A file of authorities of which etcd would trust only a part, or with which it would not start, keeps a node from
// starting. It does not keep a command from asking the node.
func TestPartialAuthorities(t *testing.T) {
	dir := given(t)
	ca, bundle := filepath.Join(dir, GivenClientsCA), filepath.Join(dir, "bundle")
	one, err := os.ReadFile(ca + ".crt")
	must(t, err)
	key, err := os.ReadFile(ca + ".key")
	must(t, err)
	two := string(one) + string(one)
	for _, c := range []struct{ text, want string }{
		{two, ""},
		{"# a comment\n" + two, ""},
		{two[:len(two)-9], "is damaged or cut short: 1 of 2 PEM blocks are whole"},
		{two + strings.TrimSuffix(two, "\n") + two, "is damaged or cut short"},
		{two + string(key), `holds a block "PRIVATE KEY": only certificates belong here`},
	} {
		must(t, os.WriteFile(bundle, []byte(c.text), 0o600))
		l := load(t, "node: {data-dir: "+dir+"/data}\nmetrics: {listen: off}\netcd: {cert-file: "+ca+".crt, key-file: "+ca+
			".key, trusted-ca-file: "+bundle+"}", nil)
		err := Refused(l)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes: got %v, want %q", len(c.text), err, c.want)
		}
	}
}

// What follows from what about certificates, and where `config show` says that it comes from.
func TestTLSMode(t *testing.T) {
	const shared = "\nsnapshot: {store: 's3://bucket/etcd'}"
	for name, tt := range map[string]struct{ text, mode, origin, scheme string }{
		"nothing said":              {"", pki.ModeOff, "derived from node.address", "http://"},
		"loopback, said":            {"tls: {mode: auto}", pki.ModeAuto, "file", "https://"},
		"an address":                {"node: {address: 10.0.0.1}", pki.ModeAuto, "derived from node.address", "https://"},
		"three, with a bucket":      {"cluster: {slots: [a, b, c]}\nnode: {address: 10.0.0.1}" + shared, pki.ModeAuto, "derived from node.address", "https://"},
		"gossip beyond loopback":    {"gossip: {listen: '0.0.0.0:7946'}", pki.ModeAuto, "derived from node.address", "https://"},
		"insecure":                  {"cluster: {slots: [a, b, c]}\nnode: {address: 10.0.0.1}\ntls: {insecure: true}", pki.ModeOff, "derived from tls.insecure", "http://"},
		"off on loopback":           {"tls: {mode: off}", pki.ModeOff, "file", "http://"},
		"off, insecure, three":      {"cluster: {slots: [a, b, c]}\nnode: {address: 10.0.0.1}\ntls: {mode: off, insecure: true}", pki.ModeOff, "file", "http://"},
		"auto, where none is asked": {"tls: {mode: auto, insecure: true}", pki.ModeAuto, "file", "https://"},
	} {
		l := load(t, tt.text, nil)
		if got, from := l.Config.TLS.Mode, l.Origin["tls.mode"]; got != tt.mode || !strings.HasPrefix(from, tt.origin) {
			t.Errorf("%s: got %s (%s), want %s (%s)", name, got, from, tt.mode, tt.origin)
		}
		for _, u := range append(l.Config.Etcd.ListenClientURLs, l.Config.Etcd.ListenPeerURLs...) {
			if !strings.HasPrefix(u, tt.scheme) {
				t.Errorf("%s: listens on %s, want %s", name, u, tt.scheme)
			}
		}
		if got, want := l.Config.Insecure(), strings.Contains(name, "insecure"); got != want {
			t.Errorf("%s: insecure: got %v, want %v", name, got, want)
		}
	}
}

// The files of mode ca follow from tls.ca-dir, and etcd's from tls.dir; what is shown loads to the same again.
func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd-clients-ca.crt", "etcd-clients-ca.key", "etcd-peers-ca.crt", "etcd-peers-ca.key"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	l := load(t, "node: {data-dir: /d}\ntls: {ca-dir: "+dir+"}", nil)
	for _, want := range []struct{ Key, text, origin string }{
		{"tls.mode", "ca", "derived from tls.ca-dir"},
		{"tls.peer-ca-key-file", filepath.Join(dir, "etcd-peers-ca.key"), "derived from tls.ca-dir"},
		{"tls.client-ca-file", filepath.Join(dir, "etcd-clients-ca.crt"), "derived from tls.ca-dir"},
		{"etcd.cert-file", "/d/tls/server.pem", "derived from tls.mode"},
		{"etcd.key-file", "/d/tls/server.pem", "derived from tls.mode"},
		{"etcd.trusted-ca-file", "/d/tls/clients-ca.crt", "derived from tls.mode"},
		{"etcd.peer-cert-file", "/d/tls/peer.pem", "derived from tls.mode"},
		{"etcd.peer-trusted-ca-file", "/d/tls/peers-ca.crt", "derived from tls.mode"},
		{"etcd.client-cert-auth", "true", "derived from tls.mode"},
	} {
		if got := textOf(t, l, want.Key); got != want.text || l.Origin[want.Key] != want.origin {
			t.Errorf("%s: got %q (%s), want %q (%s)", want.Key, got, l.Origin[want.Key], want.text, want.origin)
		}
	}
	var shown strings.Builder
	must(t, l.WriteYAML(&shown))
	again := load(t, shown.String(), nil)
	for _, k := range Keys() {
		if got, want := k.Text(&again.Config), k.Text(&l.Config); got != want {
			t.Errorf("%s: shown as %q, which loads as %q", k.Name, want, got)
		}
	}
	if !again.Config.Etcd.Issued {
		t.Error("the shown configuration does not issue")
	}

	// A cluster that was founded without TLS: members and gossip stay as they are, and the status says so.
	half := load(t, "node: {address: 10.0.0.1}\ntls: {clients-only: true, plain-clients: true, insecure: true, ca-dir: "+dir+"}",
		nil).Config
	if e := half.Etcd; e.PeerCertFile != "" || e.CertFile == "" || !e.PlainClients ||
		e.PeerURL != "http://{slot}.holdfast.holdfast.internal:2380" || half.GossipTLS() || !half.Insecure() {
		t.Errorf("clients only: %+v, gossip over TLS %v, insecure %v", e, half.GossipTLS(), half.Insecure())
	}
	way := load(t, "node: {address: 10.0.0.1}\ntls: {from-http: true, insecure: true, ca-dir: "+dir+"}\n"+
		"etcd: {listen-peer-urls: ['http://10.0.0.1:2380', 'https://10.0.0.1:2381']}", nil).Config
	if e := way.Etcd; !e.FromHTTP || e.PeerURL != "https://{slot}.holdfast.holdfast.internal:2381" || !way.GossipTLS() || !way.Insecure() {
		t.Errorf("from http: %+v, gossip over TLS %v, insecure %v", e, way.GossipTLS(), way.Insecure())
	}
	whole := load(t, "node: {address: 10.0.0.1}\ntls: {plain-clients: true, insecure: true, ca-dir: "+dir+"}", nil).Config
	if !whole.Insecure() || !whole.GossipTLS() || whole.Etcd.PeerCertFile == "" {
		t.Errorf("http beside TLS: insecure %v, gossip over TLS %v", whole.Insecure(), whole.GossipTLS())
	}
}
