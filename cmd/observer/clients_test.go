package observer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/certificates"
	"holdfast/cmd/node"
	"holdfast/embedded/pki"
)

type given pki.Authorities

func (g given) Authorities(context.Context) (pki.Authorities, error) { return pki.Authorities(g), nil }

// That nobody renews an observer's certificate is a problem when it is time for that, and not before: nobody has asked
// for it. A client's that is to be kept fresh is one at once.
func TestWhenNobodyRenews(t *testing.T) {
	const zone = "main.internal"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	peers, err := pki.NewAuthority("peers", 24*time.Hour)
	must(err)
	all := pki.Authorities{Clients: peers, Peers: peers}
	k, err := pki.New(pki.Config{Mode: pki.ModeCA, LeafLife: time.Hour}, pki.Identity{Zone: zone, Node: "n1"}, given(all), zap.NewNop(), prometheus.NewRegistry())
	must(err)
	must(k.Learn(t.Context()))
	pair, err := k.MeshCertificate()
	must(err)
	due := false
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error": "it may not be renewed"}`))
			return
		}
		_ = json.NewEncoder(w).Encode(node.Fresh{Authorities: string(pki.EncodeCertificates(peers.Bundle...)), Due: due})
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*pair}, ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	must(closed.Close())

	path := filepath.Join(t.TempDir(), "observer.pem")
	paper := func(life time.Duration) certificates.Files {
		t.Helper()
		text, err := pki.IssuePaper(all, pki.Observer, zone, "o", life, time.Now())
		must(err)
		must(os.WriteFile(path, text, 0o600))
		return certificates.PaperOf(pki.Observer, path, zone)
	}
	none := []string{closed.Addr().String()}
	one := []string{s.Listener.Addr().String()}
	for name, c := range map[string]struct {
		file  certificates.Files
		nodes []string
		due   bool
		says  string
	}{
		"fresh, and nobody answers":         {paper(time.Hour), none, false, ""},
		"fresh, and a node says so":         {paper(time.Hour), one, false, ""},
		"of an authority that goes":         {paper(time.Hour), one, true, "it may not be renewed"},
		"missing":                           {certificates.PaperOf(pki.Observer, path+"-", zone), none, false, "tls observer NAME"},
		"an operator's that is an observer": {certificates.PaperOf(pki.Operator, path, zone), none, false, "no operator's certificate"},
		"of another cluster":                {certificates.PaperOf(pki.Observer, path, "other"), none, false, "no observer's certificate"},
		"a client's":                        {certificates.FilesOf(filepath.Dir(path), "kube"), none, false, "an operator issues the first one"},
	} {
		due = c.due
		kept := newClients([]certificates.Files{c.file}, func() []string { return c.nodes }, prometheus.NewRegistry(), zap.NewNop())
		next := kept.keep(t.Context(), c.file)
		if got := kept.of(c.file).failed; (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: got %q, want %q", name, got, c.says)
		}
		if next > 4*time.Minute { // a twentieth of its life, which was backdated
			t.Errorf("%s: looks again in %s", name, next)
		}
	}
	restarts := paper(20 * time.Hour)
	patient := newClients(nil, func() []string { return none }, prometheus.NewRegistry(), zap.NewNop())
	var waits []time.Duration
	for range 12 {
		waits = append(waits, patient.keep(t.Context(), restarts).Round(time.Second))
	}
	if got, want := fmt.Sprint(waits), "[1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 5m0s 5m0s 5m0s]"; got != want {
		t.Errorf("after looks that failed it looks again in %s, want %s", got, want)
	}
	first := newClients([]certificates.Files{restarts}, func() []string { return none }, prometheus.NewRegistry(),
		zap.NewNop())
	if got := first.checks(time.Now()); len(got) != 1 || strings.Contains(got[0].Detail, "good until") {
		t.Errorf("before the first look: got %+v", got)
	}
	past := paper(3 * time.Second)
	kept := newClients(nil, func() []string { return none }, prometheus.NewRegistry(), zap.NewNop())
	for deadline := time.Now().Add(10 * time.Second); kept.of(past).failed == ""; kept.keep(t.Context(), past) {
		if time.Now().After(deadline) {
			t.Fatal("two thirds of its life are over, and nothing is said")
		}
	}
}
