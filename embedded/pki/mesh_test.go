package pki

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// accepts reports whether one process accepts what another presents in the gossip.
func accepts(t *testing.T, by, from *Keeper) bool {
	t.Helper()
	pair, err := from.MeshCertificate()
	must(t, err)
	pool, err := by.MeshAuthorities()
	must(t, err)
	for _, usage := range bothUsages {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: time.Now()}); err != nil {
			return false
		}
	}
	return true
}

func learn(t *testing.T, all ...*Keeper) {
	t.Helper()
	for _, k := range all {
		must(t, k.Learn(t.Context()))
	}
}

// The gossip's leaf exists before any slot, has no member's name, and is renewed in time.
func TestMeshCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, &given{now: newAuthorities(t, "one", ages)}, nil)
		k.id.Zone, k.id.Node = "main.internal", "n1"
		if _, err := k.MeshCertificate(); err == nil {
			t.Error("there is one before the authority is known")
		}
		if _, err := k.MeshAuthorities(); err == nil {
			t.Error("there are authorities before any is known")
		}
		learn(t, k)
		first, err := k.MeshCertificate()
		must(t, err)
		c := first.Leaf
		if !slices.Equal(c.DNSNames, []string{"node.gossip.main.internal"}) || c.Subject.CommonName != "n1" || len(c.IPAddresses) > 0 {
			t.Errorf("it says %v, %v", c.Subject, c.DNSNames)
		}
		if _, err := os.Stat(k.cfg.Dir); !accepts(t, k, k) || err == nil {
			t.Error("it is not accepted, or something was written")
		}
		time.Sleep(life / 2)
		learn(t, k)
		if again, _ := k.MeshCertificate(); again != nil && !again.Leaf.Equal(c) {
			t.Error("it was renewed at half of its life")
		}
		time.Sleep(life / 4)
		learn(t, k)
		if again, _ := k.MeshCertificate(); again == nil || again.Leaf.Equal(c) || !accepts(t, k, k) {
			t.Error("it was not renewed at three quarters of its life")
		}
	})
}

// While an authority is replaced, all processes that look once a minute accept each other at any time, even those
// without a slot.
func TestMeshFollowsTheAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newAuthorities(t, "one", ages), newAuthorities(t, "two", ages)
		ours, theirs := &given{now: one}, &given{now: one}
		a, b := newKeeper(t, ours, nil), newKeeper(t, theirs, nil)
		learn(t, a, b)
		both := Authorities{Clients: one.Clients, Peers: two.Peers.with(one.Peers)} // it is trusted, and signs, at once
		for step, now := range []Authorities{both, {Clients: one.Clients, Peers: two.Peers}} {
			ours.set(now, nil)
			learn(t, a)
			time.Sleep(time.Minute)
			if step == 0 && (!accepts(t, a, b) || !accepts(t, b, a)) {
				t.Error("the one that knows the new authority is not accepted")
			}
			theirs.set(now, nil)
			for range 5 {
				learn(t, b)
				time.Sleep(time.Minute)
				learn(t, a)
				if !accepts(t, a, b) || !accepts(t, b, a) {
					t.Errorf("step %d: they do not accept each other", step)
				}
			}
			for _, k := range []*Keeper{a, b} {
				if l := k.now().mesh; l.issuer != Fingerprint(two.Peers.Primary) {
					t.Errorf("step %d: still issued by %s", step, l.issuer)
				}
			}
		}
		stranger := newKeeper(t, &given{now: one}, nil)
		learn(t, stranger)
		if accepts(t, a, stranger) {
			t.Error("the old authority counts still")
		}
	})
}

// A member that does not trust the new authority yet keeps it from signing.
func TestMeshWaitsForTheMembers(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := situation{Life: life, Peers: []signing{{"new", now.Add(ages)}, {"old", now.Add(ages)}},
		Stances: []Stance{{Trusts: []string{"old"}, Issuer: "old"}}}
	long := map[string]time.Time{"new": now.Add(-time.Hour), "old": now.Add(-time.Hour)}
	h := &held{From: now.Add(-life / 4), Until: now.Add(3 * life / 4), Issuer: "old"}
	if got := s.mesh(now, h, long); got != "" {
		t.Errorf("got %q, want the certificate of the old one to stay", got)
	}
	if got := s.mesh(now, nil, long); got != "old" {
		t.Errorf("without a certificate: got %q, want old", got)
	}
	s.Stances[0].Trusts = []string{"new", "old"}
	if got := s.mesh(now, h, long); got != "new" {
		t.Errorf("all trust it: got %q, want new", got)
	}
	if got := s.mesh(now, h, map[string]time.Time{"new": now, "old": now.Add(-time.Hour)}); got != "" {
		t.Errorf("just heard of: got %q, want the old one to stay", got)
	}
	s.Peers = s.Peers[:1]
	if got := s.mesh(now, h, map[string]time.Time{"new": now}); got != "new" {
		t.Errorf("the old one is gone: got %q, want new", got)
	}
}

// An observer's file has what it needs and no authority's key, and nobody else may read it.
func TestObserverFile(t *testing.T) {
	all := newAuthorities(t, "one", time.Hour)
	text, err := IssuePaper(all, Observer, "main.internal", "kubelet", time.Minute, time.Now())
	must(t, err)
	path := filepath.Join(t.TempDir(), "observer.pem")
	must(t, os.WriteFile(path, text, 0o600))
	p, err := ReadPaper(path)
	must(t, err)
	if c := p.Leaf; !slices.Equal(c.DNSNames, []string{"observer.gossip.main.internal"}) || len(p.Certificate.Certificate) != 1 {
		t.Errorf("it says %v, with %d certificates", c.DNSNames, len(p.Certificate.Certificate))
	}
	want := x509.NewCertPool()
	want.AddCert(all.Peers.Primary)
	if !p.Pool().Equal(want) {
		t.Error("it trusts something else than the peers' authority")
	}
	must(t, os.Chmod(path, 0o640))
	if _, err := ReadPaper(path); err == nil {
		t.Error("a file that others may read was read")
	}
	all.Peers.Key, all.Peers.Primary = nil, nil
	if _, err := IssuePaper(all, Observer, "main.internal", "kubelet", time.Minute, time.Now()); err == nil {
		t.Error("issued without a key")
	}
}
