package settings

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// etcd has registered these ports with IANA. Resolve uses them.
const (
	clientPort = "2379"
	peerPort   = "2380"
)

// SlotMark stands for the slot in the patterns of peer URLs and of members' names.
const SlotMark = "{slot}"

// These are the values of AutoCompactionMode.
const (
	periodic = "periodic"
	revision = "revision"
)

// Config is the `etcd:` section: etcd's own flags under their own names. It has only flags that are passed on to etcd.
// It lacks those that would let a member lose data, or serve without the required authentication (unsafe-no-fsync,
// auto-tls, force-new-cluster …).
type Config struct {
	Listen    `mapstructure:",squash"`
	Limits    `mapstructure:",squash"`
	ClientTLS `mapstructure:",squash"`
	PeerTLS   `mapstructure:",squash"`

	// HeartbeatInterval is raft's tick in milliseconds, more than 0.
	HeartbeatInterval uint `mapstructure:"heartbeat-interval"`
	// ElectionTimeout is in milliseconds, from 5 heartbeats to 50000.
	ElectionTimeout uint `mapstructure:"election-timeout"`
	// EarlyCampaign makes a member start an election before ElectionTimeout ends, on evidence that there is no leader.
	// It is holdfast's own setting, not etcd's.
	EarlyCampaign bool `mapstructure:"early-campaign"`

	// AutoCompactionMode is "periodic" or "revision".
	AutoCompactionMode string `mapstructure:"auto-compaction-mode"`
	// AutoCompactionRetention is "0" (off); in mode periodic a number of hours or a duration; in mode revision a number
	// of revisions. kube-apiserver compacts by itself.
	AutoCompactionRetention string `mapstructure:"auto-compaction-retention"`

	// Metrics is "basic", or "extensive" for gRPC latency histograms as well.
	Metrics string `mapstructure:"metrics"`
	// LogLevel is the lowest level of etcd's own lines that is logged: debug, info, warn, error, panic or fatal. It can
	// only narrow the process's log level, never widen it.
	LogLevel string `mapstructure:"log-level"`
	// FeatureGates switches etcd's features by name (`etcd --help` lists them). CompactHashCheck is on unless it is
	// switched off: once a minute the leader compares the members' data, at no cost, and raises CORRUPT if they differ.
	FeatureGates map[string]bool `mapstructure:"feature-gates"`

	// Issued means that holdfast writes the files of ClientTLS and PeerTLS before each start, so they need not exist
	// yet.
	Issued bool `mapstructure:"-"`
	// PlainClients means that clients are also served without TLS, at the same addresses. AdvertiseClientURLs may then
	// have either scheme.
	PlainClients bool `mapstructure:"-"`
	// FromHTTP requires ListenPeerURLs of both schemes, for a cluster whose members go from http to https.
	FromHTTP bool `mapstructure:"-"`
}

// Listen says where etcd listens, and which URLs it announces to clients and members. Resolve fills empty lists.
type Listen struct {
	// ListenClientURLs are http or https URLs of an IP (or localhost) and a port.
	ListenClientURLs []string `mapstructure:"listen-client-urls"`
	// ListenClientHTTPURLs move HTTP (/health, /metrics, /v3) away from the gRPC URLs, which then speak only gRPC. If
	// empty, ListenClientURLs serve both.
	ListenClientHTTPURLs []string `mapstructure:"listen-client-http-urls"`
	// AdvertiseClientURLs are announced to clients; host names are allowed.
	AdvertiseClientURLs []string `mapstructure:"advertise-client-urls"`
	// ListenPeerURLs are http or https URLs of an IP (or localhost) and a port.
	ListenPeerURLs []string `mapstructure:"listen-peer-urls"`
	// PeerURL is the pattern of the URLs at which members reach each other. It has {slot} once, in the host name. If it
	// is empty, the caller that knows cluster.name fills it in. A cluster keeps the pattern with which it was founded
	// (plan.Charter).
	PeerURL string `mapstructure:"peer-url"`
}

// Limits bound what one member stores and accepts.
type Limits struct {
	// QuotaBackendBytes bounds the database. 0 means etcd's default of 2 GiB; etcd advises at most 8 GiB. Beyond it the
	// cluster refuses writes (alarm NOSPACE).
	QuotaBackendBytes int64 `mapstructure:"quota-backend-bytes"`
	// MaxRequestBytes bounds one client request, more than 0.
	MaxRequestBytes uint `mapstructure:"max-request-bytes"`
	// MaxTxnOps bounds the operations in one transaction, more than 0.
	MaxTxnOps uint `mapstructure:"max-txn-ops"`
	// SnapshotCount is the number of raft entries between two raft snapshots, more than 0.
	SnapshotCount uint64 `mapstructure:"snapshot-count"`
}

// ClientTLS secures the client URLs. All paths are PEM files. etcd reads the certificate and the key at every
// handshake, so renewing the files is enough. It reads the CA only when it starts (Status.Stale).
type ClientTLS struct {
	CertFile string `mapstructure:"cert-file"`
	KeyFile  string `mapstructure:"key-file"`
	// TrustedCAFile, once set, makes client certificates mandatory, whatever ClientCertAuth says (etcd
	// client/pkg/transport, TLSInfo.ServerConfig).
	TrustedCAFile  string `mapstructure:"trusted-ca-file"`
	ClientCertAuth bool   `mapstructure:"client-cert-auth"`
}

// PeerTLS secures raft in both directions. A peer's certificate must be signed by the CA and bear the name (or CN) that
// all members of the cluster share.
type PeerTLS struct {
	PeerCertFile      string `mapstructure:"peer-cert-file"`
	PeerKeyFile       string `mapstructure:"peer-key-file"`
	PeerTrustedCAFile string `mapstructure:"peer-trusted-ca-file"`
	// PeerCertAllowedCN and PeerCertAllowedHostname exclude each other. With neither, the certificate must bear the
	// name that the cluster's peers share, whatever address the peer has.
	PeerCertAllowedCN       []string `mapstructure:"peer-cert-allowed-cn"`
	PeerCertAllowedHostname []string `mapstructure:"peer-cert-allowed-hostname"`
}

// Default returns etcd's defaults (a test of package embedded compares them), with the URLs left to Resolve. The log
// level is higher, so that holdfast's decisions are not lost among a hundred lines at each start.
func Default() Config {
	return Config{
		Limits: Limits{
			MaxRequestBytes: 3 << 19, // 1.5 MiB
			MaxTxnOps:       128,
			SnapshotCount:   10_000,
		},
		HeartbeatInterval:       100,
		ElectionTimeout:         1000,
		EarlyCampaign:           true,
		AutoCompactionMode:      periodic,
		AutoCompactionRetention: "0",
		Metrics:                 "basic",
		LogLevel:                "warn",
		FeatureGates:            map[string]bool{},
	}
}

// Resolve returns c with the empty URL lists filled for a node at address (an IP). Clients are served on port 2379,
// also on 127.0.0.1 so that local tools find it, and peers on 2380. The scheme is https if a certificate is set. The
// advertised client URL has the port on which etcd listens at address, so that nodes with different ports can share one
// file.
func (c Config) Resolve(address string) Config {
	client := func(host string) string { return Scheme(c.CertFile) + net.JoinHostPort(host, clientPort) }
	if len(c.ListenClientURLs) == 0 {
		c.ListenClientURLs = []string{client(address)}
		if ip, err := netip.ParseAddr(address); err == nil && !ip.IsLoopback() && !ip.IsUnspecified() {
			c.ListenClientURLs = append(c.ListenClientURLs, client("127.0.0.1"))
		}
	}
	if len(c.AdvertiseClientURLs) == 0 {
		c.AdvertiseClientURLs = []string{client(address)}
		for _, text := range c.ListenClientURLs {
			if u, err := url.Parse(text); err == nil && covers(u.Hostname(), address) {
				c.AdvertiseClientURLs = []string{u.Scheme + "://" + net.JoinHostPort(address, u.Port())}
				break
			}
		}
	}
	if len(c.ListenPeerURLs) == 0 {
		c.ListenPeerURLs = []string{Scheme(c.PeerCertFile) + net.JoinHostPort(address, peerPort)}
	}
	return c
}

// covers reports whether a listener on host can be reached at address.
func covers(host, address string) bool {
	at, err := netip.ParseAddr(host)
	return err == nil && (at.IsUnspecified() || host == address)
}

// Scheme returns the beginning of a URL: https:// if a certificate is set, otherwise http://.
func Scheme(certFile string) string {
	if certFile != "" {
		return "https://"
	}
	return "http://"
}

// PeerHost returns the host name, with {slot}, in a pattern of peer URLs; "" if there is none.
func PeerHost(pattern string) string {
	_, rest, _ := strings.Cut(pattern, "://")
	host, _, _ := strings.Cut(rest, ":")
	return host
}
