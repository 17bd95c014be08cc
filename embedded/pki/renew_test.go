package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// A renewed certificate has the content and the key of the one before, and is never valid for longer, however often it
// is renewed.
func TestRenew(t *testing.T) {
	g := &given{now: newAuthorities(t, "old", 20*365*24*time.Hour)}
	k, err := New(Config{Mode: ModeCA}, Identity{Zone: "main.x"}, g, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	for _, life := range []time.Duration{time.Minute, 30 * time.Minute, time.Hour, 365 * 24 * time.Hour} {
		text, key, err := k.Client(t.Context(), "kube", nil, life)
		must(t, err)
		certs, _ := ParseCertificates(text)
		first := certs[0]
		if _, err := k.Renew(t.Context(), Client, first, life, time.Now()); err == nil || !strings.Contains(err.Error(), "not time yet") {
			t.Errorf("too early: %v", err)
		}
		if _, err := k.Renew(t.Context(), Client, first, life, first.NotAfter); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("too late: %v", err)
		}
		has, long := first, first.NotAfter.Sub(first.NotBefore)
		for range 5 {
			at := has.NotAfter.Add(-has.NotAfter.Sub(has.NotBefore) / 4)
			r, err := k.Renew(t.Context(), Client, has, 1<<62, at)
			must(t, err)
			if _, err := tls.X509KeyPair(r.Certificate, key); err != nil {
				t.Errorf("the key: %v", err)
			}
			if got := r.Leaf.NotAfter.Sub(r.Leaf.NotBefore); got != long || !r.Leaf.NotAfter.After(has.NotAfter) {
				t.Errorf("%s: valid for %s after %s, until %s after %s", life, got, long, r.Leaf.NotAfter, has.NotAfter)
			}
			if r.Leaf.Subject.CommonName != "kube" || len(r.Leaf.DNSNames) > 0 || len(r.Leaf.ExtKeyUsage) != 1 || r.Leaf.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
				t.Errorf("it is of %s, for %v", r.Leaf.Subject, r.Leaf.ExtKeyUsage)
			}
			has = r.Leaf
		}
		if r, err := k.Renew(t.Context(), Client, has, life/2, has.NotAfter.Add(-time.Second)); err != nil || r.Leaf.NotAfter.Sub(r.Leaf.NotBefore) > life/2 {
			t.Errorf("no longer than %s: got %+v, %v", life/2, r.Leaf, err)
		}
	}

	for _, h := range []Holder{Observer, Operator} {
		text, err := IssuePaper(g.now, h, "main.x", "n1", time.Hour, time.Now())
		must(t, err)
		certs, _ := CertificatesIn(text)
		if r, err := k.Renewal(t.Context(), h, certs[0], time.Now()); err != nil || r.Due || string(r.Bundle) != string(EncodeCertificates(g.now.Peers.Bundle...)) {
			t.Errorf("%s: %+v, %v", h, r, err)
		}
		r, err := k.Renew(t.Context(), h, certs[0], time.Hour, certs[0].NotAfter.Add(-time.Second))
		must(t, err)
		if got, err := HolderOf(r.Leaf, "main.x"); err != nil || got != h || KeyOf(r.Leaf) != KeyOf(certs[0]) || r.Leaf.CheckSignatureFrom(g.now.Peers.Primary) != nil {
			t.Errorf("%s: %+v, %v", h, r.Leaf.Subject, err)
		}
		for _, usage := range r.Leaf.ExtKeyUsage {
			if usage == x509.ExtKeyUsageServerAuth && h == Operator {
				t.Error("an operator's certificate serves")
			}
		}
		if got, err := HolderOf(certs[0], "other.x"); err == nil {
			t.Errorf("in another cluster it is %s", got)
		}
	}
	for _, dns := range [][]string{nil, {"peer.main.x"}, {MeshName("main.x")}, {WatchName("main.x"), "peer.main.x"}, {WatchName("main.x"), OrderName("main.x")}} {
		if got, err := HolderOf(&x509.Certificate{Subject: pkix.Name{CommonName: "n1"}, DNSNames: dns}, "main.x"); err == nil {
			t.Errorf("%q is %s", dns, got)
		}
	}
	text, _, err := k.Client(t.Context(), "kube", nil, time.Hour)
	must(t, err)
	certs, _ := ParseCertificates(text)
	if r, err := k.Renewal(t.Context(), Client, certs[0], time.Now()); err != nil || r.Due || r.Certificate != nil {
		t.Errorf("fresh: %+v, %v", r, err)
	}
	before := g.now.Clients
	g.set(newAuthorities(t, "new", 365*24*time.Hour), nil)
	g.now.Clients = g.now.Clients.with(before)
	r, err := k.Renewal(t.Context(), Client, certs[0], time.Now())
	if err != nil || !r.Due || strings.Count(string(r.Bundle), "BEGIN") != 2 {
		t.Errorf("another authority signs: %+v, %v", r, err)
	}
	nobody := *certs[0]
	nobody.Subject.CommonName = ""
	if _, err := k.Renew(t.Context(), Client, &nobody, time.Hour, time.Now()); err == nil {
		t.Error("a certificate without a name was renewed")
	}
}
