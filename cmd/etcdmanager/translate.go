package etcdmanager

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"holdfast/cmd/config"
)

// Machine is what the translation needs to know of this machine.
type Machine struct {
	Address string   // where other machines reach this one
	Disks   []string // names of the directories below disksDir, with the provider external
	Seeds   []string // addresses in seedsDir, with the provider external
	Volume  bool     // --data-dir itself is a volume: it has etcd-manager's data, or holdfast's identity.json
}

// Meaning is the result of a translation.
type Meaning struct {
	Settings    []config.Setting
	Warnings    []string          // about flags and variables without effect; each begins with its name
	Environment map[string]string // variables to set for libraries: the credentials of S3
}

// hostRoot is where / of the machine is mounted in kops' container.
const hostRoot = "/rootfs"

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// translation is the state of a [Translate].
type translation struct {
	Options
	Machine
	environ map[string]string
	Meaning
	errs []error
}

// Translate translates the options and an environment, in the form of os.Environ, on a machine. The error is a
// [config.Invalid] with everything that is wrong.
func Translate(o Options, environ []string, m Machine) (Meaning, error) {
	t := &translation{Options: o, Machine: m, environ: map[string]string{}}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		t.environ[name] = value
	}
	t.cluster()
	t.volumes()
	t.urls()
	t.security()
	t.backups()
	t.idle()
	t.variables()
	if len(t.errs) > 0 {
		return Meaning{}, config.Invalid(t.errs)
	}
	return t.Meaning, nil
}

// set sets a key. The origin is a flag or a variable.
func (t *translation) set(key, text, origin string) {
	t.Settings = append(t.Settings, config.Setting{Key: key, Text: text, Origin: origin})
}

// flag sets a key, with a flag as its origin.
func (t *translation) flag(key, text, flag string) { t.set(key, text, "flag --"+flag) }

// wrong adds an error about a flag or a variable.
func (t *translation) wrong(name, format string, args ...any) {
	t.errs = append(t.errs, config.Wrong{Key: name, Problem: fmt.Sprintf(format, args...)})
}

func (t *translation) warn(format string, args ...any) {
	t.Warnings = append(t.Warnings, fmt.Sprintf(format, args...))
}

func (t *translation) isGiven(flag string) bool { return t.given[flag] != "" }

// decided reports whether a HOLDFAST_… variable sets a key.
func (t *translation) decided(key string) bool { return t.environ[config.Variable(key)] != "" }

// address returns the address where other nodes reach this one.
func (t *translation) address() string {
	if t.VolumeProvider != "" {
		return t.Machine.Address
	}
	return cmp.Or(t.Options.Address, "127.0.0.1")
}

// host returns the path at which this process sees a directory of the machine.
func (o Options) host(dir string) string {
	if o.containerized && dir != hostRoot && !strings.HasPrefix(dir, hostRoot+"/") {
		return path.Join(hostRoot, dir)
	}
	return dir
}

// member returns the pattern of the members' names.
func (t *translation) member() string {
	if t.VolumeProvider == "external" && len(t.volumeTags) == 1 {
		return t.volumeTags[0] + config.SlotMark // the directory's name
	}
	return t.clusterName + "-" + config.SlotMark
}

func (t *translation) cluster() {
	if t.clusterName == "" {
		t.wrong("--cluster-name", "must be set, as to etcd or etcd-events")
	}
	t.flag("cluster.name", t.clusterName, "cluster-name")
	t.flag("cluster.member-name", t.member(), "cluster-name")
	t.set("cluster.adopt", "true", "these are etcd-manager's flags")
	if domain := strings.Trim(t.dnsSuffix, "."); domain != "" {
		t.flag("cluster.domain", domain, "dns-suffix")
	}
	// A directory of the machine, so that it survives the container, and for this cluster alone.
	t.flag("node.data-dir", t.host("/var/lib/holdfast/"+t.clusterName), "cluster-name")
	switch {
	case t.VolumeProvider != "":
		if t.isGiven("address") {
			t.warn("--address: has no effect with --volume-provider=%s: the machine's own address is taken", t.VolumeProvider)
		}
		t.flag("node.address", "auto", "volume-provider")
	case t.Options.Address != "":
		t.flag("node.address", t.Options.Address, "address")
	}
	// kops sets -v=6 everywhere, and means only normal messages by it.
	level := "info"
	if t.verbosity > 6 {
		level = "debug"
	}
	t.flag("log.level", level, "v")
}

// urls translates where the node listens, and its peer URL.
func (t *translation) urls() {
	listen := func(port string) string { return net.JoinHostPort(t.etcdAddress, port) }
	clients := t.parse("client-urls", t.ClientURLs)
	t.flag("etcd.listen-client-urls", strings.Join(at(clients, listen), ","), "client-urls")
	if told := fixed(clients); len(told) > 0 { // otherwise the default is the node's address with this port
		t.flag("etcd.advertise-client-urls", strings.Join(told, ","), "client-urls")
	}
	peers := t.parse("peer-urls", t.PeerURLs)
	if len(peers) > 1 {
		t.wrong("--peer-urls", "must be one URL, got %q", t.PeerURLs)
	} else if len(peers) == 1 {
		t.flag("etcd.listen-peer-urls", strings.Join(at(peers, listen), ","), "peer-urls")
		t.peerURL(peers[0])
	}
	if t.grpcPort < 1 || t.grpcPort > 65535 {
		t.wrong("--grpc-port", "must be 1–65535, got %d", t.grpcPort)
	}
	t.flag("gossip.listen", listen(strconv.Itoa(t.grpcPort)), "grpc-port")
	t.metrics(listen)
}

// The placeholders for the host in URLs.
const (
	markAddress = "__address__"
	markName    = "__name__"
)

// parse parses a list of URLs, whose host may be a placeholder.
func (t *translation) parse(flag, text string) (all []*url.URL) {
	for item := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(item))
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" {
			t.wrong("--"+flag, "must be https://HOST:PORT, with %s or %s as the host, got %q", markName, markAddress, item)
			continue
		}
		if t.etcdInsecure {
			u.Scheme = "http"
		}
		all = append(all, u)
	}
	return all
}

// at returns the URLs with the address to listen on as their host.
func at(urls []*url.URL, listen func(port string) string) (all []string) {
	for _, u := range urls {
		if text := u.Scheme + "://" + listen(u.Port()); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// fixed returns the URLs whose host is no placeholder.
func fixed(urls []*url.URL) (all []string) {
	for _, u := range urls {
		if u.Hostname() != markAddress && u.Hostname() != markName {
			all = append(all, u.Scheme+"://"+u.Host)
		}
	}
	return all
}

func (t *translation) peerURL(u *url.URL) {
	switch {
	case u.Hostname() == markName && t.dnsSuffix == "":
		t.wrong("--dns-suffix", "must be set where --peer-urls has %s, as to .internal.k8s.example.com", markName)
	case u.Hostname() == markName:
		name := t.member() + "." + strings.Trim(t.dnsSuffix, ".")
		t.flag("etcd.peer-url", u.Scheme+"://"+name+":"+u.Port(), "peer-urls")
	case u.Hostname() != markAddress:
		t.wrong("--peer-urls", "must have %s as its host, got %q: each member has a name of its own", markName, t.PeerURLs)
	case t.isGiven("peer-urls"):
		t.warn("--peer-urls: %s: a new cluster's members get names instead of addresses, which never change", markAddress)
	}
}

// metrics translates the address of the metrics. holdfast serves etcd's metrics and its own at one address.
func (t *translation) metrics(listen func(port string) string) {
	text, flag := t.metricsURLs, "flag --listen-metrics-urls"
	if v := t.environ[metricsVariable]; v != "" {
		text, flag = v, "env "+metricsVariable
	}
	name := strings.TrimPrefix(strings.TrimPrefix(flag, "flag "), "env ")
	port := strconv.Itoa(t.metricsPort)
	switch {
	case text == "" && t.metricsPort == 0:
		t.set("metrics.listen", "off", "no flag asks for metrics")
	case text == "":
		t.flag("metrics.listen", listen(port), "etcd-manager-metrics-port")
	default:
		u, err := url.Parse(text)
		host := ""
		if err == nil {
			host = strings.NewReplacer(markAddress, t.address(), markName, t.address()).Replace(u.Hostname())
		}
		switch {
		case err != nil || u.Scheme != "http" || u.Port() == "" || strings.Contains(text, ","):
			t.wrong(name, "must be one URL http://HOST:PORT, got %q: holdfast serves etcd's metrics with its own, at one "+
				"address, without TLS", text)
			return
		case t.metricsPort != 0 && port != u.Port():
			t.wrong("--etcd-manager-metrics-port", "must be 0, or the port of %s (%s), got %s: there is one address for both",
				name, u.Port(), port)
			return
		}
		t.set("metrics.listen", net.JoinHostPort(host, u.Port()), flag)
	}
}

func (t *translation) security() {
	switch {
	case !t.etcdInsecure:
		if t.pkiDir == "" {
			t.wrong("--pki-dir", "must be set, or --etcd-insecure")
		}
		t.flag("tls.mode", "ca", "pki-dir")
		t.flag("tls.ca-dir", t.pkiDir, "pki-dir")
		if t.Insecure {
			t.warn("--insecure: has no effect where etcd has TLS: the nodes' gossip has it as well")
		}
	case !t.Insecure && !t.decided("gossip.key-file"):
		t.wrong("--etcd-insecure", "must come with --insecure, or HOLDFAST_GOSSIP_KEY_FILE must name a key that all nodes "+
			"have (`holdfast gossip keygen`): without authorities nothing else says who may join the gossip")
		fallthrough
	default:
		t.flag("tls.mode", "off", "etcd-insecure")
		t.flag("tls.insecure", "true", "etcd-insecure")
	}
}

func (t *translation) backups() {
	t.flag("snapshot.every", t.backupInterval, "backup-interval")
	// etcd-manager can read such backups, and etcd-manager-ctl can ask for restores.
	t.flag("snapshot.format", "etcd-manager", "backup-store")
	t.flag("restore.foreign-commands", "true", "backup-store")
	scheme, rest, isURL := strings.Cut(t.backupStore, "://")
	switch {
	case t.backupStore == "":
		t.wrong("--backup-store", "must be set, as to s3://bucket/cluster/backups/etcd/main")
	case scheme == "s3":
		t.flag("snapshot.store", t.backupStore, "backup-store")
	case isURL && scheme != "file":
		t.wrong("--backup-store", "must be s3://bucket/prefix or file:///path, got %q: holdfast knows no other stores; "+
			"most have an S3 interface, which S3_ENDPOINT names", t.backupStore)
	default:
		if !isURL {
			rest = t.backupStore
		}
		if !path.IsAbs(rest) {
			t.wrong("--backup-store", "must be an absolute path, got %q", t.backupStore)
		}
		// A directory of the machine: one in the container would be gone with it.
		t.flag("snapshot.store", t.host(rest), "backup-store")
	}
}

// idle warns of the flags without effect.
func (t *translation) idle() {
	for _, f := range []struct{ name, why string }{
		{"quarantine-client-urls", "a restored cluster serves nobody until it is whole, so it needs no other URL"},
		{"discovery-poll-interval", "members are found by gossip; its seeds are asked for when they are needed"},
	} {
		if t.isGiven(f.name) {
			t.warn("--%s: has no effect here: %s", f.name, f.why)
		}
	}
	for _, name := range slices.Concat(klogSwitches, klogValues) {
		if _, given := t.given[name]; given {
			t.warn("--%s: has no effect here: holdfast logs to standard error (log.level, log.format)", name)
		}
	}
}
