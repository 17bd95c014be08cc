package gossip

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/invalid"
)

func newMesh(t *testing.T) *Mesh {
	t.Helper()
	m, err := New(Config{Listen: "127.0.0.1:0"}, "main", node("a"), echo, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	return m
}

func TestValidate(t *testing.T) {
	good := Config{Listen: "[::1]:7946", Seeds: []string{"a.example", "10.0.0.1", "10.0.0.1:1", "::1", "[::1]", "[::1]:7946", "a:65535"}}
	for _, c := range []Config{Default(), good, {ForgetAfter: 10 * time.Minute}, {ForgetAfter: 365 * 24 * time.Hour}} {
		if err := invalid.Join(c.Validate); err != nil {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	bad := Config{Listen: "x", Seeds: []string{"", "a:0", "a:b", "a:65536", "a b", "[::1"}}
	err := invalid.Join(bad.Validate)
	if err == nil {
		t.Fatal("got no error")
	}
	if got, want := strings.Count(err.Error(), "gossip."), 1+len(bad.Seeds); got != want {
		t.Errorf("got %d complaints, want %d:\n%v", got, want, err)
	}
	if err := invalid.Join(Config{Listen: "[fe80::1%eth0]:7946"}.Validate); err == nil {
		t.Error("an address with a zone: got no error")
	}
	for _, d := range []time.Duration{-time.Hour, 1, 10*time.Minute - 1, 365*24*time.Hour + 1} {
		if err := invalid.Join(Config{ForgetAfter: d}.Validate); err == nil || !strings.HasPrefix(err.Error(), "gossip.forget-after: must be 10m–365d") {
			t.Errorf("forget-after %s: got %v", d, err)
		}
	}
	if want := `gossip.listen: must be host:port with an IP address without zone, got "x"`; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSplitSeed(t *testing.T) {
	for seed, want := range map[string]struct {
		host string
		port uint16
	}{
		"a.example":   {"a.example", 7},
		"a.example:1": {"a.example", 1},
		"10.0.0.1":    {"10.0.0.1", 7},
		"::1":         {"::1", 7},
		"[::1]":       {"::1", 7},
		"[::1]:1":     {"::1", 1},
	} {
		if host, port, err := splitSeed(seed, 7); err != nil || host != want.host || port != want.port {
			t.Errorf("%s: got %s, %d, %v, want %+v", seed, host, port, err, want)
		}
	}
}

func TestLines(t *testing.T) {
	got := lines("# a\n\n  b # c\r\n\td\n#")
	if want := []string{"b", "d"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A node whose port is taken says which program may have it: etcd-manager still runs where it is taken over.
func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	m, err := New(Config{Listen: taken.Addr().String()}, "main", node("a"), echo, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "stop the program that uses this port") {
		t.Errorf("got %v", err)
	}
}
