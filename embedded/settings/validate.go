package settings

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
)

// maxElectionTimeout is etcd's own bound in milliseconds (embed.Config.Validate).
const maxElectionTimeout = 50000

// problems reports what is wrong with a key below etcd.
type problems func(key, format string, args ...any)

// Validate reports everything that is wrong with c at once. It applies etcd's own rules, and one more: no URL may be
// less secure than the configured certificates require. It reads the certificate files, unless they are Issued. Empty
// URL lists are valid (see Resolve).
func (c Config) Validate(wrong func(key, format string, args ...any)) {
	p := problems(func(key, format string, args ...any) { wrong("etcd."+key, format, args...) })
	c.validateTiming(p)
	c.validateLimits(p)
	c.validateCompaction(p)
	c.validateFeatures(p)
	c.validateURLs(p)
	c.validateClientTLS(p)
	c.validatePeerTLS(p)
	if c.Metrics != "basic" && c.Metrics != "extensive" {
		p("metrics", "must be basic or extensive, got %q", c.Metrics)
	}
	if _, err := zapcore.ParseLevel(c.LogLevel); err != nil || c.LogLevel == "" {
		p("log-level", "must be debug, info, warn, error, panic or fatal, got %q", c.LogLevel)
	}
}

func (c Config) validateTiming(p problems) {
	if c.HeartbeatInterval == 0 || c.HeartbeatInterval > maxElectionTimeout/5 {
		p("heartbeat-interval", "must be 1–%d (ms), got %d", maxElectionTimeout/5, c.HeartbeatInterval)
		return
	}
	if c.ElectionTimeout < 5*c.HeartbeatInterval || c.ElectionTimeout > maxElectionTimeout {
		p("election-timeout", "must be %d–%d (ms; at least 5 times the heartbeat-interval), got %d",
			5*c.HeartbeatInterval, maxElectionTimeout, c.ElectionTimeout)
	}
}

func (c Config) validateLimits(p problems) {
	// Less is a mistake about the unit. etcd would refuse almost every write, with a quota in the whole cluster.
	if q := c.QuotaBackendBytes; q != 0 && q < 4<<20 {
		p("quota-backend-bytes", "must be 0 (2 GiB) or at least 4MiB, got %d: a number without a unit is bytes", q)
	}
	if n := c.MaxRequestBytes; n < 64<<10 {
		p("max-request-bytes", "must be at least 64KiB, got %d: a number without a unit is bytes", n)
	}
	if c.MaxTxnOps == 0 {
		p("max-txn-ops", "must be more than 0, got 0")
	}
	if c.SnapshotCount == 0 {
		p("snapshot-count", "must be more than 0, got 0")
	}
}

func (c Config) validateCompaction(p problems) {
	n, err := strconv.Atoi(c.AutoCompactionRetention)
	number := err == nil && n >= 0
	switch c.AutoCompactionMode {
	case periodic:
		if d, err := time.ParseDuration(c.AutoCompactionRetention); !number && (err != nil || d < 0) {
			p("auto-compaction-retention", `must be hours or a duration such as "5m" ("0" is off), got %q`,
				c.AutoCompactionRetention)
		}
	case revision:
		if !number {
			p("auto-compaction-retention", `must be a number of revisions ("0" is off), got %q`, c.AutoCompactionRetention)
		}
	default:
		p("auto-compaction-mode", "must be periodic or revision, got %q", c.AutoCompactionMode)
	}
}

func (c Config) validateFeatures(p problems) {
	names := features()
	for _, name := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		if !slices.Contains(names, name) && !slices.Contains(classes, name) {
			p("feature-gates", "must be one of %s, got %q", strings.Join(names, ", "), name)
		}
	}
	const persist, checkpoint = "LeaseCheckpointPersist", "LeaseCheckpoint"
	on := func(name string) bool { // both are alpha
		is, set := c.FeatureGates[name]
		return is || !set && c.FeatureGates[allAlpha]
	}
	if on(persist) && !on(checkpoint) {
		p("feature-gates", "%s must come with %s, got %s alone", persist, checkpoint, persist)
	}
}

// allAlpha switches all features that are alpha and not switched themselves.
const allAlpha = "AllAlpha"

// classes switch all features of a kind.
var classes = []string{allAlpha, "AllBeta"}

// features returns the names of etcd's features, sorted. A test of package embedded compares them with etcd's own.
func features() []string {
	return slices.Sorted(slices.Values(append([]string{
		"CompactHashCheck", "InitialCorruptCheck", "LeaseCheckpoint", "LeaseCheckpointPersist", "SetMemberLocalAddr",
		"StopGRPCServiceOnDefrag", "TxnModeWriteWithSharedBuffer",
	}, newFeatures...)))
}

func (c Config) validateURLs(p problems) {
	for _, u := range []struct {
		key    string
		urls   []string
		listen bool
		cert   string
	}{
		{"listen-client-urls", c.ListenClientURLs, true, c.CertFile},
		{"listen-client-http-urls", c.ListenClientHTTPURLs, true, c.CertFile},
		{"advertise-client-urls", c.AdvertiseClientURLs, false, c.CertFile},
		{"listen-peer-urls", c.ListenPeerURLs, true, c.PeerCertFile},
	} {
		want := strings.TrimSuffix(Scheme(u.cert), "://")
		for _, s := range u.urls {
			scheme := want
			plain := c.PlainClients && !u.listen || c.FromHTTP && u.key == "listen-peer-urls"
			if plain && strings.HasPrefix(s, "http://") {
				scheme = "http"
			}
			if err := checkURL(s, scheme, u.listen); err != nil {
				p(u.key, "%v, got %q", err, s)
			}
		}
	}
	if c.FromHTTP && !(c.listensToPeers("http://") && c.listensToPeers("https://")) {
		p("listen-peer-urls", "must hold URLs with http and with https, at different ports, with tls.from-http, got %q",
			c.ListenPeerURLs)
	}
	if err := c.checkPeerURL(strings.TrimSuffix(Scheme(c.PeerCertFile), "://")); err != nil && c.PeerURL != "" {
		p("peer-url", "%v, got %q", err, c.PeerURL)
	}
	for _, s := range c.ListenClientHTTPURLs {
		if slices.Contains(c.ListenClientURLs, s) {
			p("listen-client-http-urls", "must differ from listen-client-urls, got %q in both", s)
		}
	}
}

// listensToPeers reports whether one of the peer URLs has a scheme.
func (c Config) listensToPeers(scheme string) bool {
	return slices.ContainsFunc(c.ListenPeerURLs, func(s string) bool { return strings.HasPrefix(s, scheme) })
}

// checkURL applies etcd's checkBindURLs and checkHostURLs. The scheme must match the certificates, because on an http
// URL etcd would ignore them with only a warning.
func checkURL(s, scheme string, listen bool) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" {
		return fmt.Errorf("must be a URL such as %s://10.0.0.1:%s", scheme, clientPort)
	}
	if u.Scheme != scheme {
		if scheme == "https" {
			return errors.New("must be https because a certificate is set or issued")
		}
		return errors.New("must be http because no certificate is set, nor a tls.mode that issues one")
	}
	port, perr := strconv.ParseUint(u.Port(), 10, 16)
	if u.Hostname() == "" || perr != nil || port == 0 || (u.Path != "" && u.Path != "/") || u.RawQuery != "" ||
		u.User != nil {
		return fmt.Errorf("must be %s://host:port", scheme)
	}
	if _, err := netip.ParseAddr(u.Hostname()); listen && err != nil && u.Hostname() != "localhost" {
		return errors.New("must name an IP or localhost to listen on")
	}
	return nil
}

// longestSlot stands for any slot where only the length of a name matters.
const longestSlot = "abcdefghijklmnop"

// peerHost matches a host name whose labels have at most 63 bytes (RFC 1035). It must be lower case, because etcd
// compares URLs as text.
var peerHost = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+$`)

// maxPeerURL is the longest URL pattern, in bytes, that a charter accepts (plan.Charter).
const maxPeerURL = 253

// checkPeerURL applies etcd's rules for URLs to the pattern, and makes sure that the members' names differ.
func (c Config) checkPeerURL(scheme string) error {
	host := PeerHost(c.PeerURL)
	if strings.Count(c.PeerURL, SlotMark) != 1 || !strings.Contains(host, SlotMark) {
		return fmt.Errorf("must hold %s once, in its host name", SlotMark)
	}
	u := strings.Replace(c.PeerURL, SlotMark, longestSlot, 1)
	if err := checkURL(u, scheme, false); err != nil {
		return err
	}
	if full := strings.Replace(host, SlotMark, longestSlot, 1); len(full) > 253 || !peerHost.MatchString(full) {
		return fmt.Errorf("must name a lower-case host of two or more labels, each at most 63 bytes and 253 together, "+
			"where %s takes 16", SlotMark)
	}
	if strings.HasSuffix(u, "/") {
		return errors.New("must end with its port")
	}
	if len(c.PeerURL) > maxPeerURL {
		return fmt.Errorf("must be at most %d bytes", maxPeerURL)
	}
	return nil
}

func (c Config) validateClientTLS(p problems) {
	if !c.Issued {
		checkPair(p, "", c.CertFile, c.KeyFile)
		checkCA(p, "trusted-ca-file", c.TrustedCAFile)
	}
	if c.TrustedCAFile != "" && c.CertFile == "" {
		p("cert-file", "must be set together with trusted-ca-file, got none")
	}
	if c.ClientCertAuth && c.TrustedCAFile == "" {
		p("client-cert-auth", "must come with trusted-ca-file, got none")
	}
}

func (c Config) validatePeerTLS(p problems) {
	if !c.Issued {
		checkPair(p, "peer-", c.PeerCertFile, c.PeerKeyFile)
		checkCA(p, "peer-trusted-ca-file", c.PeerTrustedCAFile)
	}
	// Without a CA, etcd asks peers for no certificate and ignores the allowed names, so anyone could join.
	if (c.PeerCertFile == "") != (c.PeerTrustedCAFile == "") {
		p("peer-trusted-ca-file", "must be set together with peer-cert-file, got %q and %q", c.PeerTrustedCAFile,
			c.PeerCertFile)
	}
	if len(c.PeerCertAllowedCN) > 0 && len(c.PeerCertAllowedHostname) > 0 {
		p("peer-cert-allowed-cn", "must not be set together with peer-cert-allowed-hostname, got %q and %q",
			c.PeerCertAllowedCN, c.PeerCertAllowedHostname)
	}
	if len(c.PeerCertAllowedCN)+len(c.PeerCertAllowedHostname) > 0 && c.PeerCertFile == "" {
		p("peer-cert-file", "must be set when allowed names are, got none")
	}
}

func checkPair(p problems, prefix, cert, key string) {
	switch {
	case cert == "" && key == "":
	case cert == "" || key == "":
		p(prefix+"cert-file", "must be set together with %skey-file, got %q and %q", prefix, cert, key)
	default:
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			p(prefix+"cert-file", "must be a readable PEM certificate with its %skey-file, got %q: %v", prefix, cert, err)
		}
	}
}

func checkCA(p problems, key, file string) {
	if file == "" {
		return
	}
	pem, err := os.ReadFile(file)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		err = errors.New("no certificate in it")
	}
	if err != nil {
		p(key, "must be a readable PEM file of CA certificates, got %q: %v", file, err)
	}
}
