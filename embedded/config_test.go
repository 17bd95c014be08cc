package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"holdfast/embedded/plan"
	"holdfast/invalid"
)

func TestDefaultIsValid(t *testing.T) {
	if err := invalid.Join(Default().Validate); err != nil {
		t.Error(err)
	}
	if err := invalid.Join(Default().Resolve("10.0.0.1").Validate); err != nil {
		t.Error(err)
	}
	want, got := embed.NewConfig(), Default()
	if got.HeartbeatInterval != want.TickMs || got.ElectionTimeout != want.ElectionMs || got.SnapshotCount != want.SnapshotCount ||
		got.MaxTxnOps != want.MaxTxnOps || got.MaxRequestBytes != want.MaxRequestBytes || got.QuotaBackendBytes != want.QuotaBackendBytes || got.Metrics != want.Metrics {
		t.Errorf("defaults differ from etcd's: %+v", got)
	}
}

func TestResolve(t *testing.T) {
	c := Default().Resolve("10.0.0.1")
	if want := []string{"http://10.0.0.1:2379", "http://127.0.0.1:2379"}; !slices.Equal(c.ListenClientURLs, want) {
		t.Errorf("got %q, want %q", c.ListenClientURLs, want)
	}
	if want := []string{"http://10.0.0.1:2380"}; !slices.Equal(c.ListenPeerURLs, want) {
		t.Errorf("got %q, want %q", c.ListenPeerURLs, want)
	}
	for listen, want := range map[string]string{
		"http://0.0.0.0:4001":   "http://10.0.0.1:4001",
		"http://10.0.0.1:4001":  "http://10.0.0.1:4001",
		"http://[::]:4001":      "http://10.0.0.1:4001",
		"http://127.0.0.1:4001": "http://10.0.0.1:2379", // who listens for this machine only has to say what others are told
	} {
		c := Default()
		c.ListenClientURLs = []string{listen}
		if got := c.Resolve("10.0.0.1").AdvertiseClientURLs; !slices.Equal(got, []string{want}) {
			t.Errorf("listening on %s: got %q, want %q", listen, got, want)
		}
	}
	secure := Default()
	secure.CertFile, secure.PeerCertFile = "c", "p"
	secure.AdvertiseClientURLs = []string{"https://etcd.example:2379"}
	c = secure.Resolve("::1")
	want := Listen{
		ListenClientURLs:    []string{"https://[::1]:2379"},
		AdvertiseClientURLs: []string{"https://etcd.example:2379"},
		ListenPeerURLs:      []string{"https://[::1]:2380"},
	}
	if !reflect.DeepEqual(c.Listen, want) {
		t.Errorf("got %+v, want %+v", c.Listen, want)
	}
}

// problemCase is a change to the default and how the error then begins; "" is none.
type problemCase struct {
	want   string
	change func(*Config)
}

func checkProblems(t *testing.T, cases []problemCase) {
	t.Helper()
	for _, tc := range cases {
		c := Default()
		tc.change(&c)
		err := invalid.Join(c.Validate)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}

func TestValidateTLS(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue(t, "x", "x")
	none := filepath.Join(t.TempDir(), "none")
	checkProblems(t, []problemCase{
		{"etcd.listen-client-urls: must be https because a certificate is set", func(c *Config) {
			c.CertFile, c.KeyFile, c.ListenClientURLs = cert, key, []string{"http://127.0.0.1:1"}
		}},
		{"", func(c *Config) {
			c.CertFile, c.KeyFile, c.TrustedCAFile, c.ClientCertAuth = cert, key, ca.ca(), true
		}},
		{"etcd.cert-file: must be set together with key-file", func(c *Config) { c.CertFile = cert }},
		{"etcd.cert-file: must be a readable PEM certificate", func(c *Config) { c.CertFile, c.KeyFile = none, key }},
		{"etcd.client-cert-auth: must come with trusted-ca-file", func(c *Config) { c.ClientCertAuth = true }},
		{"etcd.cert-file: must be set together with trusted-ca-file", func(c *Config) { c.TrustedCAFile = ca.ca() }},
		{"etcd.peer-trusted-ca-file: must be set together with peer-cert-file", func(c *Config) { c.PeerCertFile, c.PeerKeyFile = cert, key }},
		{"etcd.peer-trusted-ca-file: must be a readable PEM file", func(c *Config) {
			c.PeerCertFile, c.PeerKeyFile, c.PeerTrustedCAFile = cert, key, key
		}},
		{"etcd.peer-cert-allowed-cn: must not be set together", func(c *Config) {
			c.PeerCertFile, c.PeerKeyFile, c.PeerTrustedCAFile = cert, key, ca.ca()
			c.PeerCertAllowedCN, c.PeerCertAllowedHostname = []string{"a"}, []string{"b"}
		}},
		{"etcd.peer-cert-file: must be set when allowed names are", func(c *Config) { c.PeerCertAllowedCN = []string{"a"} }},
	})
}

func TestValidate(t *testing.T) {
	checkProblems(t, []problemCase{
		{"etcd.heartbeat-interval: must be 1–10000 (ms), got 0", func(c *Config) { c.HeartbeatInterval = 0 }},
		{"etcd.election-timeout: must be 500–50000 (ms; at least 5 times the heartbeat-interval), got 499", func(c *Config) { c.ElectionTimeout = 499 }},
		{"", func(c *Config) { c.ElectionTimeout = 50000 }},
		{"etcd.election-timeout: must be 500–50000", func(c *Config) { c.ElectionTimeout = 50001 }},
		{"etcd.quota-backend-bytes: must be 0", func(c *Config) { c.QuotaBackendBytes = -1 }},
		{"etcd.max-request-bytes: must be more than 0", func(c *Config) { c.MaxRequestBytes = 0 }},
		{"etcd.max-txn-ops: must be more than 0", func(c *Config) { c.MaxTxnOps = 0 }},
		{"etcd.snapshot-count: must be more than 0", func(c *Config) { c.SnapshotCount = 0 }},
		{"etcd.auto-compaction-mode: must be periodic or revision, got \"x\"", func(c *Config) { c.AutoCompactionMode = "x" }},
		{"", func(c *Config) { c.AutoCompactionRetention = "5m" }},
		{"etcd.auto-compaction-retention: must be hours", func(c *Config) { c.AutoCompactionRetention = "-5m" }},
		{"etcd.auto-compaction-retention: must be a number", func(c *Config) { c.AutoCompactionMode, c.AutoCompactionRetention = "revision", "5m" }},
		{"etcd.metrics: must be basic or extensive", func(c *Config) { c.Metrics = "" }},
		{"etcd.log-level: must be debug", func(c *Config) { c.LogLevel = "loud" }},
		{"", func(c *Config) { c.FeatureGates = map[string]bool{"CompactHashCheck": true} }},
		{"etcd.feature-gates: must be one of CompactHashCheck", func(c *Config) { c.FeatureGates = map[string]bool{"X": true} }},
		{"etcd.feature-gates: LeaseCheckpointPersist must come with", func(c *Config) { c.FeatureGates = map[string]bool{"LeaseCheckpointPersist": true} }},
		{"etcd.listen-client-urls: must name an IP or localhost", func(c *Config) { c.ListenClientURLs = []string{"http://host:1"} }},
		{"", func(c *Config) { c.ListenClientURLs = []string{"http://localhost:1"} }},
		{"", func(c *Config) { c.AdvertiseClientURLs = []string{"http://host:1"} }},
		{"", func(c *Config) { c.PeerURL = "http://etcd-{slot}.internal.example.com:2380" }},
		{"", func(c *Config) { c.PeerURL = "http://k8s.example.com--main--{slot}.internal.k8s.example.com:1" }},
		{"etcd.peer-url: must be http because no certificate", func(c *Config) { c.PeerURL = "https://{slot}.example.com:1" }},
		{"etcd.peer-url: must be http://host:port", func(c *Config) { c.PeerURL = "http://{slot}.example.com" }},
		{"etcd.peer-url: must hold {slot} once, in its host name", func(c *Config) { c.PeerURL = "http://etcd.example.com:1" }},
		{"etcd.peer-url: must hold {slot} once, in its host name", func(c *Config) { c.PeerURL = "http://{slot}.{slot}.com:1" }},
		{"etcd.peer-url: must name a lower-case host of two or more labels", func(c *Config) { c.PeerURL = "http://{slot}:1" }},
		{"etcd.peer-url: must name a lower-case host of two or more labels", func(c *Config) { c.PeerURL = "http://Etcd-{slot}.com:1" }},
		{"etcd.peer-url: must name a lower-case host", func(c *Config) { c.PeerURL = "http://{slot}." + strings.Repeat("x", 64) + ".com:1" }},
		{"etcd.peer-url: must be at most 253 bytes", func(c *Config) { c.PeerURL = "http://{slot}" + strings.Repeat(".abcdefgh", 26) + ".ab:23800" }},
		{"etcd.peer-url: must end with its port", func(c *Config) { c.PeerURL = "http://{slot}.example.com:1/" }},
		{"etcd.listen-peer-urls: must be http://host:port", func(c *Config) { c.ListenPeerURLs = []string{"http://10.0.0.1"} }},
		{"etcd.listen-peer-urls: must be a URL", func(c *Config) { c.ListenPeerURLs = []string{"10.0.0.1"} }},
		{"etcd.listen-client-urls: must be http because no certificate is set", func(c *Config) { c.ListenClientURLs = []string{"https://10.0.0.1:1"} }},
		{"etcd.listen-client-http-urls: must differ", func(c *Config) {
			c.ListenClientURLs = []string{"http://10.0.0.1:1"}
			c.ListenClientHTTPURLs = c.ListenClientURLs
		}},
	})
	all := Config{}
	err := invalid.Join(all.Validate)
	if got := strings.Count(err.Error(), "\n") + 1; got < 6 {
		t.Errorf("an empty config has %d problems, want all at once: %v", got, err)
	}
}

// What etcd is told must be what is configured.
func TestEtcdConfig(t *testing.T) {
	n := newNode(t, "a")
	n.cfg.FeatureGates = map[string]bool{"LeaseCheckpoint": true}
	n.cfg.LogLevel = "debug"
	n.spec.Peers["b"] = "http://b:2380"
	ec, err := etcdConfig(n.cfg.Resolve(n.addr), n.spec, n.lg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ec.Validate(); err != nil {
		t.Fatal(err)
	}
	if ec.LogLevel == "debug" || ec.UnsafeNoFsync || ec.ForceNewCluster || !ec.StrictReconfigCheck || !ec.PreVote || len(ec.ListenMetricsUrls) != 0 || ec.SocketOpts.ReusePort {
		t.Errorf("unsafe: %+v", ec)
	}
	if want := "a=" + n.spec.PeerURL + ",b=http://b:2380"; ec.InitialCluster != want {
		t.Errorf("initial cluster: got %q, want %q", ec.InitialCluster, want)
	}
	if !ec.ServerFeatureGate.Enabled("LeaseCheckpoint") {
		t.Error("feature gate is off")
	}
	if !ec.ServerFeatureGate.Enabled("CompactHashCheck") {
		t.Error("the check for corruption that costs nothing is off")
	}
	n.cfg.FeatureGates = map[string]bool{"CompactHashCheck": false}
	if ec, err = etcdConfig(n.cfg.Resolve(n.addr), n.spec, n.lg, nil); err != nil || ec.ServerFeatureGate.Enabled("CompactHashCheck") {
		t.Errorf("CompactHashCheck cannot be switched off: %v", err)
	}
}

func TestEtcdLogger(t *testing.T) {
	for _, tc := range []struct {
		process zapcore.Level
		level   string
		want    zapcore.Level
	}{
		{zap.InfoLevel, "info", zap.InfoLevel},
		{zap.InfoLevel, "warn", zap.WarnLevel},
		{zap.InfoLevel, "debug", zap.InfoLevel},
	} {
		lg := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(&bytes.Buffer{}), tc.process))
		if got := zapcore.LevelOf(etcdLogger(lg, tc.level, plan.Spec{}, lastWord{}).Core()); got != tc.want {
			t.Errorf("%v at %s: got %v, want %v", tc.process, tc.level, got, tc.want)
		}
	}
}

// etcd ends the process with Fatal or Panic; this is what the operator reads last, and nothing where the member was
// killed because of something that was told before.
func TestLastWord(t *testing.T) {
	const child = "EMBEDDED_TEST_LAST_WORD"
	if how := os.Getenv(child); how != "" {
		killed := newLatch()
		last := lastWord{killed: killed, note: func(reason string) { fmt.Println("noted:", reason) }}
		lg := etcdLogger(zap.Must(zap.NewProduction()), "info", plan.Spec{Slot: "b", DataDir: "/volume/etcd"}, last).
			WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return newCalm(c, newLatch(), killed) }))
		switch how {
		case "fatal":
			lg.Fatal("failed to save Raft hard state", zap.Error(errors.New("no space left")))
		case "killed":
			killed.drop()
			fallthrough
		case "panic":
			lg.Panic("failed to close Raft storage", zap.Error(errors.New("no space left")))
		}
		return
	}
	for how, reason := range map[string]string{"fatal": "failed to save Raft hard state", "panic": "failed to close Raft storage", "killed": ""} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLastWord$")
		cmd.Env = append(os.Environ(), child+"="+how)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); err == nil || got != 1 {
			t.Errorf("%s: exit code: got %d, want 1", how, got)
		}
		if strings.Contains(string(out), "goroutine ") || reason == "" && len(out) > 0 {
			t.Errorf("%s: said %s", how, out)
		}
		for _, want := range []string{"etcd ended this process", `"slot":"b"`, `"data-dir":"/volume/etcd"`, reason + ": no space left", "noted: etcd of slot b ended it: " + reason} {
			if reason != "" && !strings.Contains(string(out), want) {
				t.Errorf("%s: last words lack %q:\n%s", how, want, out)
			}
		}
	}
}

// A member that is founded and stopped says nothing that an operator has to look into; nor does one that is removed. A
// listener that fails, and not because it is closed, is still told.
func TestCalm(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	core, told := observer.New(zap.WarnLevel)
	n := newNode(t, "a")
	n.lg = zap.New(core)
	n.run(t).awaitReady(t)
	for _, e := range told.TakeAll() {
		t.Errorf("at the start: %s %v", e.Message, e.ContextMap())
	}
	await(t, "the cluster has a version, without which nobody joins", func() bool { return n.Status().ClusterVersion != "" })
	b := newNode(t, "b")
	id, err := n.AddLearner(soon(t), b.spec.PeerURL)
	check(t, err)
	b.lg = zap.New(core)
	b.spec.Join, b.spec.Peers = true, map[string]string{"a": n.spec.PeerURL, "b": b.spec.PeerURL}
	b.run(t).awaitReady(t)
	told.TakeAll() // who joins is not reached before it runs
	check(t, n.Remove(soon(t), id))
	awaitClosed(t, "b ends by itself", b.Done())
	for _, e := range told.TakeAll() {
		if ofListeners[e.Message] {
			t.Errorf("of a removed member: %s %v", e.Message, e.ContextMap())
		}
	}
	stop(t, n, 0)
	for _, e := range told.TakeAll() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); !strings.Contains(text, "removed member") { // b's last words may come late
			t.Errorf("at the stop: %s", text)
		}
	}
	lg := zap.New(newCalm(core, newLatch(), newLatch()))
	for range 100 {
		lg.Warn("failed to apply request")
	}
	lg.Error("setting up serving from embedded etcd failed.", zap.Error(errors.New("no such device")))
	if got := told.Len(); got != 11 {
		t.Errorf("of 100 warnings and an error %d are told, want 11", got)
	}
}
