package etcdmanager

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/cmd/config"
)

// kops are the flags that kops gives on AWS, without the backups'.
var kops = []string{"--cluster-name=etcd", "--containerized=true", "--dns-suffix=.internal.k8s.example.com", "--grpc-port=3996",
	"--peer-urls=https://__name__:2380", "--client-urls=https://__name__:4001", "--quarantine-client-urls=https://__name__:3994",
	"--volume-provider=aws", "--volume-tag=kubernetes.io/cluster/k8s.example.com=owned", "--volume-tag=k8s.io/etcd/main",
	"--volume-tag=k8s.io/role/control-plane=1", "--volume-name-tag=k8s.io/etcd/main", "--v=6",
	"--backup-store=s3://bucket/k8s/backups/etcd/main"}

// metal are those on machines without a cloud.
var metal = []string{"--cluster-name=etcd", "--containerized=true", "--dns-suffix=.internal.m.example.com", "--grpc-port=3996",
	"--peer-urls=https://__name__:2380", "--client-urls=https://__name__:4001", "--volume-provider=external",
	"--volume-tag=m.example.com--main--", "--backup-store=file:///mnt/disks/backups",
	`--static-config={"etcdVersion":"3.6.11","nodes":[{"id":"m.example.com--main--0","ip":["node0.main.m.example.com"]}]}`}

// addressed is a configuration that has the members' addresses, but for one of their host names.
const addressed = `--static-config={"nodes":[{"id":"m.example.com--main--0","ip":["10.0.0.5"]},{"id":"m.example.com--main--1","ip":["10.0.0.6","fd00::6","node1"]}]}`

// bare are the least that works.
var bare = []string{"--cluster-name=etcd", "--data-dir=/d", "--backup-store=/b"}

// seeded are those on such machines with the seeds directory.
var seeded = metal[:len(metal)-1]

var machine = Machine{Address: "10.0.0.5", Disks: []string{"m.example.com--main--0"}, Seeds: []string{"10.0.0.6", "fd00::6"}}

// translate returns what flags and variables mean, by key.
func translate(t *testing.T, flags, environ []string, m Machine) (map[string]config.Setting, Meaning, error) {
	t.Helper()
	o, err := Parse(flags)
	if err != nil {
		t.Fatalf("%q: %v", flags, err)
	}
	meaning, err := Translate(o, environ, m)
	keys := map[string]config.Setting{}
	for _, s := range meaning.Settings {
		keys[s.Key] = s
	}
	return keys, meaning, err
}

func with(flags []string, more ...string) []string { return append(slices.Clone(flags), more...) }

// Each flag and variable means these values of these keys; "" is no value.
func TestTranslate(t *testing.T) {
	for name, c := range map[string]struct {
		flags, environ []string
		want           map[string]string
	}{
		"kops on AWS": {kops, nil, map[string]string{
			"cluster.name": "etcd", "cluster.member-name": "etcd-{slot}", "cluster.domain": "internal.k8s.example.com",
			"cluster.slots": "", "node.address": "auto", "node.data-dir": "/rootfs/var/lib/holdfast/etcd",
			"gossip.listen": "0.0.0.0:3996", "volume.provider": "ebs", "volume.ebs.slot-tag": "k8s.io/etcd/main",
			"volume.ebs.tags":  "kubernetes.io/cluster/k8s.example.com=owned,k8s.io/etcd/main,k8s.io/role/control-plane=1",
			"volume.ebs.state": "/rootfs/var/lib/holdfast/ebs", "volume.ebs.device-root": "/rootfs",
			"etcd.listen-client-urls": "https://0.0.0.0:4001", "etcd.advertise-client-urls": "",
			"etcd.listen-peer-urls": "https://0.0.0.0:2380",
			"etcd.peer-url":         "https://etcd-{slot}.internal.k8s.example.com:2380",
			"tls.mode":              "ca", "tls.ca-dir": "/etc/kubernetes/pki/etcd-manager", "tls.insecure": "",
			"metrics.listen": "off", "log.level": "info",
			"snapshot.store": "s3://bucket/k8s/backups/etcd/main", "snapshot.every": "15m", "snapshot.format": "etcd-manager",
			"snapshot.keep.hourly": "7d", "snapshot.keep.daily": "2y", "restore.foreign-commands": "true"}},
		"on the host": {with(kops, "--containerized=false"), nil, map[string]string{"node.data-dir": "/var/lib/holdfast/etcd", "volume.ebs.device-root": "/", "volume.ebs.state": "/var/lib/holdfast/ebs"}},
		"backups":     {with(kops, "--backup-interval=1h"), []string{"ETCD_MANAGER_DAILY_BACKUPS_RETENTION=90d", "ETCD_MANAGER_HOURLY_BACKUPS_RETENTION=1d"}, map[string]string{"snapshot.every": "1h", "snapshot.keep.daily": "90d", "snapshot.keep.hourly": "1d"}},
		// What etcd-manager does not reach: kops' backupRetentionDays: 5, and fewer hours than it keeps all for.
		"fewer days":        {kops, []string{"ETCD_MANAGER_DAILY_BACKUPS_RETENTION=5d"}, map[string]string{"snapshot.keep.daily": "0s", "snapshot.keep.hourly": "7d"}},
		"fewer hours":       {kops, []string{"ETCD_MANAGER_HOURLY_BACKUPS_RETENTION=30m", "ETCD_MANAGER_DAILY_BACKUPS_RETENTION=5d"}, map[string]string{"snapshot.keep.daily": "5d", "snapshot.keep.hourly": "0s"}},
		"certificates":      {with(kops, "--pki-dir=/pki"), []string{"ETCD_MANAGER_CERT_DURATION=1y"}, map[string]string{"tls.ca-dir": "/pki", "tls.leaf-life": "1y"}},
		"a shared name":     {with(kops, "--client-urls=https://main.etcd.internal.k8s.example.com:4001"), nil, map[string]string{"etcd.listen-client-urls": "https://0.0.0.0:4001", "etcd.advertise-client-urls": "https://main.etcd.internal.k8s.example.com:4001"}},
		"two client URLs":   {with(kops, "--client-urls=https://__address__:4001,https://__name__:4001,https://__name__:4002"), nil, map[string]string{"etcd.listen-client-urls": "https://0.0.0.0:4001,https://0.0.0.0:4002"}},
		"another address":   {with(kops, "--etcd-address=::"), nil, map[string]string{"etcd.listen-client-urls": "https://[::]:4001", "gossip.listen": "[::]:3996"}},
		"without TLS":       {with(kops, "--etcd-insecure", "--insecure"), nil, map[string]string{"tls.mode": "off", "tls.insecure": "true", "tls.ca-dir": "", "etcd.listen-client-urls": "http://0.0.0.0:4001", "etcd.peer-url": "http://etcd-{slot}.internal.k8s.example.com:2380"}},
		"etcd without TLS":  {with(kops, "--etcd-insecure"), []string{"HOLDFAST_GOSSIP_KEY_FILE=/k"}, map[string]string{"tls.mode": "off"}},
		"metrics":           {with(kops, "--listen-metrics-urls=http://__address__:2382"), nil, map[string]string{"metrics.listen": "10.0.0.5:2382"}},
		"metrics of etcd's": {with(kops, "--listen-metrics-urls=http://1.2.3.4:1"), []string{"ETCD_LISTEN_METRICS_URLS=http://0.0.0.0:8081"}, map[string]string{"metrics.listen": "0.0.0.0:8081", "etcd.listen-metrics-urls": ""}},
		"metrics, ours":     {with(kops, "--etcd-manager-metrics-port=9000"), nil, map[string]string{"metrics.listen": "0.0.0.0:9000"}},
		"more detail":       {with(kops, "-v", "8", "-logtostderr"), nil, map[string]string{"log.level": "debug"}},
		"etcd's settings": {kops, []string{"ETCD_QUOTA_BACKEND_BYTES=8589934592", "ETCD_HEARTBEAT_INTERVAL=250", "ETCD_LISTEN_CLIENT_HTTP_URLS=https://0.0.0.0:8082", "ETCD_LISTEN_PEER_URLS=https://1.2.3.4:2380", "ETCD_SERVICE_HOST=10.0.0.1", "ETCD_PORT=tcp://10.0.0.1:1"},
			map[string]string{"etcd.quota-backend-bytes": "8589934592", "etcd.heartbeat-interval": "250", "etcd.listen-client-http-urls": "https://0.0.0.0:8082", "etcd.listen-peer-urls": "https://1.2.3.4:2380"}},
		"kops on metal": {metal, nil, map[string]string{
			"volume.provider": "local", "volume.local.root": "", "volume.local.directory": "/rootfs/mnt/disks/m.example.com--main--0/mnt", "volume.local.slot": "0", "cluster.adopt": "true",
			"cluster.slots": "0", "gossip.seeds": "node0.main.m.example.com:3996", "cluster.member-name": "m.example.com--main--{slot}",
			"etcd.peer-url": "https://m.example.com--main--{slot}.internal.m.example.com:2380", "snapshot.store": "/rootfs/mnt/disks/backups", "cluster.adopt-addresses": ""}},
		"metal with seeds":     {seeded, []string{"HOLDFAST_CLUSTER_SLOTS=0,1"}, map[string]string{"gossip.seeds": "10.0.0.6:3996,[fd00::6]:3996", "volume.local.slot": "0"}},
		"metal with addresses": {with(metal, addressed), nil, map[string]string{"cluster.adopt-addresses": "0=10.0.0.5,1=10.0.0.6,1=fd00::6"}},
		"metal, not adopting":  {with(metal, addressed), []string{"HOLDFAST_CLUSTER_ADOPT=false"}, map[string]string{"cluster.adopt-addresses": ""}},
		"bare": {bare, nil, map[string]string{"volume.provider": "", "volume.local.root": "/d", "snapshot.store": "/b", "node.address": "",
			"etcd.peer-url": "", "etcd.listen-peer-urls": "https://0.0.0.0:2380", "etcd.listen-client-urls": "https://0.0.0.0:4001", "gossip.listen": "0.0.0.0:8000"}},
		"bare, elsewhere": {with(bare, "--address=10.0.0.7", "--listen-metrics-urls=http://__name__:9"), nil, map[string]string{"node.address": "10.0.0.7", "metrics.listen": "10.0.0.7:9"}},
		"S3 of others": {with(bare, "--backup-store=s3://bucket/p"), []string{"S3_ENDPOINT=s3.example.com", "S3_REGION=r", "S3_ACCESS_KEY_ID=i", "S3_SECRET_ACCESS_KEY=s"},
			map[string]string{"snapshot.s3.endpoint": "https://s3.example.com", "snapshot.s3.region": "r", "snapshot.s3.path-style": "true"}},
	} {
		got, meaning, err := translate(t, c.flags, c.environ, machine)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for key, want := range c.want {
			if got[key].Text != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key].Text, want)
			}
		}
		if name == "S3 of others" && (meaning.Environment["AWS_ACCESS_KEY_ID"] != "i" || meaning.Environment["AWS_SECRET_ACCESS_KEY"] != "s") {
			t.Errorf("credentials: %q", meaning.Environment)
		}
		for _, s := range meaning.Settings {
			if s.Origin == "" {
				t.Errorf("%s: %s has no origin", name, s.Key)
			}
		}
	}
}

// What cannot be kept is refused, with the flag or variable and what to do.
func TestRefusals(t *testing.T) {
	for want, c := range map[string]struct{ flags, environ []string }{
		"--cluster-name: must be set": {[]string{"--data-dir=/d", "--backup-store=/b"}, nil},
		"--backup-store: must be set": {[]string{"--data-dir=/d", "--cluster-name=etcd"}, nil},
		"--data-dir: must be set":     {[]string{"--cluster-name=etcd", "--backup-store=/b"}, nil},
		`--volume-provider: must be aws or external, got "gce": holdfast attaches no`: {with(kops, "--volume-provider=gce"), nil},
		`--volume-provider: must be aws or external, got "floppy"`:                    {with(kops, "--volume-provider=floppy"), nil},
		"--volume-name-tag: must begin with k8s.io/etcd/":                             {with(kops, "--volume-name-tag=Name"), nil},
		"--volume-name-tag: must be set":                                              {with(kops, "--volume-name-tag="), nil},
		"--volume-tag: must have no comma":                                            {with(kops, "--volume-tag=a=b,c"), nil},
		"--volume-tag: must be given once":                                            {with(metal, "--volume-tag=x"), nil},
		"--static-config: must be given with --volume-provider=external":              {with(metal, "--static-config="), nil},
		"--static-config: must be JSON":                                               {with(metal, "--static-config={"), nil},
		"--static-config: must name nodes whose id begins with":                       {with(metal, `--static-config={"nodes":[{"id":"x"}]}`), nil},
		"--static-config: must be given with --volume-provider=external only":         {with(bare, "--static-config={}"), nil},
		"--network-cidr: must not be set":                                             {with(kops, "--network-cidr=10.0.0.0/8"), nil},
		`--backup-store: must be s3://bucket/prefix or file:///path, got "gs://b/p"`:  {with(kops, "--backup-store=gs://b/p"), nil},
		`--backup-store: must be an absolute path, got "file://b/p"`:                  {with(kops, "--backup-store=file://b/p"), nil},
		"--dns-suffix: must be set where --peer-urls has __name__":                    {with(kops, "--dns-suffix="), nil},
		"--peer-urls: must have __name__ as its host":                                 {with(kops, "--peer-urls=https://etcd.example.com:2380"), nil},
		"--peer-urls: must be one URL":                                                {with(kops, "--peer-urls=https://__name__:2380,https://__name__:2381"), nil},
		"--client-urls: must be https://HOST:PORT":                                    {with(kops, "--client-urls=__name__:4001"), nil},
		"--grpc-port: must be 1–65535, got 0":                                         {with(kops, "--grpc-port=0"), nil},
		"--listen-metrics-urls: must be one URL":                                      {with(kops, "--listen-metrics-urls=https://0.0.0.0:1"), nil},
		"ETCD_LISTEN_METRICS_URLS: must be one URL":                                   {kops, []string{"ETCD_LISTEN_METRICS_URLS=http://0.0.0.0:1,http://0.0.0.0:2"}},
		"--etcd-manager-metrics-port: must be 0, or the port of":                      {with(kops, "--etcd-manager-metrics-port=1", "--listen-metrics-urls=http://0.0.0.0:2"), nil},
		"--pki-dir: must be set":                                                      {with(kops, "--pki-dir="), nil},
		"--etcd-insecure: must come with --insecure":                                  {with(kops, "--etcd-insecure"), nil},
		"ETCD_DATA_DIR: must not be set":                                              {kops, []string{"ETCD_DATA_DIR=/x"}},
		"ETCD_INITIAL_CLUSTER_TOKEN: must not be set":                                 {kops, []string{"ETCD_INITIAL_CLUSTER_TOKEN=x"}},
		"ETCD_CIPHER_SUITES: must not be set":                                         {kops, []string{"ETCD_CIPHER_SUITES=x"}},
		"S3_ACCESS_KEY_ID: must not be set with --volume-provider=aws":                {kops, []string{"S3_ENDPOINT=x", "S3_ACCESS_KEY_ID=x"}},
	} {
		_, _, err := translate(t, c.flags, c.environ, machine)
		if invalid, ok := errors.AsType[config.Invalid](err); !ok || len(invalid) != 1 || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want only %s", err, want)
		}
	}
	for _, disks := range [][]string{nil, {"m.example.com--main--0", "m.example.com--main--1"}} {
		if _, _, err := translate(t, metal, nil, Machine{Disks: disks}); err == nil || !strings.Contains(err.Error(), "a node holds one volume") {
			t.Errorf("directories %q: got %v", disks, err)
		}
	}
}

// What has no effect here is said once, with the reason.
func TestWarnings(t *testing.T) {
	flags := with(kops, "--discovery-poll-interval=5m", "--insecure", "--address=1.2.3.4", "--data-dir=/x", "-alsologtostderr", "-vmodule=x=1")
	environ := []string{"ETCD_ENABLE_V2=false", "ETCD_MANAGER_CERT_MIN_TIME_LEFT=1y", "ETCD_MANAGER_X=1", "KOPS_STATE_S3_ACL=x", "PATH=/bin"}
	_, meaning, err := translate(t, flags, environ, machine)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range meaning.Warnings {
		name, _, _ := strings.Cut(w, ":")
		got = append(got, name)
	}
	want := []string{"--address", "--alsologtostderr", "--data-dir", "--discovery-poll-interval", "--insecure", "--quarantine-client-urls",
		"--vmodule", "ETCD_ENABLE_V2", "ETCD_MANAGER_CERT_MIN_TIME_LEFT", "ETCD_MANAGER_X", "KOPS_STATE_S3_ACL"}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, meaning, err = translate(t, bare, nil, machine); err != nil || len(meaning.Warnings) > 0 {
		t.Errorf("nothing that has no effect: %q, %v", meaning.Warnings, err)
	}
	if _, meaning, err = translate(t, with(bare, "--peer-urls=https://__address__:2380"), nil, machine); err != nil || len(meaning.Warnings) != 1 {
		t.Errorf("addresses as peer URLs: %q, %v", meaning.Warnings, err)
	}
}

// The settings are a configuration, and the environment's own names go before them.
func TestLoads(t *testing.T) {
	pki := t.TempDir()
	for _, name := range []string{"etcd-clients-ca.crt", "etcd-clients-ca.key", "etcd-peers-ca.crt", "etcd-peers-ca.key"} {
		if err := os.WriteFile(filepath.Join(pki, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := []string{"HOLDFAST_NODE_NAME=n1", "HOLDFAST_NODE_ADDRESS=10.0.0.5"}
	for name, flags := range map[string][]string{"kops on AWS": kops, "kops on metal": metal, "metal with addresses": with(metal, addressed), "bare": bare} {
		_, meaning, err := translate(t, with(flags, "--pki-dir="+pki), nil, machine)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		l, err := config.LoadSettings(meaning.Settings, append(base, "HOLDFAST_LOG_LEVEL=debug"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if l.Config.Log.Level != "debug" || l.Config.Cluster.Name != "etcd" || l.Origin["cluster.name"] != "flag --cluster-name" {
			t.Errorf("%s: log.level %s, cluster.name %s (%s)", name, l.Config.Log.Level, l.Config.Cluster.Name, l.Origin["cluster.name"])
		}
		_, err = config.LoadSettings(meaning.Settings, append(base, "HOLDFAST_CONFIG=/x.yaml"))
		if err == nil || !strings.HasPrefix(err.Error(), "HOLDFAST_CONFIG: must not be set") {
			t.Errorf("%s with a file: got %v", name, err)
		}
	}
}

// A wrong value is told with the flag that it comes from.
func TestWrongValues(t *testing.T) {
	_, meaning, err := translate(t, with(bare, "--backup-interval=soon", "--cluster-name=Etcd", "--etcd-insecure", "--insecure"), nil, machine)
	if err != nil {
		t.Fatal(err)
	}
	_, err = config.LoadSettings(meaning.Settings, []string{"HOLDFAST_NODE_NAME=n1"})
	for _, want := range []string{`snapshot.every: must be a duration such as 15m, 1h30m or 7d, got "soon" (flag --backup-interval)`,
		`cluster.name: must be 1–40 of a-z, 0-9 and inner -, got "Etcd" (flag --cluster-name)`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"--no-such-flag"}, {"words"}, {"--grpc-port=x"}, {"-v"}} {
		if _, err := Parse(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	if _, err := Parse([]string{"--help"}); !errors.Is(err, ErrHelp) {
		t.Errorf("--help: got %v", err)
	}
	for _, want := range []string{"-cluster-name", "-print-config", "-stderrthreshold"} {
		if !strings.Contains(Usage(), want) {
			t.Errorf("the usage lacks %s", want)
		}
	}
}

func TestReadEnvFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# a comment\n\n A_B = c=d\nX=\n")
	if got, err := readEnvFile(path); err != nil || !slices.Equal(got, []string{"A_B= c=d", "X="}) {
		t.Errorf("got %q, %v", got, err)
	}
	write("A=1\nB\n1C=2\n")
	if _, err := readEnvFile(path); err == nil || !strings.Contains(err.Error(), path+":2") || !strings.Contains(err.Error(), path+":3") {
		t.Errorf("got %v", err)
	}
	if _, err := readEnvFile(path + "x"); err == nil || !strings.HasPrefix(err.Error(), "--env-file: ") {
		t.Errorf("got %v", err)
	}
}

// What lies on the disk decides whether it is the volume itself.
func TestWhereTheVolumeIs(t *testing.T) {
	const mnt = "/rootfs/mnt/disks/m.example.com--main--0/mnt"
	for name, c := range map[string]struct {
		flags, environ []string
		machine        Machine
		want           map[string]string
	}{
		"etcd-manager's disk":      {metal, nil, Machine{}, map[string]string{"volume.local.directory": mnt, "volume.local.root": "", "volume.local.slot": "0"}},
		"the operator's own":       {metal, []string{"HOLDFAST_VOLUME_LOCAL_ROOT=/v"}, Machine{}, map[string]string{"volume.local.directory": ""}},
		"a new directory":          {bare, nil, Machine{}, map[string]string{"volume.local.root": "/d", "volume.local.directory": "", "volume.local.slot": ""}},
		"etcd-manager's directory": {bare, nil, Machine{Volume: true}, map[string]string{"volume.local.root": "", "volume.local.directory": "/d", "volume.local.slot": "a"}},
		"with slots":               {bare, []string{"HOLDFAST_CLUSTER_SLOTS=x,y,z"}, Machine{Volume: true}, map[string]string{"volume.local.directory": "/d", "volume.local.slot": ""}},
		"with a root":              {bare, []string{"HOLDFAST_VOLUME_LOCAL_ROOT=/v"}, Machine{Volume: true}, map[string]string{"volume.local.directory": ""}},
	} {
		c.machine.Disks = machine.Disks
		got, _, err := translate(t, c.flags, c.environ, c.machine)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for key, want := range c.want {
			if got[key].Text != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key].Text, want)
			}
		}
	}
}
