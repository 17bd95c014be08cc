package node

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/embedded/settings"
)

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
	return slices.DeleteFunc([]pki.File{
		{Name: "server", Path: cfg.Etcd.CertFile, Key: cfg.Etcd.KeyFile}, {Name: "clients-ca", Path: cfg.Etcd.TrustedCAFile},
		{Name: "peer", Path: cfg.Etcd.PeerCertFile, Key: cfg.Etcd.PeerKeyFile},
		{Name: "peers-ca", Path: cfg.Etcd.PeerTrustedCAFile},
	}, func(f pki.File) bool { return f.Path == "" })
}

// tlsStatus returns the TLS part of this node's status.
func (n *node) tlsStatus() *health.TLSStatus {
	s := &health.TLSStatus{Mode: n.cfg.TLS.Mode, Insecure: n.cfg.Insecure()}
	for i, e := range n.certificates.Expiries() {
		if i == 0 {
			s.Expires = &e.NotAfter
		}
		s.Certificates = append(s.Certificates, health.CertificateStatus(e))
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

// CertificateFiles returns all files with certificates and secrets that the configuration names. Those that holdfast
// issues may not exist yet.
func CertificateFiles(cfg config.Config) []health.File {
	own := health.OwnCertificate
	if cfg.TLS.Issues() {
		own = health.IssuedCertificate
	}
	return slices.DeleteFunc([]health.File{
		{Key: "etcd.cert-file", Path: cfg.Etcd.CertFile, Kind: own},
		{Key: "etcd.trusted-ca-file", Path: cfg.Etcd.TrustedCAFile, Kind: health.Authorities},
		{Key: "etcd.peer-cert-file", Path: cfg.Etcd.PeerCertFile, Kind: own},
		{Key: "etcd.peer-trusted-ca-file", Path: cfg.Etcd.PeerTrustedCAFile, Kind: health.Authorities},
		{Key: "tls.client-ca-file", Path: cfg.TLS.ClientCAFile, Kind: health.Authorities},
		{Key: "tls.peer-ca-file", Path: cfg.TLS.PeerCAFile, Kind: health.Authorities},
		{Key: "tls.client-ca-key-file", Path: cfg.TLS.ClientCAKeyFile, Kind: health.Secret},
		{Key: "tls.peer-ca-key-file", Path: cfg.TLS.PeerCAKeyFile, Kind: health.Secret},
		{Key: "etcd.key-file", Path: cfg.Etcd.KeyFile, Kind: health.Secret},
		{Key: "etcd.peer-key-file", Path: cfg.Etcd.PeerKeyFile, Kind: health.Secret},
		{Key: "gossip.key-file", Path: cfg.Gossip.KeyFile, Kind: health.Secret},
		{Key: "gossip.observer-file", Path: cfg.Gossip.ObserverFile, Kind: health.Secret},
		{Key: "tls.operator-file", Path: cfg.TLS.OperatorFile, Kind: health.Secret},
		{Key: "snapshot.identity-file", Path: cfg.Snapshot.IdentityFile, Kind: health.Secret},
	}, func(f health.File) bool { return f.Path == "" })
}

// lookAtFiles reads all these files. member says that a member runs here. Until one does, a file that holdfast issues
// may be missing: on a standby, or while the slot's certificates are not issued yet.
func lookAtFiles(cfg config.Config, member bool) (all []health.File) {
	for _, f := range CertificateFiles(cfg) {
		err := look(&f)
		if !member && errors.Is(err, fs.ErrNotExist) && cfg.TLS.Issues() && filepath.Dir(f.Path) == cfg.TLS.Dir {
			continue
		}
		if err != nil {
			f.Err = err.Error()
		}
		all = append(all, f)
	}
	return all
}

// look reads one file.
func look(f *health.File) error {
	info, err := os.Stat(f.Path)
	if err != nil {
		return err
	}
	f.Mode = info.Mode().Perm()
	if f.Kind == health.Secret {
		return nil
	}
	data, err := os.ReadFile(f.Path)
	if err != nil {
		return err
	}
	found, err := pki.CertificatesIn(data)
	for _, c := range found {
		f.Certs = append(f.Certs, health.Certificate{Subject: c.Subject.String(), From: c.NotBefore, Until: c.NotAfter})
	}
	return err
}
