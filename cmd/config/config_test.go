package config

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// writeFile writes text to config.yaml in a fresh directory and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// parseFlags returns the flags of a command line.
func parseFlags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)
	must(t, fs.Parse(args))
	return fs
}

// load reads a configuration that must be right. The node's name is given, so
// that no test depends on the host's.
func load(t *testing.T, text string, environ []string, args ...string) *Loaded {
	t.Helper()
	l, err := Load(writeFile(t, text), parseFlags(t, append(args, "--node.name=n1")...), environ)
	if err != nil {
		t.Fatalf("Load:\n%v", err)
	}
	return l
}

// problems returns the lines of the error, without the directory of the file.
func problems(err error, file string) []string {
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(err.Error(), file, filepath.Base(file)), "\n")
}

func TestKeysHaveOneNameEverywhere(t *testing.T) {
	flags, help := parseFlags(t), helpTexts()
	seen := map[string]string{}
	for _, k := range Keys() {
		if k.Name != strings.ToLower(k.Name) || strings.ContainsAny(k.Name, "_ ") || strings.HasSuffix(k.Name, ".") {
			t.Errorf("%s is not kebab-case", k.Name)
		}
		if other, dup := seen[Variable(k.Name)]; dup {
			t.Errorf("%s and %s share the variable %s", k.Name, other, Variable(k.Name))
		}
		seen[Variable(k.Name)] = k.Name
		if flags.Lookup(k.Name) == nil {
			t.Errorf("%s has no flag", k.Name)
		}
		if help[k.Name] == "" {
			t.Errorf("%s has no comment in default.yaml", k.Name)
		}
	}
	if got, want := seen["HOLDFAST_GOSSIP_SEEDS_FILE"], "gossip.seeds-file"; got != want {
		t.Errorf("HOLDFAST_GOSSIP_SEEDS_FILE sets %q, want %q", got, want)
	}
	if got, want := seen["HOLDFAST_VOLUME_LOCAL_TAKEOVER_AFTER"], "volume.local.takeover-after"; got != want {
		t.Errorf("HOLDFAST_VOLUME_LOCAL_TAKEOVER_AFTER sets %q, want %q", got, want)
	}
}

// default.yaml must hold every key, with the default the code has.
func TestDefaultYAMLIsTheDefault(t *testing.T) {
	settings, errs := parse("default.yaml", []byte(DefaultYAML))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var names []string
	for _, s := range settings {
		names = append(names, s.Key)
	}
	defaults := Default()
	l := Loaded{Origin: map[string]string{}, shown: map[string]string{}}
	if errs := l.decode(merge(nil, settings), nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, k := range Keys() {
		if !slices.Contains(names, k.Name) {
			t.Errorf("%s is not in default.yaml", k.Name)
		}
		if got, want := k.Text(&l.Config), k.Text(&defaults); got != want {
			t.Errorf("%s is %q in default.yaml, want %q", k.Name, got, want)
		}
	}
	if !reflect.DeepEqual(l.Config, defaults) {
		t.Errorf("default.yaml loads to\n%+v, want\n%+v", l.Config, defaults)
	}
	for name, text := range helpTexts() {
		if got, want := strings.Contains(text, "(reload)"), slices.Contains(reloadableKeys, name); got != want {
			t.Errorf("%s: default.yaml says it can be reloaded: %v, want %v", name, got, want)
		}
	}
}

func TestPrecedenceAndOrigin(t *testing.T) {
	const text = "snapshot:\n  every: 1m\n  retry: 2s\nlog:\n  level: warn\n  format: json\ngossip: {seeds: [x]}\n"
	environ := []string{
		"HOLDFAST_SNAPSHOT_EVERY=2m", "HOLDFAST_LOG_LEVEL=error", "HOLDFAST_GOSSIP_SEEDS=", "PATH=/bin",
		"HOLDFAST_SERVICE_HOST=10.0.0.1", "HOLDFAST_PORT=tcp://10.0.0.1:2379", "HOLDFAST_PORT_2379_TCP_ADDR=10.0.0.1",
	}
	l := load(t, text, environ, "--snapshot.every=3m")
	for _, want := range []struct{ Key, text, origin string }{
		{"snapshot.every", "3m", "flag --snapshot.every"},
		{"log.level", "error", "env HOLDFAST_LOG_LEVEL"},
		{"log.format", "json", "file " + l.File + ":6"},
		{"snapshot.retry", "2s", "file " + l.File + ":3"},
		{"gossip.seeds", "x", "file " + l.File + ":7"}, // an empty variable is no variable
		{"stop.wait", "10s", "default"},
		{"gossip.listen", "127.0.0.1:7946", "derived from node.address"},
		{"etcd.listen-peer-urls", "http://127.0.0.1:2380", "derived from node.address"},
	} {
		if got := textOf(t, l, want.Key); got != want.text || l.Origin[want.Key] != want.origin {
			t.Errorf("%s: got %q (%s), want %q (%s)", want.Key, got, l.Origin[want.Key], want.text, want.origin)
		}
	}
	if len(l.Warnings) > 0 {
		t.Errorf("warnings: %q", l.Warnings)
	}
	for _, k := range Keys() {
		if l.Origin[k.Name] == "" {
			t.Errorf("%s has no origin", k.Name)
		}
	}
}

func textOf(t *testing.T, l *Loaded, name string) string {
	t.Helper()
	for _, k := range Keys() {
		if k.Name == name {
			return k.Text(&l.Config)
		}
	}
	t.Fatalf("no key %s", name)
	return ""
}

func TestConfigFileIsNamedByFlagThenEnvironment(t *testing.T) {
	byFlag, byEnv := writeFile(t, "log: {level: warn}"), writeFile(t, "log: {level: error}")
	environ := []string{"HOLDFAST_CONFIG=" + byEnv, "HOLDFAST_NODE_NAME=n1"}
	for _, tt := range []struct {
		file string
		args []string
		want string
	}{
		{"", nil, "error"},
		{"", []string{"-c", byFlag}, "warn"},
		{byEnv, []string{"--config", byFlag}, "error"},
	} {
		l, err := Load(tt.file, parseFlags(t, tt.args...), environ)
		must(t, err)
		if l.Config.Log.Level != tt.want {
			t.Errorf("Load(%q) with %q: got level %s, want %s", tt.file, tt.args, l.Config.Log.Level, tt.want)
		}
	}
	l, err := Load("", nil, []string{"HOLDFAST_NODE_NAME=n1"})
	if err != nil || l.File != "" || l.Config.Node.Name != "n1" {
		t.Errorf("Load without any file: got %+v, %v", l, err)
	}
}

// Every source must understand every kind of value, and replace the default.
func TestValuesOfEachKind(t *testing.T) {
	defaults := load(t, "cluster: {slots: [a, b, c]}", nil)
	if got, want := defaults.Config.Cluster.Slots, []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("slots: got %q, want %q", got, want)
	}
	file := load(t, `
cluster: {slots: "x, y ,z"}
etcd:
  feature-gates: {LeaseCheckpoint: true, StopGRPCServiceOnDefrag: False}
  max-txn-ops: 1_000
  client-cert-auth: False
  quota-backend-bytes: 8589934592
stop: {wait: 1h30m}
snapshot: {drill: 1w, keep: {all: 1d12h, daily: 2y}}
log: # all of it is commented out
gossip:
  listen: ~
`, nil, "--stop.wait=0s").Config
	flags := load(t, "cluster:\n  slots: &s\n  - a\n  - b\n", nil,
		"--cluster.slots=x", "--cluster.slots=y,z", "--etcd.client-cert-auth=false", "--etcd.max-txn-ops=1000",
		"--etcd.feature-gates=LeaseCheckpoint=true", "--etcd.feature-gates=StopGRPCServiceOnDefrag=false",
		"--etcd.quota-backend-bytes=8GiB", "--stop.wait=0", "--snapshot.drill=7d", "--snapshot.keep.all=36h", "--snapshot.keep.daily=730d").Config
	environ := load(t, "cluster: {slots: [a, b, c, d, e]}", []string{
		"HOLDFAST_CLUSTER_SLOTS=x,y,z", "HOLDFAST_ETCD_MAX_TXN_OPS=1000", "HOLDFAST_ETCD_QUOTA_BACKEND_BYTES=8589934592",
		"HOLDFAST_ETCD_FEATURE_GATES=LeaseCheckpoint=true,StopGRPCServiceOnDefrag=false", "HOLDFAST_STOP_WAIT=0s",
		"HOLDFAST_SNAPSHOT_DRILL=168h", "HOLDFAST_SNAPSHOT_KEEP_ALL=1d12h", "HOLDFAST_SNAPSHOT_KEEP_DAILY=17520h",
	}).Config
	if !reflect.DeepEqual(file, flags) {
		t.Errorf("file and flags differ:\n%+v\n%+v", file, flags)
	}
	if !reflect.DeepEqual(file, environ) {
		t.Errorf("file and environment differ:\n%+v\n%+v", file, environ)
	}
	if got, want := file.Etcd.FeatureGates, map[string]bool{"LeaseCheckpoint": true, "StopGRPCServiceOnDefrag": false}; !reflect.DeepEqual(got, want) {
		t.Errorf("feature-gates: got %v, want %v", got, want)
	}
	if got := file.Etcd.MaxTxnOps; got != 1000 {
		t.Errorf("max-txn-ops: got %d, want 1000", got)
	}
}

// What a list or map held before must be gone, also when it held more.
func TestListsAndMapsAreReplaced(t *testing.T) {
	l := Loaded{Config: Default(), Origin: map[string]string{}, shown: map[string]string{}}
	l.Config.Cluster.Slots = []string{"a", "b", "c"}
	l.Config.Etcd.FeatureGates = map[string]bool{"A": true}
	if errs := l.decode(merge(nil, []Setting{{Key: "cluster.slots", Text: "x"}, {Key: "etcd.feature-gates", Text: "B=true"}}), nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	if got, want := l.Config.Cluster.Slots, []string{"x"}; !slices.Equal(got, want) {
		t.Errorf("slots: got %q, want %q", got, want)
	}
	if got, want := l.Config.Etcd.FeatureGates, map[string]bool{"B": true}; !reflect.DeepEqual(got, want) {
		t.Errorf("feature-gates: got %v, want %v", got, want)
	}
}

func TestDerivedValues(t *testing.T) {
	l := load(t, "node: {address: 10.1.2.3, data-dir: /var/lib/holdfast}", nil)
	for key, want := range map[string]string{
		"gossip.listen":              "10.1.2.3:7946",
		"metrics.listen":             "10.1.2.3:2390",
		"volume.local.root":          "/var/lib/holdfast/volumes",
		"snapshot.store":             "/var/lib/holdfast/snapshots",
		"snapshot.scratch":           "/var/lib/holdfast/scratch",
		"control.socket":             "/var/lib/holdfast/holdfast.sock",
		"etcd.listen-client-urls":    "https://10.1.2.3:2379,https://127.0.0.1:2379",
		"etcd.advertise-client-urls": "https://10.1.2.3:2379",
		"etcd.listen-peer-urls":      "https://10.1.2.3:2380",
		"tls.mode":                   "auto",
		"tls.dir":                    "/var/lib/holdfast/tls",
	} {
		if got := textOf(t, l, key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
		if !strings.HasPrefix(l.Origin[key], "derived from node.") {
			t.Errorf("%s: got origin %q", key, l.Origin[key])
		}
	}
	l = load(t, "node: {address: '::1', data-dir: data}\nmetrics: {listen: off}", nil)
	if got, want := l.Config.Gossip.Listen, "[::1]:7946"; got != want {
		t.Errorf("gossip.listen: got %q, want %q", got, want)
	}
	if got := l.Config.Snapshot.Store; !filepath.IsAbs(got) {
		t.Errorf("snapshot.store: got the relative path %q", got)
	}
	if got := l.Config.Metrics.Listen; got != "off" {
		t.Errorf("metrics.listen: got %q, want off", got)
	}
	if got := l.Config.Snapshot.Spool; got != "" {
		t.Errorf("snapshot.spool beside a directory: got %q, want none", got)
	}
	l = load(t, "snapshot: {store: 's3://bucket/etcd'}\nnode: {data-dir: /d}", nil)
	if got, from := l.Config.Snapshot.Spool, l.Origin["snapshot.spool"]; got != "/d/spool" || from != "derived from node.data-dir" {
		t.Errorf("snapshot.spool beside a bucket: got %q (%s)", got, from)
	}
	env := []string{"AWS_ENDPOINT_URL=https://10.0.0.9", "AWS_ENDPOINT_URL_S3=https://10.0.0.8"}
	for text, want := range map[string]string{"{store: 's3://bucket'}": "https://10.0.0.8", "{store: 's3://bucket', s3: {endpoint: 'https://x'}}": "https://x", "{store: /d}": ""} {
		if l := load(t, "snapshot: "+text, env); l.Config.Snapshot.S3.Endpoint != want {
			t.Errorf("%s: got the endpoint %q (%s), want %q", text, l.Config.Snapshot.S3.Endpoint, l.Origin["snapshot.s3.endpoint"], want)
		}
	}
	l = load(t, "snapshot: {store: 'file:///mnt/backups'}\nnode: {data-dir: /d}", nil)
	if got, spool := l.Config.Snapshot.Store, l.Config.Snapshot.Spool; got != "/mnt/backups" || spool != "" {
		t.Errorf("snapshot.store: got %q, with the spool %q", got, spool)
	}
	host, err := Load("", nil, nil)
	if err != nil {
		t.Skipf("this host has no usable name: %v", err)
	}
	if host.Config.Node.Name == "" || host.Origin["node.name"] != "derived from the host name" {
		t.Errorf("node.name: got %q (%s)", host.Config.Node.Name, host.Origin["node.name"])
	}
}

// On a control plane node that kops made, or any other, the default ports of metrics and gossip are nobody else's.
func TestDefaultPortsAreFree(t *testing.T) {
	type ports struct{ first, last int }
	taken := map[string][]ports{
		"etcd of kops":     {{2379, 2383}, {3991, 4006}},
		"Kubernetes":       {{6443, 6443}, {8080, 8080}, {10248, 10260}, {30000, 32767}},
		"kops and kubelet": {{3988, 3990}, {4194, 4194}},
		"networks of pods": {{179, 179}, {4240, 4245}, {4789, 4789}, {5473, 5473}, {8472, 8472}, {9234, 9234}},
		"Prometheus":       {{9090, 9999}},
	}
	l := load(t, "node: {address: 10.1.2.3, data-dir: /d}", nil)
	for _, listen := range []string{l.Config.Metrics.Listen, l.Config.Gossip.Listen} {
		_, text, err := net.SplitHostPort(listen)
		port, _ := strconv.Atoi(text)
		if err != nil || port == 0 {
			t.Fatalf("%q has no port", listen)
		}
		for whose, all := range taken {
			for _, p := range all {
				if p.first <= port && port <= p.last {
					t.Errorf("%s: that port is taken by %s", listen, whose)
				}
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	for name, tt := range map[string]struct {
		text    string
		environ []string
		want    []string
	}{
		"even": {text: "cluster: {slots: [a, b]}", want: []string{
			"cluster.slots: 2 members survive the loss of 0, no more than 1 members do"}},
		"open": {text: "node: {address: 10.0.0.1}\ntls: {insecure: true}", want: []string{
			"gossip.key-file: not set, anyone who reaches 10.0.0.1:7946 can join the gossip",
			"tls.insecure: true, and so anyone who reaches node.address 10.0.0.1 can read and write everything"}},
		"backups": {text: "snapshot: {every: 0s, drill: 0s, s3: {region: r}, store: /b}", want: []string{
			"snapshot.every: 0s, no backup is made",
			"snapshot.drill: 0s, it is never tried whether a backup can be restored",
			"snapshot.s3: set, but snapshot.store is the directory /b"}},
		"a store in the clear": {text: "snapshot: {store: s3://bucket/etcd, s3: {endpoint: 'http://10.0.0.9:9000'}}", want: []string{
			"snapshot.s3.endpoint: http://10.0.0.9:9000 is not https, so anyone on the way to it reads every backup: take https, or set snapshot.recipients"}},
		"keys in the clear, as it was said": {text: "node: {address: 10.0.0.1}\ntls: {mode: auto, insecure: true}\nsnapshot: {store: s3://bucket/etcd, s3: {endpoint: 'http://10.0.0.9:9000'}}", want: []string{
			"snapshot.s3.endpoint: http://10.0.0.9:9000 is not https, so anyone on the way to it reads every backup: take https, or set snapshot.recipients"}},
		"a store with the name of a member": {text: "etcd: {peer-url: 'http://{slot}.example.com:2380'}\nsnapshot: {store: s3://bucket/etcd, s3: {endpoint: 'https://minio.example.com', path-style: true}}", want: []string{
			"etcd.peer-url: minio.example.com, of snapshot.s3.endpoint, has the form of a member's name, so a node does not ask DNS for it: " +
				"give it a line in /etc/hosts, or found the cluster with narrower names, such as etcd-{slot}.example.com"}},
		"a store in the cluster's domain": {text: "cluster: {name: prod, domain: example.com}\nsnapshot: {store: s3://bucket/etcd, s3: {endpoint: 'https://s3.prod.example.com'}}", want: []string{
			"cluster.domain: bucket.s3.prod.example.com, of snapshot.s3.endpoint, lies in prod.example.com, whose names a node answers itself, so it does not ask DNS for it: found the cluster with another domain"}},
		"a bucket below it":       {text: "etcd: {peer-url: 'http://{slot}.example.com:2380'}\nsnapshot: {store: s3://bucket/etcd, s3: {endpoint: 'https://minio.example.com'}}"},
		"a store beside members":  {text: "etcd: {peer-url: 'http://etcd-{slot}.example.com:2380'}\nsnapshot: {store: s3://bucket/etcd, s3: {endpoint: 'https://minio.example.com', path-style: true}}"},
		"a store on this machine": {text: "snapshot: {store: s3://bucket/etcd, s3: {endpoint: 'http://127.0.0.1:9000'}}"},
		"cron":                    {text: "snapshot: {every: 0s, cron: '0 * * * *'}"},
		"keys": {text: "snapshot: {recipients: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]}", want: []string{
			"snapshot.identity-file: not set, so this node makes no drills, and cannot restore or, once saved, fully verify its encrypted backups: drill them where the key is"}},
		"restore": {text: "restore: {revision-bump: 0, reclaim-after: 1m}", want: []string{
			"restore.revision-bump: 0, after a restore the watchers of Kubernetes do not notice that time went back",
			"restore.reclaim-after: 1m, what a restore has set aside is deleted almost at once"}},
		"upkeep": {text: "upkeep: {defrag-free-bytes: 1000}", want: []string{
			"upkeep.defrag-free-bytes: 1000, members are kept from their clients for next to nothing"}},
		"variable": {environ: []string{"HOLDFAST_VERSION=1.0"}, want: []string{
			"HOLDFAST_VERSION: unknown variable, ignored"}},
	} {
		if got := load(t, tt.text, tt.environ).Warnings; !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestDurationText(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "15m": 15 * time.Minute, "10s": 10 * time.Second, "1h": time.Hour, "1h30m": 90 * time.Minute,
		"1m30s": 90 * time.Second, "20m": 20 * time.Minute, "10h": 10 * time.Hour, "500ms": 500 * time.Millisecond,
		"1h10s": time.Hour + 10*time.Second, "1d": 24 * time.Hour, "1w": 7 * 24 * time.Hour, "90d": 90 * 24 * time.Hour, "1y": 365 * 24 * time.Hour,
		"1.5µs": 1500, "-1s": -time.Second,
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("durationText(%v): got %s, want %s", d, got, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
