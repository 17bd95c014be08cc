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
	"slices"
	"strings"
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

// PresetEtcdctl fills in, through the environment, what the user did not say. Without a usable configuration
// of ours etcdctl works as it always does, unless a file was named.
func PresetEtcdctl(ctx context.Context, file string, args []string) error {
	l, err := config.Load(file, nil, os.Environ())
	if err != nil {
		if file != "" {
			return err
		}
		return nil
	}
	e := l.Config.Etcd
	certificate, key := "", ""
	if e.TrustedCAFile != "" { // the server asks clients for certificates once it has a CA
		certificate, key = e.CertFile, e.KeyFile
	}
	if l.Config.TLS.Issues() && os.Getenv("ETCDCTL_CERT") == "" && !given(args, "--cert") {
		// The server's own certificate would do, but for etcd it is nobody's.
		if certificate, err = etcdctl(ctx, l.Config, time.Now()); err != nil {
			fmt.Fprintf(os.Stderr, "holdfast: no certificate for etcdctl: %v\n", err)
		}
		key = certificate
	}
	for _, preset := range []struct{ flag, variable, value string }{
		{"--endpoints", "ETCDCTL_ENDPOINTS", strings.Join(e.AdvertiseClientURLs, ",")},
		{"--cacert", "ETCDCTL_CACERT", e.TrustedCAFile},
		{"--cert", "ETCDCTL_CERT", certificate},
		{"--key", "ETCDCTL_KEY", key},
	} {
		if preset.value == "" || os.Getenv(preset.variable) != "" || given(args, preset.flag) {
			continue
		}
		if err := os.Setenv(preset.variable, preset.value); err != nil {
			return err
		}
	}
	return nil
}

func given(args []string, flag string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") })
}

// etcdctl returns a file with a certificate and its key for etcdctl on this machine. It is reissued when
// less than half of its life is left, and when the authorities are others.
func etcdctl(ctx context.Context, cfg config.Config, now time.Time) (string, error) {
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
