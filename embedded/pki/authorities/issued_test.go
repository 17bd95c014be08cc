package authorities

import (
	"strconv"
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

// Short-lived certificates that have expired do not hide from the status one that is about to.
func TestExpiredCertificatesHideNone(t *testing.T) {
	for _, n := range []struct{ expired, valid, first int }{
		{2 * maxIssued, 3, maxIssued + 3}, {2, maxIssued - 1, 1}, {2, 2 * maxIssued, 2}, {0, 3, 0},
		{2 * maxIssued, 0, maxIssued},
	} {
		c := &Issued{}
		for i := range n.expired + n.valid {
			c.told = append(c.told, Client{Serial: strconv.Itoa(i), IssuedClient: health.IssuedClient{Name: strconv.Itoa(i),
				NotAfter: time.Now().Add(time.Duration(i-n.expired)*time.Minute + time.Second)}})
			if i < n.expired {
				c.told[i].NotAfter = c.told[i].NotAfter.Add(-time.Minute)
			}
		}
		got := c.Last()
		if len(got) != min(maxIssued, n.expired+n.valid) || got[0].Name != strconv.Itoa(n.first) {
			t.Errorf("%+v: got %d from %s on", n, len(got), got[0].Name)
		}
	}
}
