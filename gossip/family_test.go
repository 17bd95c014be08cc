package gossip

import (
	"net"
	"testing"
)

// A process hears nodes of the other IP family: its machine has addresses of both, and one of them is configured.
func TestOtherFamily(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	_ = l.Close()
	ca := newAuthority(t)
	a := launch(t, "main", node("a"), func(c *Config) { c.Listen = "[::1]:0" },
		func(m *Mesh) { m.UseTLS(papersOf(t, ca, nodeName).tls()) })
	o := observe(t, "main", "o", papersOf(t, ca, watcherName), nil, a)
	await(t, "the observer sees a", patience, sees(o, "a"))
	b := startTLS(t, node("b"), papersOf(t, ca, nodeName), a)
	await(t, "b sees a", patience, sees(b, "a"))
	await(t, "a sees b", patience, sees(a, "b"))
}

// An observer whose machine has got another address since its start hears the nodes all the same.
func TestObserverWhoseAddressIsGone(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startTLS(t, node("a"), papersOf(t, ca, nodeName))
	gone := func(c *Config) { c.Listen = "192.0.2.1:7946" } // TEST-NET-1
	o := observe(t, "main", "o", papersOf(t, ca, watcherName), gone, a)
	await(t, "the observer sees a", patience, sees(o, "a"))
}
