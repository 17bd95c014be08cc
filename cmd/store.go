package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"holdfast/snapshot"
)

// openStore returns the backup store of the configuration. Its directory is made only where it lies
// below node.data-dir, which is ours: anywhere else a missing directory may be a missing mount.
func openStore(cfg Config) (snapshot.Store, error) {
	for _, dir := range []string{cfg.Snapshot.Store, cfg.Snapshot.Scratch} {
		if !within(absolute(cfg.Node.DataDir), absolute(dir)) {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make %s for backups: %w", filepath.Base(dir), err)
		}
	}
	return snapshot.NewDir(cfg.Snapshot.Store), nil
}

// get reads a small object whole.
func get(ctx context.Context, s snapshot.Store, name string, limit int64) (data []byte, err error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := r.Close(); err == nil {
			err = e
		}
	}()
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("object %s is larger than %d bytes", name, limit)
	}
	return data, err
}
