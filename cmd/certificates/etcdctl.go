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
	// etcdctlUser is etcdctl's user in etcd's own authentication. root adds no power: anyone who can read tls.dir can
	// issue any certificate.
	etcdctlUser = "root"
)

// PresetEtcdctl sets environment variables for the flags of etcdctl that the user did not give. If the configuration
// cannot be used, it sets none: that is an error if file names it, and a warning if the environment does.
func PresetEtcdctl(ctx context.Context, file string, args []string) error {
	l, err := config.Load(file, nil, os.Environ())
	if err != nil {
		if file != "" {
			return err
		}
		if os.Getenv(config.VariablePrefix+"CONFIG") != "" {
			fmt.Fprintf(os.Stderr, "holdfast: etcdctl does without the configuration: %v\n", err)
		}
		return nil
	}
	e := l.Config.Etcd
	certificate, key := "", ""
	if e.TrustedCAFile != "" { // the server asks clients for certificates once it has a CA
		certificate, key = e.CertFile, e.KeyFile
	}
	if l.Config.TLS.Issues() && os.Getenv("ETCDCTL_CERT") == "" && !given(args, "--cert") {
		// The server's certificate would be accepted, but it names no user of etcd.
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

// etcdctl returns the path of a file with a certificate and its key for etcdctl on this machine. It issues another
// certificate when less than half of its life is left, or when the authorities have changed.
func etcdctl(ctx context.Context, cfg config.Config, now time.Time) (string, error) {
	path := filepath.Join(cfg.TLS.Dir, etcdctlFile)
	if _, err := os.Stat(cfg.TLS.Files().ClientsCA); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is not there: the node has not run yet", cfg.TLS.Files().ClientsCA)
	}
	if usable(path, cfg.TLS.Files().ClientsCA, now) {
		return path, nil
	}
	i, err := Issue(ctx, cfg, pki.Client, etcdctlUser, nil, etcdctlLife)
	if err != nil {
		return "", err
	}
	return path, durable.WriteFile(path, bytes.Join([][]byte{i.Certificate, i.Key}, nil))
}

// usable reports whether at least half of the certificate's life is left and the authorities in a file have signed it.
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
