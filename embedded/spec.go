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

// checkSpec returns an error if no member can be started as s says.
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

// streamWorkers is how many goroutines serve clients' calls, one after the other. gRPC starts one for each call else,
// and its stack has to grow again: 3 % of a loaded member's processor time. A watch keeps its own for as long as it
// lives, and a kube-apiserver opens one for each resource, so there are many more than calls at a time. When none is
// free gRPC starts others.
const streamWorkers = 512

// etcdConfig translates Config and Spec. lg is etcd's logger, opts its gRPC options.
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

	// Not LogLevel: etcd would only use "debug" to open pprof on the client URLs.
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(lg)
	ec.GRPCAdditionalServerOptions = slices.Concat(opts, []grpc.ServerOption{grpc.NumStreamWorkers(streamWorkers)})
	ec.ClientTLSInfo = clientTLS(cfg.ClientTLS)
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

// clientURLs are where clients are served: with PlainClients at each address with both schemes, which etcd tells apart
// by a connection's first bytes.
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

// features is FeatureGates with what is on unless it is switched off: the comparison of the hashes that each compaction
// makes anyhow. etcd's other checks for corruption read the whole database while clients wait.
func (c Config) features() map[string]bool {
	all := map[string]bool{string(features.CompactHashCheck): true}
	maps.Copy(all, c.FeatureGates)
	return all
}

// initialCluster writes name -> peer URL as etcd's flag takes it.
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

func clientTLS(c settings.ClientTLS) transport.TLSInfo {
	return transport.TLSInfo{
		CertFile:       c.CertFile,
		KeyFile:        c.KeyFile,
		TrustedCAFile:  c.TrustedCAFile,
		ClientCertAuth: c.ClientCertAuth,
	}
}

// peerTLS ties a peer to a name, never to an address: etcd's own check compares the
// certificate with the source address by way of DNS, and a late gossip would become a raft
// outage (R12). With name, AllowedHostnames is what the listener asks of the
// dialler and (etcd installs the check in both directions) the dialler of the listener;
// ServerName keeps Go from looking for the host name of the URL in the certificate; where
// members have host names that others know as well, Go looks for just that.
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

// maxLearners is more than any cluster has slots. etcd's default of 1 would let one replacement whose disk
// is gone again block every other.
const maxLearners = 16
