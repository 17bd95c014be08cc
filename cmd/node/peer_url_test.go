package node

import (
	"slices"
	"testing"
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
