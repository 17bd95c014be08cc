package node

import (
	"context"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/snapshot"
)

// AuthoritySource is where a command finds the authorities; nil where none are needed.
func AuthoritySource(cfg config.Config, store snapshot.Store) pki.Source {
	switch cfg.TLS.Mode {
	case pki.ModeCA:
		return pki.FileSource(cfg.TLS)
	case pki.ModeAuto:
		return shown{authorities.New(EditionOptions(cfg), store, zap.NewNop())}
	}
	return nil
}

// shown are editions for a command: it makes none, and keeps no copy, which the node might not be allowed to read.
type shown struct{ *authorities.Keeper }

// Authorities implements [pki.Source].
func (s shown) Authorities(ctx context.Context) (pki.Authorities, error) {
	e, _, err := s.Show(ctx)
	if err != nil {
		return pki.Authorities{}, err
	}
	return e.Authorities(), nil
}

// EditionOptions say how the authorities of tls.mode auto are kept.
func EditionOptions(cfg config.Config) authorities.Options {
	return authorities.Options{Cluster: cfg.Cluster.Name, Life: cfg.TLS.CALife, Dir: cfg.TLS.Dir,
		Recipients: len(cfg.Snapshot.Recipients),
		Options:    func() (snapshot.Options, error) { return BackupOptions(cfg) }}
}
