package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"holdfast/cmd/config"
	"holdfast/durable"
	"holdfast/embedded/pki"
)

const (
	etcdctlFile = "etcdctl.pem" // certificate and key, in tls.dir
	etcdctlLife = 24 * time.Hour
	// etcdctlUser is who etcdctl is to etcd's own authentication. Anyone who can read tls.dir can issue any
	// certificate.
	etcdctlUser = "root"
)

// Etcdctl returns a file with a certificate and its key for etcdctl on this machine. It is reissued when
// less than half of its life is left, and when the authorities are others.
func Etcdctl(ctx context.Context, cfg config.Config, now time.Time) (string, error) {
	path := filepath.Join(cfg.TLS.Dir, etcdctlFile)
	if _, err := os.Stat(cfg.TLS.Files().ClientsCA); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is not there: the node has not run yet", cfg.TLS.Files().ClientsCA)
	}
	if usable(path, cfg.TLS.Files().ClientsCA, now) {
		return path, nil
	}
	i, err := Issue(ctx, cfg, etcdctlUser, nil, etcdctlLife)
	if err != nil {
		return "", err
	}
	return path, durable.WriteFile(path, bytes.Join([][]byte{i.Certificate, i.Key}, nil))
}

// usable reports whether the certificate is good for some hours with the authorities in a file.
func usable(path, authorities string, now time.Time) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	trusted, err := os.ReadFile(authorities)
	if err != nil {
		return false
	}
	certs, err := pki.CertificatesIn(text)
	if err != nil || certs[0].NotAfter.Sub(now) < certs[0].NotAfter.Sub(certs[0].NotBefore)/2 {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	_, err = certs[0].Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}
