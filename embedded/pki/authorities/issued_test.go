package authorities

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
)

// Records of certificates that expired long ago are removed when the next one is issued, so that there are never many.
func TestIssuedCertificatesAreForgotten(t *testing.T) {
	s := newSite(t)
	k, err := pki.New(pki.Config{Mode: pki.ModeAuto}, pki.Identity{}, s.node(t.TempDir()), zap.NewNop(),
		prometheus.NewRegistry())
	s.must(err)
	c := &Issued{Store: s.store, Cluster: "main"}
	issue := func(name string, life time.Duration, at time.Time) {
		t.Helper()
		text, _, err := k.Client(t.Context(), name, nil, life)
		s.must(err)
		leaf, err := pki.ParseCertificates(text)
		s.must(err)
		s.must(c.Note(t.Context(), health.IssuedClient{Role: string(pki.Client), Name: name, Authority: "x"}, leaf[0], at))
	}
	issue("old", time.Hour, time.Now())
	issue("new", time.Hour, time.Now().Add(forgetAfter))
	if all, err := c.Look(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("a month after: %+v, %v", all, err)
	}
	issue("new", 90*24*time.Hour, time.Now().Add(forgetAfter+2*time.Hour))
	if all, err := c.Look(t.Context()); err != nil || len(all) != 1 || all[0].Name != "new" {
		t.Errorf("later: %+v, %v", all, err)
	}
}
