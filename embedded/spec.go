package embedded

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
)

// receiveWindow is how many bytes a client may send on a connection, or in a call, before gRPC has taken them. gRPC
// itself begins with 64 KiB, and goes up to 16 MiB.
const receiveWindow = 1 << 20

// checkSpec returns an error if no member can be started by this configuration and spec.
func checkSpec(cfg Config, s plan.Spec) error {
	var errs []error
	m := cfg.Names.Member
	if n := strings.Count(m, settings.SlotMark); m != "" && n != 1 {
		errs = append(errs, fmt.Errorf("member name %q has %s %d times, not once", m, settings.SlotMark, n))
	}
	for _, f := range [][2]string{{"slot", s.Slot}, {"data directory", s.DataDir}, {"token", s.Token}, {"peer URL", s.PeerURL}} {
		if f[1] == "" {
			errs = append(errs, fmt.Errorf("%s is missing", f[0]))
		}
	}
	if got := s.Peers[s.Slot]; got != s.PeerURL {
		errs = append(errs, fmt.Errorf("peers name %q for slot %q, want its own peer URL %q", got, s.Slot, s.PeerURL))
	}
	if want := settings.Scheme(cfg.PeerCertFile); !strings.HasPrefix(s.PeerURL, want) && !cfg.FromHTTP {
		errs = append(errs, fmt.Errorf("peer URL %q does not start with %s, as etcd.peer-cert-file asks for", s.PeerURL,
			want))
	}
	if cfg.PeerCertFile != "" && cfg.Names.Peer == "" && len(cfg.PeerCertAllowedCN)+len(cfg.PeerCertAllowedHostname) == 0 {
		errs = append(errs, errors.New("the name in peer certificates is missing"))
	}
	if len(cfg.ListenClientURLs) == 0 || len(cfg.AdvertiseClientURLs) == 0 || len(cfg.ListenPeerURLs) == 0 {
		errs = append(errs, errors.New("URLs to listen on are missing: Config was not resolved"))
	}
	return errors.Join(errs...)
}

// etcdConfig translates Config and Spec. lg is etcd's logger, opts are its gRPC options.
func etcdConfig(cfg Config, spec plan.Spec, lg *zap.Logger, opts []grpc.ServerOption) (*embed.Config, error) {
	if err := checkSpec(cfg, spec); err != nil {
		return nil, err
	}
	ec := embed.NewConfig()
	ec.Name, ec.Dir = cfg.Names.of(spec.Slot), spec.DataDir
	ec.InitialClusterToken = spec.Token
	ec.InitialCluster = initialCluster(cfg.Names.named(spec.Peers))
	ec.ClusterState = embed.ClusterStateFlagNew
	if spec.Join {
		ec.ClusterState = embed.ClusterStateFlagExisting
	}
	ec.StrictReconfigCheck = true
	ec.PreVote = true
	ec.MaxLearners = maxLearners

	ec.TickMs, ec.ElectionMs = cfg.HeartbeatInterval, cfg.ElectionTimeout
	ec.InitialElectionTickAdvance = !spec.Yields
	ec.SnapshotCount = cfg.SnapshotCount
	ec.QuotaBackendBytes = cfg.QuotaBackendBytes
	ec.MaxRequestBytes, ec.MaxTxnOps = cfg.MaxRequestBytes, cfg.MaxTxnOps
	ec.AutoCompactionMode, ec.AutoCompactionRetention = cfg.AutoCompactionMode, cfg.AutoCompactionRetention
	ec.Metrics = cfg.Metrics

	// LogLevel stays unset: etcd would use "debug" only to open pprof on the client URLs.
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(lg)
	// gRPC would ping a client for each request that it reads, to find out how large the windows should be.
	opts = append(opts, grpc.StaticStreamWindowSize(receiveWindow), grpc.StaticConnWindowSize(receiveWindow))
	ec.GRPCAdditionalServerOptions = append(opts, codecOptions()...)
	ec.ClientTLSInfo = transport.TLSInfo{CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, TrustedCAFile: cfg.TrustedCAFile,
		ClientCertAuth: cfg.ClientCertAuth}
	ec.PeerTLSInfo = peerTLS(cfg.PeerTLS, cfg.Names)

	gate := ec.ServerFeatureGate.(featuregate.MutableFeatureGate)
	if err := gate.SetFromMap(cfg.features()); err != nil {
		return nil, fmt.Errorf("set feature gates: %w", err)
	}
	var errs [5]error
	ec.ListenClientUrls, errs[0] = parseURLs(cfg.clientURLs(cfg.ListenClientURLs))
	ec.ListenClientHttpUrls, errs[1] = parseURLs(cfg.clientURLs(cfg.ListenClientHTTPURLs))
	ec.AdvertiseClientUrls, errs[2] = parseURLs(cfg.AdvertiseClientURLs)
	ec.ListenPeerUrls, errs[3] = parseURLs(cfg.ListenPeerURLs)
	ec.AdvertisePeerUrls, errs[4] = parseURLs([]string{spec.PeerURL})
	return ec, errors.Join(errs[:]...)
}

// clientURLs returns where clients are served. With PlainClients each address has both schemes, which etcd
// distinguishes by a connection's first bytes.
func (c Config) clientURLs(urls []string) []string {
	if !c.PlainClients {
		return urls
	}
	var both []string
	for _, u := range urls {
		both = append(both, u)
		if address, secure := strings.CutPrefix(u, "https://"); secure {
			both = append(both, "http://"+address)
		}
	}
	return both
}

// features returns FeatureGates and the one that holdfast turns on by default: etcd compares the hashes that each
// compaction computes anyway. etcd's other checks for corruption read the whole database while clients wait.
func (c Config) features() map[string]bool {
	all := map[string]bool{string(features.CompactHashCheck): true}
	maps.Copy(all, c.FeatureGates)
	return all
}

// initialCluster formats peer URLs by name as etcd's flag expects them.
func initialCluster(peers map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		pairs = append(pairs, name+"="+peers[name])
	}
	return strings.Join(pairs, ",")
}

func parseURLs(ss []string) ([]url.URL, error) {
	if len(ss) == 0 {
		return nil, nil
	}
	urls, err := types.NewURLs(ss)
	if err != nil {
		return nil, fmt.Errorf("parse URLs %q: %w", ss, err)
	}
	return urls, nil
}

// peerTLS ties a peer to a name, never to an address. etcd's own check compares the certificate with the source address
// through DNS, so a late gossip would become a raft outage (R12). The listener checks AllowedHostnames on the dialler
// and, because etcd installs the check in both directions, the dialler checks it on the listener. ServerName keeps Go
// from looking for the URL's host name in the certificate. If members have host names that others know as well, Go does
// look for it.
func peerTLS(c settings.PeerTLS, names Names) transport.TLSInfo {
	if c.PeerCertFile == "" {
		return transport.TLSInfo{}
	}
	info := transport.TLSInfo{
		CertFile:            c.PeerCertFile,
		KeyFile:             c.PeerKeyFile,
		TrustedCAFile:       c.PeerTrustedCAFile,
		ClientCertAuth:      true,
		SkipClientSANVerify: true,
		AllowedCNs:          c.PeerCertAllowedCN,
		AllowedHostnames:    c.PeerCertAllowedHostname,
	}
	if len(info.AllowedCNs)+len(info.AllowedHostnames) == 0 {
		info.AllowedHostnames = append([]string{names.Peer}, names.Hosts...)
		if len(names.Hosts) == 0 {
			info.ServerName = names.Peer
		}
	}
	return info
}

// maxLearners is more than any cluster has slots. With etcd's default of 1, one replacement whose disk is gone again
// would block every other.
const maxLearners = 16
