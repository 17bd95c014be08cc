package etcdmanager

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// Options are etcd-manager's flags, and two of holdfast's own.
type Options struct {
	clusterName, backupStore, backupInterval, discoveryPoll string
	DataDir, pkiDir, staticConfig, EnvFile                  string
	Address, etcdAddress                                    string
	ClientURLs, PeerURLs, quarantineURLs, metricsURLs       string
	dnsSuffix, networkCIDR                                  string
	grpcPort, metricsPort, verbosity                        int
	Insecure, etcdInsecure, containerized                   bool
	VolumeProvider, volumeNameTag                           string
	volumeTags                                              []string

	// PrintConfig prints the configuration instead of running the node, and Plan prints the plan of a takeover.
	PrintConfig, Plan bool

	given map[string]string // the text of each flag that was given
}

// flags returns the flags that set o, with etcd-manager's defaults.
func (o *Options) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("etcd-manager", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.clusterName, "cluster-name", "", "`name` of the etcd cluster, such as etcd-events (cluster.name)")
	fs.StringVar(&o.backupStore, "backup-store", "", "`URL` of backups: s3://bucket/prefix, file:///path (snapshot.store)")
	fs.StringVar(&o.backupInterval, "backup-interval", "15m", "`time` from one backup to the next (snapshot.every)")
	fs.StringVar(&o.discoveryPoll, "discovery-poll-interval", "60s", "has no effect: members are found by gossip")
	fs.StringVar(&o.DataDir, "data-dir", "", "`directory` of the data without a volume provider (volume.local.root; "+
		"volume.local.directory where it has etcd-manager's data)")
	fs.StringVar(&o.pkiDir, "pki-dir", "/etc/kubernetes/pki/etcd-manager", "`directory` of the authorities (tls.ca-dir)")
	fs.StringVar(&o.staticConfig, "static-config", "", "`JSON` of the cluster's nodes, with the provider external")
	fs.StringVar(&o.EnvFile, "env-file", "", "`file` of KEY=VALUE lines to add to the environment")
	fs.StringVar(&o.Address, "address", "", "`address` of this machine without a volume provider (node.address)")
	fs.StringVar(&o.etcdAddress, "etcd-address", "0.0.0.0", "`address` to listen on")
	fs.StringVar(&o.ClientURLs, "client-urls", "https://__address__:4001", "`URLs` for clients")
	fs.StringVar(&o.PeerURLs, "peer-urls", defaultPeerURLs, "`URL` for members (etcd.peer-url)")
	fs.StringVar(&o.quarantineURLs, "quarantine-client-urls", "", "has no effect: a restore serves no clients at any URL")
	fs.StringVar(&o.metricsURLs, "listen-metrics-urls", "", "`URL` of metrics (metrics.listen)")
	fs.StringVar(&o.dnsSuffix, "dns-suffix", "", "domain that follows a member's name in its host name (etcd.peer-url)")
	fs.StringVar(&o.networkCIDR, "network-cidr", "", "refused: for OpenStack only")
	fs.IntVar(&o.grpcPort, "grpc-port", 8000, "`port` on which nodes talk to each other (gossip.listen)")
	fs.IntVar(&o.metricsPort, "etcd-manager-metrics-port", 0, "`port` of metrics, 0: none (metrics.listen)")
	fs.BoolVar(&o.Insecure, "insecure", false, "nodes may talk without TLS; the gossip has TLS where etcd has it")
	fs.BoolVar(&o.etcdInsecure, "etcd-insecure", false, "etcd has no TLS (tls.mode, tls.insecure)")
	fs.BoolVar(&o.containerized, "containerized", false, "the machine's own directories are below "+hostRoot)
	fs.StringVar(&o.VolumeProvider, "volume-provider", "", "aws or external; \"\" for --data-dir (volume.provider)")
	fs.Func("volume-tag", "`tag` of volumes, KEY=VALUE or KEY, or prefix of directories; may be repeated",
		func(tag string) error { o.volumeTags = append(o.volumeTags, tag); return nil })
	fs.StringVar(&o.volumeNameTag, "volume-name-tag", "", "`key` of the tag that names the slot (volume.ebs.slot-tag)")
	fs.BoolVar(&o.PrintConfig, "print-config", false, "holdfast's own: print the resulting configuration, and exit")
	fs.BoolVar(&o.Plan, "plan", false, "holdfast's own: show what would stop the takeover of this machine, and what it "+
		"does, and exit")
	fs.IntVar(&o.verbosity, "v", 0, "klog's `level`: 7 and more is debug (log.level)")
	for _, name := range klogSwitches {
		fs.Bool(name, false, "klog's; has no effect")
	}
	for _, name := range klogValues {
		fs.String(name, "", "klog's; has no effect")
	}
	return fs
}

// defaultPeerURLs is the default of --peer-urls.
const defaultPeerURLs = "https://__address__:2380"

// The flags of klog v2 other than -v, which say where and how it logs.
var (
	klogSwitches = []string{"logtostderr", "alsologtostderr", "add_dir_header", "one_output", "skip_headers",
		"skip_log_headers", "legacy_stderr_threshold_behavior"}
	klogValues = []string{"log_dir", "log_file", "log_file_max_size", "log_backtrace_at", "stderrthreshold", "vmodule"}
)

// ErrHelp is returned by [Parse] for --help.
var ErrHelp = flag.ErrHelp

// Parse reads a command line in the syntax of Go's package flag, with one dash or two.
func Parse(args []string) (Options, error) {
	o := Options{given: map[string]string{}}
	fs := o.flags()
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag: etcd-manager takes only flags, written as --name=value", fs.Arg(0))
	}
	fs.Visit(func(f *flag.Flag) { o.given[f.Name] = f.Value.String() })
	return o, nil
}

// Usage returns the help text of the flags.
func Usage() string {
	var b strings.Builder
	var o Options
	fs := o.flags()
	fs.SetOutput(&b)
	fs.PrintDefaults()
	return b.String()
}

// SetEnv sets the variables in a file of KEY=VALUE lines.
func SetEnv(file string) error {
	variables, err := readEnvFile(file)
	if err != nil {
		return err
	}
	for _, pair := range variables {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("--env-file: %w", err)
		}
	}
	return nil
}

// readEnvFile returns the variables in a file of KEY=VALUE lines, as in os.Environ. It skips blank lines and those that
// begin with #.
func readEnvFile(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--env-file: %w", err)
	}
	var all []string
	var errs []error
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || !variableName.MatchString(name) {
			errs = append(errs, fmt.Errorf("--env-file: must hold lines KEY=VALUE, with a key of letters, digits and _ (%s:%d)",
				path, number))
			continue
		}
		all = append(all, name+"="+value)
	}
	return all, errors.Join(errs...)
}
