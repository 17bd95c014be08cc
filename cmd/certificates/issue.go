package certificates

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
)

// Issued is a client's certificate and key, and the authorities by which it knows the servers, as PEM.
type Issued struct {
	Certificate, Key, CA []byte
	authority            string // fingerprint of the one that has signed
}

// Issue issues a certificate to a client of the cluster, by a command, which is no node.
func Issue(ctx context.Context, cfg config.Config, name string, life time.Duration) (i Issued, err error) {
	if !cfg.TLS.Issues() {
		return i, fmt.Errorf("tls.mode is %s: holdfast issues certificates with %s and %s alone", cfg.TLS.Mode, pki.ModeCA,
			pki.ModeAuto)
	}
	store, err := node.OpenStore(ctx, cfg)
	if err != nil {
		return i, fmt.Errorf("snapshot.store: %w", err)
	}
	source := node.AuthoritySource(cfg, store)
	known, err := source.Authorities(ctx)
	if err != nil {
		return i, fmt.Errorf("read the certificate authorities: %w", err)
	}
	k, err := pki.New(cfg.TLS, node.TLSIdentity(cfg), source, zap.NewNop(), prometheus.NewRegistry())
	if err != nil {
		return i, err
	}
	i.CA = pki.EncodeCertificates(known.Clients.Bundle...)
	if c := known.Clients.Primary; c != nil {
		i.authority = pki.Fingerprint(c)
	}
	i.Certificate, i.Key, err = k.Client(ctx, name, life)
	return i, err
}

// Track has the nodes tell before the certificate ends.
func (i Issued) Track(ctx context.Context, cfg config.Config, name string) error {
	store, err := node.OpenStore(ctx, cfg)
	if err != nil {
		return fmt.Errorf("snapshot.store: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*authorities.StorePatience)
	defer cancel()
	known := &authorities.Issued{Store: store, Cluster: cfg.Cluster.Name}
	return known.Note(ctx, name, i.Certificate, i.authority, time.Now())
}

// Trusted are the authorities of a configuration, which are read without a node, and what is wrong all the
// same. Those of files come without keys.
func Trusted(ctx context.Context, cfg config.Config) (a pki.Authorities, problem, err error) {
	switch cfg.TLS.Mode {
	case pki.ModeCA:
		a, err = pki.FileSource{ClientCAFile: cfg.TLS.ClientCAFile, PeerCAFile: cfg.TLS.PeerCAFile}.Authorities(ctx)
		return a, nil, err
	case pki.ModeAuto:
		store, err := node.OpenStore(ctx, cfg)
		if err != nil {
			return a, nil, fmt.Errorf("snapshot.store: %w", err)
		}
		e, problem, err := authorities.New(node.EditionOptions(cfg), store, zap.NewNop()).Show(ctx)
		if err != nil {
			return a, nil, err
		}
		return e.Authorities(), problem, nil
	}
	return a, nil, fmt.Errorf("tls.mode is %s: only with %s and %s does holdfast know them; "+
		"hand out the file of etcd.trusted-ca-file", cfg.TLS.Mode, pki.ModeAuto, pki.ModeCA)
}
