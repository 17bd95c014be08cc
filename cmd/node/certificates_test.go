package node

import (
	"slices"
	"testing"
)

// The server's certificate names every address at which clients reach the node: an address of loopback that is not the
// usual one was once left out.
func TestNamesOfTheServer(t *testing.T) {
	cfg := loaded(t, "node: {name: n1, address: 127.9.9.9}\netcd: {advertise-client-urls: ['http://etcd.example:2379']}")
	if got, want := TLSIdentity(cfg).Names, []string{"127.9.9.9", "etcd.example", "n1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
