package cmd

import (
	"context"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/pki"
	"holdfast/snapshot"
)

// authoritySource is where a command finds the authorities; nil where none are needed.
func authoritySource(cfg config.Config, store snapshot.Store) pki.Source {
	switch cfg.TLS.Mode {
	case pki.ModeCA:
		return pki.FileSource(cfg.TLS)
	case pki.ModeAuto:
		return shown{newEditions(editionOptions(cfg), store, zap.NewNop())}
	}
	return nil
}

// shown are editions for a command: it makes none, and keeps no copy, which the node might not be allowed to read.
type shown struct{ *editions }

// Authorities implements [pki.Source].
func (s shown) Authorities(ctx context.Context) (pki.Authorities, error) {
	e, _, err := s.show(ctx)
	if err != nil {
		return pki.Authorities{}, err
	}
	return e.authorities(), nil
}

// editionOptions say how the authorities of tls.mode auto are kept.
func editionOptions(cfg config.Config) EditionOptions {
	return EditionOptions{Cluster: cfg.Cluster.Name, Life: cfg.TLS.CALife, Dir: cfg.TLS.Dir, Recipients: len(cfg.Snapshot.Recipients),
		Options: func() (snapshot.Options, error) { return backupOptions(cfg) }}
}
