package config

import (
	"slices"
	"strings"
	"testing"
)

// The pattern of the peer URLs follows from name, domain, port and TLS, unless it is given.
func TestPeerURL(t *testing.T) {
	for name, tt := range map[string]struct{ text, want, origin string }{
		"nothing said": {"", "http://{slot}.holdfast.holdfast.internal:2380", "derived from cluster.name"},
		"all parts":    {"cluster: {name: main, domain: example.com}\netcd: {listen-peer-urls: ['http://127.0.0.1:2399']}\n", "http://{slot}.main.example.com:2399", "derived from cluster.name"},
		"with TLS":     {"node: {address: 10.0.0.1}\nsnapshot: {store: /shared}\n", "https://{slot}.holdfast.holdfast.internal:2380", "derived from cluster.name"},
		"given":        {"etcd: {peer-url: 'http://etcd-{slot}.internal.example.com:2380'}\n", "http://etcd-{slot}.internal.example.com:2380", "file "},
	} {
		l := load(t, tt.text, nil)
		if got := l.Config.Etcd.PeerURL; got != tt.want || !strings.HasPrefix(l.Origin["etcd.peer-url"], tt.origin) {
			t.Errorf("%s: got %s (%s), want %s (%s)", name, got, l.Origin["etcd.peer-url"], tt.want, tt.origin)
		}
		if doubted(l, "etcd.peer-url") {
			t.Errorf("%s: warned: %q", name, l.Warnings)
		}
	}
	if l := load(t, "etcd: {peer-url: 'http://{slot}.example.com:2400'}\n", nil); !doubted(l, "etcd.peer-url") {
		t.Error("a port on which nobody listens is no warning")
	}
}

func doubted(l *Loaded, key string) bool {
	return slices.ContainsFunc(l.Warnings, func(w string) bool { return strings.HasPrefix(w, key+": ") })
}
