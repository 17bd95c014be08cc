package cmd

import (
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/snapshot"
)

// authoritySource is where a command finds the authorities; nil where none are needed.
func authoritySource(cfg config.Config, store snapshot.Store) pki.Source {
	switch cfg.TLS.Mode {
	case pki.ModeCA:
		return pki.FileSource(cfg.TLS)
	case pki.ModeAuto:
		return shown{authorities.New(editionOptions(cfg), store, zap.NewNop())}
	}
	return nil
}

// shown are editions for a command: it makes none, and keeps no copy, which the node might not be allowed to read.
type shown struct{ *authorities.Keeper }

// editionOptions say how the authorities of tls.mode auto are kept.
func editionOptions(cfg config.Config) authorities.Options {
	return authorities.Options{Cluster: cfg.Cluster.Name, Life: cfg.TLS.CALife, Dir: cfg.TLS.Dir, Recipients: len(cfg.Snapshot.Recipients),
		Options: func() (snapshot.Options, error) { return backupOptions(cfg) }}
}
