package settings

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/pki"
	"holdfast/invalid"
)

func TestDefaultIsValid(t *testing.T) {
	if err := invalid.Join(Default().Validate); err != nil {
		t.Error(err)
	}
	if err := invalid.Join(Default().Resolve("10.0.0.1").Validate); err != nil {
		t.Error(err)
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
		"http://127.0.0.1:4001": "http://10.0.0.1:2379", // a node that listens only on loopback must advertise another address
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

// problemCase is a change to the default configuration, and the beginning of the resulting error; "" for none.
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
	a, err := pki.NewAuthority("x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, none := filepath.Join(t.TempDir(), "x.pem"), filepath.Join(t.TempDir(), "x.key"), filepath.Join(t.TempDir(), "none")
	bundle, private, err := a.Encode()
	if err := errors.Join(err, os.WriteFile(cert, bundle, 0o600), os.WriteFile(key, private, 0o600)); err != nil {
		t.Fatal(err)
	}
	ca := cert
	checkProblems(t, []problemCase{
		{"etcd.listen-client-urls: must be https because a certificate is set", func(c *Config) {
			c.CertFile, c.KeyFile, c.ListenClientURLs = cert, key, []string{"http://127.0.0.1:1"}
		}},
		{"", func(c *Config) {
			c.CertFile, c.KeyFile, c.TrustedCAFile, c.ClientCertAuth = cert, key, ca, true
		}},
		{"etcd.cert-file: must be set together with key-file", func(c *Config) { c.CertFile = cert }},
		{"etcd.cert-file: must be a readable PEM certificate", func(c *Config) { c.CertFile, c.KeyFile = none, key }},
		{"etcd.client-cert-auth: must come with trusted-ca-file", func(c *Config) { c.ClientCertAuth = true }},
		{"etcd.cert-file: must be set together with trusted-ca-file", func(c *Config) { c.TrustedCAFile = ca }},
		{"etcd.peer-trusted-ca-file: must be set together with peer-cert-file", func(c *Config) { c.PeerCertFile, c.PeerKeyFile = cert, key }},
		{"etcd.peer-trusted-ca-file: must be a readable PEM file", func(c *Config) {
			c.PeerCertFile, c.PeerKeyFile, c.PeerTrustedCAFile = cert, key, key
		}},
		{"etcd.peer-cert-allowed-cn: must not be set together", func(c *Config) {
			c.PeerCertFile, c.PeerKeyFile, c.PeerTrustedCAFile = cert, key, ca
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
		{"etcd.quota-backend-bytes: must be 0 (2 GiB) or at least 4MiB, got 8: a number without a unit is bytes", func(c *Config) { c.QuotaBackendBytes = 8 }},
		{"etcd.max-request-bytes: must be at least 64KiB, got 10: a number without a unit is bytes", func(c *Config) { c.MaxRequestBytes = 10 }},
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
		{"etcd.feature-gates: LeaseCheckpointPersist must come with", func(c *Config) {
			c.FeatureGates = map[string]bool{"AllAlpha": true, "LeaseCheckpoint": false}
		}},
		{"", func(c *Config) { c.FeatureGates = map[string]bool{"AllAlpha": true, "LeaseCheckpointPersist": true} }},
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
