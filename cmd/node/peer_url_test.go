package node

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/cmd/config"
	"holdfast/embedded/pki/pkitest"
	"holdfast/embedded/plan"
)

// Only a pattern that holdfast did not make brings host names of which a certificate may bear one instead of the
// cluster's; and the node's certificates name the host of the pattern.
func TestForeignHosts(t *testing.T) {
	if got := foreignHosts(loaded(t, "cluster: {slots: [a, b, c]}")); got != nil {
		t.Errorf("by default: got %q", got)
	}
	cfg := loaded(t, "cluster: {slots: [a, b, c]}\netcd: {peer-url: 'http://etcd-{slot}.internal.example.com:2380'}")
	want := []string{"etcd-a.internal.example.com", "etcd-b.internal.example.com", "etcd-c.internal.example.com"}
	if got := foreignHosts(cfg); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := TLSIdentity(cfg).PeerHost; got != "etcd-{slot}.internal.example.com" {
		t.Errorf("certificates name %q", got)
	}
	if got := TLSIdentity(cfg).PeerAddress; got != "" {
		t.Errorf("of a cluster of our own, the peer's certificate has the address %s", got)
	}
	cfg.Cluster.Adopt = true
	if got := TLSIdentity(cfg).PeerAddress; got != cfg.Node.Address {
		t.Errorf("of an adopted cluster, the peer's certificate has the address %q", got)
	}
	if got := Wanted(cfg).PeerURL; got != "http://etcd-{slot}.internal.example.com:2380" {
		t.Errorf("the charter says %q", got)
	}
}

// A node says what the other URLs mean that its configuration makes: how far the members have come from http to https, when
// the key can go, and else that they are wrong.
func TestPeerURLFindings(t *testing.T) {
	const before, after = "http://{slot}.x:2380", "https://{slot}.x:2381"
	r := &plan.Record{Charter: plan.Charter{PeerURL: before}}
	for _, tc := range []struct {
		name, url, from string
		secured         *plan.Secured
		want            string
	}{
		{"as founded", before, "", nil, ""},
		{"on the way", after, "2380", nil, "on the way from http to https"},
		{"promised", after, "2380", &plan.Secured{PeerURL: after}, "on the way from http to https"},
		{"all changed", after, "2380", &plan.Secured{PeerURL: after, Changed: true}, "remove tls.from-http"},
		{"done", after, "", &plan.Secured{PeerURL: after, Changed: true}, ""},
		{"without the key", after, "", nil, "set etcd.peer-url to that"},
		{"other names", "https://{slot}.y:2381", "2380", nil, "set etcd.peer-url to that"},
	} {
		o := plan.Observation{Config: plan.Config{PeerURL: tc.url, FromHTTP: tc.from}, Disk: plan.Disk{Ledger: plan.Ledger{Record: r, Secured: tc.secured}}}
		var got string
		for _, f := range peerURLFindings(o) {
			got += f.Text
		}
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	r.Charter.PeerURL = after // a restore began the generation with https
	if got := peerURLFindings(plan.Observation{Config: plan.Config{PeerURL: after, FromHTTP: "2380"}, Disk: plan.Disk{Ledger: plan.Ledger{Record: r}}}); len(got) != 1 || !strings.Contains(got[0].Text, "remove tls.from-http") {
		t.Errorf("begun with https: got %+v", got)
	}
	cfg := loaded(t, "tls: {mode: auto, from-http: true}\netcd: {listen-peer-urls: ['https://127.0.0.1:2381', 'http://127.0.0.1:2380']}\ncluster: {slots: [a]}")
	if got := Wanted(cfg).FromHTTP; got != "2380" {
		t.Errorf("http is served at port %q", got)
	}
}

// A member accepts certificates that bear only the host name of a slot that its process knew when it started. Where the
// own one is such a certificate, a new slot needs a restart.
func TestNewSlotNeedsRestart(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		names []string // of the member's certificate
		more  string   // configuration
		slots string
		want  bool
	}{
		"host names alone":      {[]string{"etcd-a.x"}, "", "[a, b, d]", true},
		"a slot less":           {[]string{"etcd-a.x"}, "", "[a]", false},
		"the cluster's name":    {[]string{"etcd-a.x", "peer.main.holdfast.internal"}, "", "[a, b, d]", false},
		"names of the operator": {[]string{"etcd-a.x"}, ", peer-cert-allowed-hostname: [all.x]", "[a, b, d]", false},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		cert, key := pkitest.Encode(t, pkitest.Sign(t, nil, x509.Certificate{DNSNames: c.names}))
		must(t, os.WriteFile(file, append(cert, key...), 0o600))
		with := func(slots string) config.Config {
			return loaded(t, fmt.Sprintf("{cluster: {name: main, slots: %s}, node: {address: 127.0.0.1}, tls: {mode: files}, "+
				"etcd: {peer-url: 'https://etcd-{slot}.x:2380', peer-cert-file: %s, peer-key-file: %s, "+
				"peer-trusted-ca-file: %s%s}}", slots, file, file, file, c.more))
		}
		if got := slotsPending(with("[a, b]"), with(c.slots)); (len(got) > 0) != c.want {
			t.Errorf("%s: got %+v, want %t", name, got, c.want)
		}
	}
}
