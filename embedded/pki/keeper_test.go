package pki

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/invalid"
)

const (
	zone     = "main.holdfast.internal"
	peerName = "peer." + zone
)

// given is a source whose answer the test sets.
type given struct {
	mu  sync.Mutex
	now Authorities
	err error
}

func (g *given) Authorities(context.Context) (Authorities, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now, g.err
}

func (g *given) set(a Authorities, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now, g.err = a, err
}

func newAuthority(t testing.TB, name string, life time.Duration) Authority {
	t.Helper()
	a, err := NewAuthority(name, life)
	must(t, err)
	return a
}

func newAuthorities(t testing.TB, name string, life time.Duration) Authorities {
	t.Helper()
	return Authorities{Clients: newAuthority(t, name+" clients", life), Peers: newAuthority(t, name+" peers", life)}
}

// with returns an authority that also trusts other ones.
func (a Authority) with(others ...Authority) Authority {
	for _, o := range others {
		a.Bundle = append(a.Bundle[:len(a.Bundle):len(a.Bundle)], o.Bundle...)
	}
	return a
}

func newKeeper(t testing.TB, source Source, change func(*Config)) *Keeper {
	t.Helper()
	cfg := Default()
	cfg.Mode, cfg.Dir = ModeCA, filepath.Join(t.TempDir(), "tls")
	if change != nil {
		change(&cfg)
	}
	must(t, invalid.Join(cfg.Validate))
	return openKeeper(t, cfg, source)
}

func openKeeper(t testing.TB, cfg Config, source Source) *Keeper {
	t.Helper()
	id := Identity{Zone: zone, PeerName: peerName, Names: []string{"etcd.example.com", "192.0.2.7"}}
	k, err := New(cfg, id, source, zap.NewNop(), prometheus.NewPedanticRegistry())
	must(t, err)
	return k
}

func prepare(t testing.TB, k *Keeper, slot string) {
	t.Helper()
	must(t, k.Prepare(t.Context(), slot))
}

// load reads a leaf as etcd does: one file for both.
func load(t testing.TB, path string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(path, path)
	must(t, err)
	return pair
}

func TestPrepare(t *testing.T) {
	k := newKeeper(t, &given{now: newAuthorities(t, "one", time.Hour)}, nil)
	prepare(t, k, "a")
	files := k.cfg.Files()
	server, peer := load(t, files.Server).Leaf, load(t, files.Peer).Leaf
	for _, name := range []string{"a." + zone, "etcd.example.com", "localhost", "192.0.2.7", "127.0.0.1", "::1"} {
		if err := server.VerifyHostname(name); err != nil {
			t.Errorf("server: %v", err)
		}
	}
	if cn := server.Subject.CommonName; cn != "" {
		t.Errorf("the server's certificate is that of etcd's user %q", cn)
	}
	for _, name := range []string{"a." + zone, peerName} {
		if err := peer.VerifyHostname(name); err != nil {
			t.Errorf("peer: %v", err)
		}
	}
	if len(peer.IPAddresses) > 0 {
		t.Errorf("the peer's certificate bears addresses: %v", peer.IPAddresses)
	}
	if got, want := peer.NotAfter, k.now().known.Peers.Primary.NotAfter; got.After(want) {
		t.Errorf("the leaf ends at %s, after its authority (%s)", got, want)
	}
	if got, want := k.Issuer(), Fingerprint(k.now().known.Peers.Primary); got != want {
		t.Errorf("issuer %q, want %q", got, want)
	}
	if info, err := os.Stat(k.cfg.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info, err)
	}
	entries, err := os.ReadDir(k.cfg.Dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if p := k.Problems(); len(p) > 0 {
		t.Errorf("problems: %q", p)
	}
}

// Good files are left alone, also by another process, and without any source.
func TestPrepareReuses(t *testing.T) {
	source := &given{now: newAuthorities(t, "one", 10*365*24*time.Hour)}
	k := newKeeper(t, source, nil)
	prepare(t, k, "a")
	before := read(t, k.cfg.Dir)
	for name, err := range map[string]error{"the same": nil, "no source": errors.New("no store")} {
		source.set(source.now, err)
		again := openKeeper(t, k.cfg, source)
		prepare(t, again, "a")
		if after := read(t, k.cfg.Dir); after["peer.pem"] != before["peer.pem"] || after["server.pem"] != before["server.pem"] {
			t.Errorf("%s: a good certificate was replaced", name)
		}
	}
	source.set(Authorities{}, nil)
	prepare(t, openKeeper(t, k.cfg, source), "a")
	if err := openKeeper(t, k.cfg, source).Prepare(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "authority without") {
		t.Errorf("the certificates of slot a were taken for those of b: %v", err)
	}
}

// A node that comes back in the middle of a change trusts what the others may still present.
func TestPrepareRemembers(t *testing.T) {
	old, young := newAuthorities(t, "old", ages), newAuthorities(t, "young", ages)
	both := young
	both.Peers = young.Peers.with(old.Peers)
	source := &given{now: both}
	k := newKeeper(t, source, nil)
	prepare(t, k, "a")
	source.set(young, nil)
	again := openKeeper(t, k.cfg, source)
	prepare(t, again, "a")
	loaded := []string{Fingerprint(old.Peers.Primary), Fingerprint(young.Peers.Primary)}
	if got := again.trusts(loaded); !slices.Equal(got, loaded) {
		t.Errorf("trusts %q, want %q", got, loaded)
	}
	if got := again.trusts(nil); got != nil {
		t.Errorf("a member that does not run trusts %q", got)
	}
	// Nobody is missing and nobody presents it, so it is dropped, and from then on no node may rely on it.
	again.See(Stance{Trusts: loaded, Issuer: again.Issuer()}, nil, true)
	if _, err := again.look(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if got := again.trusts(loaded); !slices.Equal(got, loaded[1:]) {
		t.Errorf("trusts %q, want %q", got, loaded[1:])
	}
}

func read(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		all[e.Name()] = string(text)
	}
	return all
}

// Both certificates have the host of the slot's peer URL, beside the fixed names.
func TestPeerHost(t *testing.T) {
	k := &Keeper{id: Identity{Zone: zone, PeerName: peerName, PeerHost: "etcd-{slot}.internal.example.com"}}
	host, own := "etcd-b.internal.example.com", "b."+zone
	if p := k.peer("b"); !slices.Equal(p.dns, sorted([]string{own, host, peerName})) || p.commonName != own {
		t.Errorf("peer: got %s and %q", p.commonName, p.dns)
	}
	if p := k.server("b"); !slices.Equal(p.dns, sorted([]string{own, host, "localhost"})) {
		t.Errorf("server: got %q", p.dns)
	}
	if p := k.peer("b"); len(p.ips) > 0 {
		t.Errorf("a peer that may move: got %v", p.ips)
	}
	k.id.PeerAddress = "10.0.0.2"
	if p := k.peer("b"); len(p.ips) != 1 || p.ips[0].String() != "10.0.0.2" {
		t.Errorf("a peer of members that holdfast does not run: got %v", p.ips)
	}
}
