package node

import (
	"net"
	"net/netip"
	"net/url"
	"slices"

	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/embedded/pki"
)

// peerName is borne by every member's certificate.
func peerName(cfg config.Config) string { return "peer." + cfg.Zone() }

// TLSIdentity is whom this node's certificates name. tls.names is the keeper's to add.
func TLSIdentity(cfg config.Config) pki.Identity {
	id := pki.Identity{Cluster: cfg.Cluster.Name, Zone: cfg.Zone(), PeerName: peerName(cfg),
		PeerHost: embedded.PeerHost(cfg.Etcd.PeerURL)}
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

// watchedFiles are the operator's certificates, which the keeper only watches.
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
