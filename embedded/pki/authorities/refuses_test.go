package authorities

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
)

// Before a step that cuts clients off, an operator learns what is refused, from when on, and for which clients.
func TestRotationSaysWhatItRefuses(t *testing.T) {
	s := newSite(t)
	a := s.node(t.TempDir())
	s.peers(a)
	now := time.Now()
	var issued []Client
	ask := func(order Order, v View) string {
		status := health.ClusterStatus{Nodes: []health.NodeStatus{{Reached: true}, {Node: "n2", State: "silent"}},
			Rotation: a.Rotation(v, time.Now())}
		return strings.Join(a.Refuses(v, order, status, issued, now), "\n")
	}
	see := func(name string, by *x509.Certificate) {
		leaf := &x509.Certificate{Raw: []byte(name), Subject: pkix.Name{CommonName: name}, NotAfter: now.Add(time.Hour)}
		a.Clients.See([]*x509.Certificate{leaf, by}, 0)
	}
	must := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("want %q in\n%s", part, text)
			}
		}
	}
	old := a.have.Clients.primary()
	see("kube", old)
	must(ask(Order{Now: true}, View{}), "kube-apiserver does not re-read --etcd-cafile",
		"no new bundle to hand out yet", "kube 0s ago; other nodes tell of theirs only while", "not known of n2",
		"refuse the servers: from about ",
		old.NotAfter.Format(time.RFC3339))
	if text := ask(Order{Begin: true}, View{}); text != "" {
		t.Errorf("a rotation that gives clients time: %s", text)
	}
	s.rotated(a)
	see("new", a.have.Clients.primary())
	given := func(name string, by *x509.Certificate, until time.Time) {
		c := health.IssuedClient{Name: name, Authority: pki.Fingerprint(by), NotAfter: until}
		issued = append(issued, Client{IssuedClient: c})
	}
	given("cron", old, now.Add(time.Hour))
	given("renewed", a.have.Clients.primary(), now.Add(time.Hour))
	given("gone", old, now)
	text := ask(Order{DropOld: true}, View{})
	must(text, "was issued (`holdfast tls client`) to cron", "kube 0s ago",
		"servers refuse clients' certificates of "+pki.Fingerprint(old))
	if strings.Contains(text, "new 0s ago") || !strings.HasSuffix(text, "to cron") {
		t.Errorf("a client with a new certificate is not met: %s", text)
	}
	if _, err := a.Advance(t.Context(), View{}, Order{Begin: true}, false); err != nil {
		t.Fatal(err)
	}
	both := pki.Stance{Trusts: []string{pki.Fingerprint(a.have.Peers.other())}}
	trusting := View{Members: []Stance{{Slot: "a", Known: true, Running: true, Stance: both}}}
	// All members trust it, so it takes effect from now on.
	must(ask(Order{Now: true}, trusting), "restart it before "+now.UTC().Format(time.RFC3339))
}
