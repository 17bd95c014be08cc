package node

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/embedded/settings"
)

// newCertificates makes the keeper of the node's certificates, for any tls.mode. It reads nothing yet.
func (n *node) newCertificates(lg *zap.Logger, reg prometheus.Registerer) (*pki.Keeper, error) {
	source := AuthoritySource(n.cfg, n.store)
	if n.editions != nil { // unlike a command, a node also makes editions
		source = n.editions
	}
	return pki.New(n.cfg.TLS, TLSIdentity(n.cfg), source, lg, reg)
}

// peerName is a DNS name in every member's certificate.
func peerName(cfg config.Config) string { return "peer." + cfg.Zone() }

// TLSIdentity returns the names for this node's certificates. The keeper adds tls.names.
func TLSIdentity(cfg config.Config) pki.Identity {
	id := pki.Identity{Node: cfg.Node.Name, Zone: cfg.Zone(), PeerName: peerName(cfg),
		PeerHost: settings.PeerHost(cfg.Etcd.PeerURL), Orders: orderNames(cfg, cfg.TLS.Issues())}
	if cfg.Cluster.Adopt { // etcd-manager removes a member's name from /etc/hosts when holdfast takes the member over
		id.PeerAddress = cfg.Node.Address
	}
	add := func(name string) {
		ip, err := netip.ParseAddr(name)
		if name != "" && !slices.Contains(id.Names, name) && !(err == nil && ip.IsUnspecified()) {
			id.Names = append(id.Names, name)
		}
	}
	add(cfg.Node.Address)
	for _, text := range slices.Concat(cfg.Etcd.AdvertiseClientURLs, cfg.Etcd.ListenClientURLs,
		cfg.Etcd.ListenClientHTTPURLs) {
		if u, err := url.Parse(text); err == nil {
			add(u.Hostname())
		}
	}
	if host, _, err := net.SplitHostPort(cfg.Control.Listen); err == nil {
		add(host)
	}
	add(cfg.Node.Name)
	if cfg.TLS.Mode == pki.ModeFiles {
		id.Watched = watchedFiles(cfg)
	}
	return id
}

// watchedFiles returns the certificates of tls.mode files, which the operator replaces and the keeper only watches.
func watchedFiles(cfg config.Config) []pki.File {
	var all []pki.File
	for _, f := range []pki.File{
		{Name: "server", Path: cfg.Etcd.CertFile, Key: cfg.Etcd.KeyFile}, {Name: "clients-ca", Path: cfg.Etcd.TrustedCAFile},
		{Name: "peer", Path: cfg.Etcd.PeerCertFile, Key: cfg.Etcd.PeerKeyFile},
		{Name: "peers-ca", Path: cfg.Etcd.PeerTrustedCAFile},
	} {
		if f.Path != "" {
			all = append(all, f)
		}
	}
	return all
}

// tlsStatus returns the TLS part of this node's status.
func (n *node) tlsStatus() *health.TLSStatus {
	s := &health.TLSStatus{Mode: n.cfg.TLS.Mode, Insecure: n.cfg.Insecure()}
	for i, e := range n.certificates.Expiries() {
		if i == 0 {
			s.Expires = &e.NotAfter
		}
		s.Certificates = append(s.Certificates, health.CertificateStatus{Name: e.Name, NotAfter: e.NotAfter, File: e.File})
	}
	if n.editions != nil {
		if e := n.editions.Current(); e != nil {
			s.Edition = e.Serial
		}
		s.Rotation = n.editions.Rotation(authorities.ViewOf(n.coord.Now().Observation, n.records.Clock()), time.Now())
	}
	s.Issued = n.issued.Last()
	return s
}
