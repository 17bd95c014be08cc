package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
)

// CertificateFiles returns all files with certificates and secrets that the configuration names. Those that holdfast
// issues may not exist yet.
func CertificateFiles(cfg config.Config) []health.File {
	var all []health.File
	own := health.OwnCertificate
	if cfg.TLS.Issues() {
		own = health.IssuedCertificate
	}
	for _, f := range []health.File{
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
	} {
		if f.Path != "" {
			all = append(all, f)
		}
	}
	return all
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
