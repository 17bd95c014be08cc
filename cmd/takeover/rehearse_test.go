package takeover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/embedded/plan"
)

// The configurations of a rehearsal are valid, with and without TLS.
func TestConfigure(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		s := script{Dir: t.TempDir(), Program: plan.EtcdManager, Token: "t", Named: "etcd-{slot}", Hold: "1m0s",
			Pattern: scheme + "://etcd-{slot}.internal.test:2380"}
		for i, slot := range []string{"a", "b"} {
			s.Cast = append(s.Cast, actor{Slot: slot, Name: "etcd-" + slot, Address: address(i),
				Peer: strings.Replace(s.Pattern, "{slot}", slot, 1)})
		}
		if err := s.certify(); err != nil {
			t.Fatal(err)
		}
		for _, a := range s.Cast {
			if err := os.MkdirAll(s.data(a), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := s.configure(a); err != nil {
				t.Fatal(err)
			}
			l, err := config.Load(s.config(a), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v", scheme, err)
			}
			if err := config.Refused(l); err != nil {
				t.Errorf("%s: %v", scheme, err)
			}
			if at := l.Config.Cluster.Elders(); !l.Config.Cluster.Adopt || len(at) != 2 || l.Config.Volume.Local.Directory != s.volume(a) {
				t.Errorf("%s: got %+v", scheme, l.Config)
			}
		}
	}
}

// Copies are cast as the members that they are, or it is said why they cannot be.
func TestCastCopies(t *testing.T) {
	dir := ran(t, filepath.Join(t.TempDir(), "etcd"))
	lists, err := embedded.ReadMemberships(dir)
	if err != nil {
		t.Fatal(err)
	}
	peer := lists.V3[0].PeerURLs[0]
	cfg := config.Default()
	cfg.Etcd.PeerURL = strings.Replace(peer, "127.", "{slot}.", 1) // the slot is 127
	s, r := script{}, Rehearsal{}
	if s.castCopies(&r, cfg, []string{dir}); r.Stopped != "" {
		t.Fatalf("got %q", r.Stopped)
	}
	if a := s.Cast[0]; len(s.Cast) != 1 || a.Slot != "127" || a.Peer != peer || a.Copy != dir || s.Program != plan.PlainEtcd {
		t.Errorf("got %+v", s)
	}
	if !r.Same || len(r.Real) != 1 || r.Real[0].PeerURL != peer {
		t.Errorf("got %+v", r)
	}
	for want, change := range map[string]func() []string{
		"does not fit etcd.peer-url":  func() []string { cfg.Etcd.PeerURL = "http://m-{slot}.test:2380"; return []string{dir} },
		"it is of the same member as": func() []string { return []string{dir, dir} },
		"it is not a data directory":  func() []string { return []string{t.TempDir()} },
	} {
		s, r := script{}, Rehearsal{}
		if s.castCopies(&r, cfg, change()); !strings.Contains(r.Stopped, want) {
			t.Errorf("want %q, got %q", want, r.Stopped)
		}
		if text := r.Text(); strings.Contains(text, "they were rehearsed") {
			t.Errorf("nothing was, and it says %s", text)
		}
	}
}
