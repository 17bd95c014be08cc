package cmd

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
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

// tlsCA makes authorities by command, and a configuration that uses them.
func tlsCA(t *testing.T) (configPath string, cfg config.Config) {
	t.Helper()
	dir := t.TempDir()
	if out, err := execute("tls", "init", filepath.Join(dir, "ca"), "--life", "1y"); err != nil {
		t.Fatal(err, out)
	}
	configPath = filepath.Join(dir, "holdfast.yaml")
	text := "node: {data-dir: " + dir + "/data, name: n1}\ntls: {ca-dir: " + dir + "/ca}\n"
	if err := os.WriteFile(configPath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(configPath, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return configPath, l.Config
}

func execute(args ...string) (string, error) {
	var out bytes.Buffer
	c := newRoot()
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	err := c.Execute()
	return out.String(), err
}

// Nothing that is there is overwritten, a dry run writes nothing, and what is issued is good.
func TestTLSCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	if out, err := execute("tls", "init", dir, "--dry-run"); err != nil || !strings.Contains(out, "nothing was changed") {
		t.Errorf("init --dry-run: %v, %s", err, out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("init --dry-run made the directory")
	}
	_, first := tlsCA(t)
	key := first.TLS.PeerCAKeyFile
	before, _ := os.ReadFile(key)
	if err := os.Remove(first.TLS.ClientCAFile); err != nil {
		t.Fatal(err)
	}
	if _, err := execute("tls", "init", filepath.Dir(key)); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("init over a part of what it makes: %v", err)
	}
	if after, _ := os.ReadFile(key); !bytes.Equal(before, after) {
		t.Error("init has overwritten a key")
	}
	if _, err := os.Stat(first.TLS.ClientCAFile); err == nil {
		t.Error("init that was refused has written a file")
	}

	configPath, cfg := tlsCA(t)
	if info, err := os.Stat(cfg.TLS.PeerCAKeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	to := t.TempDir()
	issue := []string{"tls", "client", "kube", "--to", to, "--config", configPath}
	if out, err := execute(append(issue, "--dry-run")...); err != nil || !strings.Contains(out, "nothing was changed") {
		t.Errorf("client --dry-run: %v, %s", err, out)
	}
	if files, _ := os.ReadDir(to); len(files) > 0 {
		t.Errorf("client --dry-run wrote %v", files)
	}
	if out, err := execute(issue...); err != nil {
		t.Fatal(err, out)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(to, "kube.crt"), filepath.Join(to, "kube.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(to, "ca.crt"))
	if err != nil || !pool.AppendCertsFromPEM(ca) {
		t.Fatalf("ca.crt: %v", err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil || pair.Leaf.Subject.CommonName != "kube" {
		t.Errorf("the certificate of %s: %v", pair.Leaf.Subject, err)
	}
	if _, err := execute(issue...); err == nil || !strings.Contains(err.Error(), "never overwritten") {
		t.Errorf("client again: %v", err)
	}
	for _, name := range []string{"../x", "", "a/b", "-x"} {
		if _, err := execute("tls", "client", "--to", to, "--config", configPath, "--", name); err == nil {
			t.Errorf("a client named %q was accepted", name)
		}
	}
	if _, err := execute("tls", "client", "x", "--to", to, "--node.data-dir", t.TempDir()); err == nil {
		t.Error("a node without TLS issues certificates")
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

// Nobody overlooks that etcd is open.
func TestInsecureIsShown(t *testing.T) {
	s := health.ClusterStatus{Nodes: []health.NodeStatus{{Node: "n1", Reached: true, TLS: &health.TLSStatus{Mode: "off", Insecure: true}}, {Node: "n2", TLS: &health.TLSStatus{Mode: "auto"}}, {Node: "n3"}}}
	var out strings.Builder
	s.Judge(nil)
	if err := writeStatus(&out, s, time.Now()); err != nil || !strings.Contains(out.String(), "reach etcd on n1 without TLS") {
		t.Errorf("got %v, %s", err, out.String())
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
