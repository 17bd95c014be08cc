package authorities

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/snapshot"
)

// A certificate is renewed if an operator has allowed it and nobody has forgotten it. It is not renewed repeatedly, and
// leaves one record.
func TestRenewIssued(t *testing.T) {
	s := newSite(t)
	k, err := pki.New(pki.Config{Mode: pki.ModeAuto}, pki.Identity{}, s.node(t.TempDir()), zap.NewNop(), prometheus.NewRegistry())
	s.must(err)
	operator := &Issued{Store: s.store, Cluster: "main"}
	made := func(name string) *x509.Certificate {
		t.Helper()
		text, _, err := k.Client(t.Context(), name, nil, 24*time.Hour)
		s.must(err)
		certs, err := pki.ParseCertificates(text)
		s.must(err)
		return certs[0]
	}
	issue := func(name string, renewable bool) *x509.Certificate {
		t.Helper()
		leaf := made(name)
		s.must(operator.Note(t.Context(), health.IssuedClient{Role: string(pki.Client), Name: name, Renewable: renewable}, leaf, time.Now()))
		return leaf
	}
	kube, plain, stranger := issue("kube", true), issue("plain", false), made("kube")
	twin := made("kube") // on another machine, with the same name
	s.must(operator.Note(t.Context(), health.IssuedClient{Role: string(pki.Client), Name: "kube", Renewable: true}, twin, time.Now()))

	node := &Issued{Store: s.store, Cluster: "main"}
	asked := 0
	if _, err := node.Renew(t.Context(), pki.Operator, kube, kube.NotAfter.Add(-time.Hour), nil); err == nil || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("for another holder: %v", err)
	}
	renew := func(has *x509.Certificate, at time.Time) (pki.Renewal, error) {
		t.Helper()
		node.looked = time.Time{} // as if a second had passed
		return node.Renew(t.Context(), pki.Client, has, at, func(most time.Duration) (pki.Renewal, error) {
			asked++
			return k.Renew(t.Context(), pki.Client, has, most, at)
		})
	}
	due := kube.NotAfter.Add(-time.Hour)
	for _, c := range []struct {
		has  *x509.Certificate
		says string
	}{{plain, "may not be renewed by its holder"}, {stranger, "is not known, or was forgotten"}} {
		if r, err := renew(c.has, due); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %+v, %v, want %q", r, err, c.says)
		}
	}
	if asked != 0 {
		t.Error("something was issued for those who may not")
	}
	if _, err := renew(kube, time.Now()); err == nil || !strings.Contains(err.Error(), "not time yet") {
		t.Errorf("too early: %v", err)
	}
	next, err := renew(kube, due)
	s.must(err)
	if _, err := renew(kube, due.Add(30*time.Second)); err == nil || !strings.Contains(err.Error(), "ask again in 30s") {
		t.Errorf("again: %v", err)
	}
	again, err := renew(kube, due.Add(time.Minute)) // the answer was lost
	s.must(err)
	_, err = renew(again.Leaf, again.Leaf.NotAfter.Add(-time.Hour))
	s.must(err)
	objects, err := s.store.List(t.Context(), operator.prefix())
	s.must(err)
	if len(objects) != 3 {
		t.Errorf("%d records, want one for each key", len(objects))
	}

	_, err = operator.Look(t.Context())
	s.must(err)
	s.must(operator.Forget(t.Context(), func(r Client) bool { return r.Name == "kube" }))
	for _, has := range []*x509.Certificate{kube, next.Leaf, twin} {
		if _, err := renew(has, due.Add(time.Hour-time.Second)); err == nil || !strings.Contains(err.Error(), "was forgotten") {
			t.Errorf("forgotten: %v", err)
		}
	}

	node.Store = deaf{s.store}
	if _, err := renew(kube, due.Add(time.Hour-time.Second)); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("without a store: %v", err)
	}
	late := issue("late", true)
	node.Store = mute{s.store}
	if r, err := renew(late, late.NotAfter.Add(-time.Hour)); err == nil || r.Certificate != nil {
		t.Errorf("a certificate without a record is handed out: %v", err)
	}
}

// deaf cannot be read, and mute cannot be written.
type (
	deaf struct{ snapshot.Store }
	mute struct{ snapshot.Store }
)

var errNoAnswer = errors.New("no answer")

func (deaf) List(context.Context, string) ([]snapshot.Object, error) { return nil, errNoAnswer }

func (mute) PutIfAbsent(context.Context, string, []byte) error { return errNoAnswer }
