package pki

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// No leaf outlives its authority, and nothing is renewed in vain.
func TestAuthorityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &given{now: newAuthorities(t, "one", 400*24*time.Hour)}
		k := newKeeper(t, source, nil)
		prepare(t, k, "a")
		until := source.now.Peers.Primary.NotAfter
		issued := 0
		for last := ""; time.Now().Before(until); time.Sleep(24 * time.Hour) {
			if _, err := k.look(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			leaf := load(t, k.cfg.Files().Peer).Leaf
			if leaf.NotAfter.After(until) {
				t.Fatalf("a leaf ends at %s, its authority at %s", leaf.NotAfter, until)
			}
			if name := Fingerprint(leaf); name != last {
				last = name
				issued++
			}
		}
		if issued < 5 || issued > 8 {
			t.Errorf("%d leaves of 90 days in 400 days", issued)
		}
		// A new authority cures this, beside the old one or not.
		source.set(newAuthorities(t, "two", ages), nil)
		prepare(t, openKeeper(t, k.cfg, source), "a")
		if _, err := k.look(t.Context(), false); err != nil {
			t.Error(err)
		}
		if p := k.Problems(); len(p) > 0 {
			t.Errorf("problems in the end: %q", p)
		}
	})
}

// The expiry of an authority that has a successor is shown, too.
func TestOldAuthorityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newAuthorities(t, "old", 400*24*time.Hour)
		source := &given{now: old}
		k := newKeeper(t, source, nil)
		prepare(t, k, "a")
		young := newAuthorities(t, "young", ages)
		source.set(Authorities{Clients: young.Clients.with(old.Clients), Peers: young.Peers.with(old.Peers)}, nil)
		time.Sleep(390 * 24 * time.Hour)
		prepare(t, k, "a")
		if p := k.Problems(); len(p) > 0 {
			t.Errorf("problems: %q", p)
		}
		if n := len(k.Expiries()); n != 6 {
			t.Errorf("%d ends, want those of two leaves and four authorities", n)
		}
	})
}

// A failing source does no harm while the leaves are good. It is asked less often, and everything is made up for
// afterwards.
func TestSourceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &asked{given: given{now: newAuthorities(t, "one", ages)}}
		k := newKeeper(t, source, func(c *Config) { c.LeafLife = 24 * time.Hour })
		prepare(t, k, "a")
		go k.Run(t.Context())
		source.set(Authorities{}, errors.New("the store is away"))
		before := source.times()
		time.Sleep(12 * time.Hour)
		if n := source.times() - before; n < 12*4 || n > 12*20 {
			t.Errorf("asked %d times in twelve hours without an answer", n)
		}
		if p := strings.Join(k.Problems(), "\n"); !strings.Contains(p, "the store is away") {
			t.Errorf("problems: %q", p)
		}
		// The known authorities suffice to renew.
		time.Sleep(24 * time.Hour)
		if leaf := load(t, k.cfg.Files().Peer).Leaf; time.Until(leaf.NotAfter) < 6*time.Hour {
			t.Errorf("the leaf ends in %s: it was not renewed", time.Until(leaf.NotAfter))
		}
		source.set(newAuthorities(t, "one", ages), nil)
		time.Sleep(10*time.Minute + time.Second)
		if p := k.Problems(); len(p) > 0 {
			t.Errorf("problems: %q", p)
		}
	})
}

// A node that has slept until all certificates expired is good again at the first look, unless it has no key.
func TestExpiredHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &given{now: newAuthorities(t, "one", ages)}
		k := newKeeper(t, source, nil)
		prepare(t, k, "a")
		time.Sleep(2 * k.cfg.LeafLife)
		keyless := source.now
		for _, a := range []*Authority{&keyless.Clients, &keyless.Peers} {
			a.Key, a.Primary = nil, nil
		}
		if err := openKeeper(t, k.cfg, &given{now: keyless}).Prepare(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "tls.peer-ca-key-file") {
			t.Errorf("without a key: %v", err)
		}
		prepare(t, k, "a")
		if p := k.Problems(); len(p) > 0 {
			t.Errorf("problems: %q", p)
		}
	})
}

// asked counts the questions.
type asked struct {
	given
	n int
}

func (a *asked) Authorities(ctx context.Context) (Authorities, error) {
	a.mu.Lock()
	a.n++
	a.mu.Unlock()
	return a.given.Authorities(ctx)
}

func (a *asked) times() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

func TestSeries(t *testing.T) {
	source := &given{now: newAuthorities(t, "one", ages)}
	k := newKeeper(t, source, nil)
	reg := prometheus.NewPedanticRegistry()
	var err error
	if k.series, err = newSeries(reg); err != nil {
		t.Fatal(err)
	}
	prepare(t, k, "a")
	ends := k.Expiries()
	if len(ends) != 4 {
		t.Fatalf("%d ends: %v", len(ends), ends)
	}
	want := map[string]float64{"holdfast_tls_failures_total": 0, "holdfast_tls_renewals_total peer": 1, "holdfast_tls_renewals_total server": 1}
	if !slices.IsSortedFunc(ends, func(a, b Expiry) int { return a.NotAfter.Compare(b.NotAfter) }) {
		t.Errorf("%v are not in order", ends)
	}
	if got := gather(t, reg); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	source.set(Authorities{}, errors.New("away"))
	if err := k.Learn(t.Context()); err == nil {
		t.Error("learned nothing")
	}
	if got := gather(t, reg)["holdfast_tls_failures_total"]; got != 1 {
		t.Errorf("%v failures, want 1", got)
	}
}

// gather returns the value of each series, by its name and label.
func gather(t testing.TB, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

// The operator's files are watched, and never written.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newKeeper(t, &given{now: newAuthorities(t, "one", ages)}, func(c *Config) { c.LeafLife = 10 * time.Hour })
		prepare(t, issuer, "a")
		theirs := issuer.cfg.Files()
		missing := filepath.Join(t.TempDir(), "ca.crt")
		cfg := Default()
		cfg.Mode = ModeFiles
		id := Identity{Watched: []File{
			{Name: "server", Path: theirs.Server, Key: theirs.Server}, {Name: "clients-ca", Path: theirs.ClientsCA}, {Name: "peers-ca", Path: missing},
		}}
		k, err := New(cfg, id, nil, zap.NewNop(), prometheus.NewRegistry())
		must(t, err)
		go k.Run(t.Context())
		synctest.Wait()
		if p := k.Problems(); len(p) != 1 || !strings.Contains(p[0], missing) {
			t.Errorf("problems: %q", p)
		}
		if e := k.Expiries(); len(e) != 2 || e[0].Name != "server" || e[0].File != theirs.Server {
			t.Errorf("expiries: %v", e)
		}
		must(t, os.WriteFile(missing, []byte(read(t, issuer.cfg.Dir)["peers-ca.crt"]), 0o600))
		time.Sleep(9*time.Hour + 10*time.Minute) // of a life of ten hours
		if p, e := k.Problems(), k.Expiries(); len(p) > 0 || len(e) != 3 {
			t.Errorf("in the last tenth: problems %q, expiries %v, want none, which health tells, and three", p, e)
		}
		if err := os.WriteFile(missing, []byte(read(t, issuer.cfg.Dir)["peer.pem"]), 0o600); err != nil { // with its key
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if p := k.Problems(); len(p) != 1 || !strings.Contains(p[0], "only certificates belong here") {
			t.Errorf("authorities with which etcd would not start: problems %q", p)
		}
	})
}
