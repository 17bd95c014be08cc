package cmd

import (
	"crypto/tls"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
)

// Who is counted, and when nothing is known to be missing.
func TestStances(t *testing.T) {
	list := []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}}
	base := func() plan.Observation {
		return plan.Observation{Claim: plan.Claim{Held: true, Slot: "a"}, Member: plan.Member{Running: true, Members: list, Trusts: []string{"x"}, Issuer: "x"},
			Peers: []plan.Peer{{Node: "n2", Live: true, Facts: &plan.Facts{Slot: "b", Running: true, Trusts: []string{"x", "y"}, Issuer: "x"}}}}
	}
	other := pki.Stance{Trusts: []string{"x", "y"}, Issuer: "x"}
	for name, tt := range map[string]struct {
		change   func(*plan.Observation)
		others   int
		complete bool
	}{
		"all are there":                        {func(*plan.Observation) {}, 1, true},
		"the holder is lost":                   {func(o *plan.Observation) { o.Peers[0].Live = false }, 1, false},
		"lost, and followed":                   {func(o *plan.Observation) { o.Peers = append(o.Peers, o.Peers[0]); o.Peers[0].Live = false }, 1, true},
		"it has said nothing of certificates":  {func(o *plan.Observation) { o.Peers[0].Facts.Trusts = nil }, 1, false},
		"it does not run":                      {func(o *plan.Observation) { o.Peers[0].Facts.Running = false }, 0, true},
		"a standby":                            {func(o *plan.Observation) { o.Peers = append(o.Peers, plan.Peer{Live: true, Facts: &plan.Facts{}}) }, 1, true},
		"somebody who has not spoken":          {func(o *plan.Observation) { o.Peers = append(o.Peers, plan.Peer{Live: true}) }, 1, false},
		"somebody lost who never spoke":        {func(o *plan.Observation) { o.Peers = append(o.Peers, plan.Peer{}) }, 1, true},
		"we do not run":                        {func(o *plan.Observation) { o.Member = plan.Member{} }, 1, false},
		"the members are not known":            {func(o *plan.Observation) { o.Member.Members = nil }, 1, false},
		"nobody holds a slot of the cluster's": {func(o *plan.Observation) { o.Peers = nil }, 0, false},
	} {
		o := base()
		tt.change(&o)
		own, others, complete := stances(o)
		if len(others) != tt.others || complete != tt.complete {
			t.Errorf("%s: got %d others, complete %v, want %d, %v", name, len(others), complete, tt.others, tt.complete)
		}
		if want := o.Member.Running; (own.Issuer == "x") != want {
			t.Errorf("%s: our own is %+v", name, own)
		}
		if len(others) > 0 && !slices.Equal(others[0].Trusts, other.Trusts) && tt.complete {
			t.Errorf("%s: got %+v", name, others)
		}
	}
}

// etcdctl's certificate is issued once, and anew when it is old or the authorities are others.
func TestEtcdctlCertificate(t *testing.T) {
	_, cfg := tlsCA(t)
	now := time.Now()
	if _, err := etcdctlCertificate(t.Context(), cfg, now); err == nil || !strings.Contains(err.Error(), "has not run") {
		t.Errorf("before the node has run: %v", err)
	}
	trust := func(from string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(cfg.TLS.Dir, 0o700)
		}
		if err == nil {
			err = os.WriteFile(cfg.TLS.Files().ClientsCA, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	issue := func(at time.Time) string {
		t.Helper()
		path, err := etcdctlCertificate(t.Context(), cfg, at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tls.LoadX509KeyPair(path, path); err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(path)
		return string(text)
	}
	trust(cfg.TLS.ClientCAFile)
	first := issue(now)
	if issue(now.Add(time.Hour)) != first {
		t.Error("it was issued anew after an hour")
	}
	second := issue(now.Add(20 * time.Hour))
	if second == first {
		t.Error("it was kept until its end")
	}
	trust(cfg.TLS.PeerCAFile) // any other authority
	if issue(now) == second {
		t.Error("it was kept although the authority is another one")
	}
}

// The server's certificate names every address at which clients reach the node: an address of loopback that is not the
// usual one was once left out.
func TestNamesOfTheServer(t *testing.T) {
	cfg := configured(t, "node: {name: n1, address: 127.9.9.9}\netcd: {advertise-client-urls: ['http://etcd.example:2379']}")
	if got, want := tlsIdentity(cfg).Names, []string{"127.9.9.9", "etcd.example", "n1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
