package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"holdfast/cmd/child"
	"holdfast/cmd/config"
	"holdfast/snapshot"
	"holdfast/snapshot/s3"
)

// makeBackupDirectories makes the default directories for backups. It makes no other, because a missing directory may
// be a missing mount.
func makeBackupDirectories(cfg config.Config) error {
	for _, dir := range cfg.OwnBackupDirectories() {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make %s for backups: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

// OpenStore returns the backup store of the configuration. It sends no request yet.
func OpenStore(ctx context.Context, cfg config.Config) (snapshot.Store, error) {
	store, err := OpenStoreAt(ctx, cfg, cfg.Snapshot.Store)
	if err != nil {
		err = fmt.Errorf("snapshot.store: %w", err)
	}
	return store, err
}

// OpenStoreAt returns the store at a path or a URL. The settings of snapshot.s3 apply to a bucket.
func OpenStoreAt(ctx context.Context, cfg config.Config, at string) (snapshot.Store, error) {
	if !config.IsBucket(at) {
		return snapshot.NewDir(config.Abs(at)), nil
	}
	store, err := s3.New(ctx, at, cfg.Snapshot.S3)
	if err != nil { // a nil *s3.Store in the interface would not be nil
		return nil, err
	}
	return store, nil
}

// OpenSpool returns the spool, or nil if there is none.
func OpenSpool(cfg config.Config) snapshot.Store {
	if cfg.Snapshot.Spool == "" {
		return nil
	}
	return snapshot.NewDir(cfg.Snapshot.Spool)
}

// BackupOptions returns how backups are written and read. It returns the options also with an error.
func BackupOptions(cfg config.Config) (snapshot.Options, error) {
	s := cfg.Snapshot
	opt := snapshot.Options{Scratch: s.Scratch, Rate: int64(s.Rate) << 20, Format: s.Format, Level: s.Compression,
		Examine: child.Examine}
	var err error
	if opt.Recipients, err = snapshot.ParseRecipients(s.Recipients); err != nil {
		return opt, fmt.Errorf("snapshot.recipients: %w", err)
	}
	if s.IdentityFile != "" {
		opt.Identities, err = snapshot.ReadIdentities(s.IdentityFile)
	}
	return opt, err
}
