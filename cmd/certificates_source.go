package cmd

import (
	"errors"

	"go.uber.org/zap"

	"holdfast/embedded/pki"
	"holdfast/snapshot"
)

// authoritySource is where the authorities come from; nil where none are needed.
func authoritySource(cfg Config, _ snapshot.Store, _ *zap.Logger) (pki.Source, error) {
	switch cfg.TLS.Mode {
	case pki.ModeCA:
		return pki.FileSource(cfg.TLS), nil
	case pki.ModeAuto:
		return nil, errors.New("tls.mode: auto is not built yet")
	}
	return nil, nil
}
