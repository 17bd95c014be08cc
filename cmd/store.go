package cmd

import (
	"context"

	"holdfast/cmd/config"
	"holdfast/snapshot"
	"holdfast/snapshot/s3"
)

// openStore returns the backup store of the configuration. Nothing is asked yet.
func openStore(ctx context.Context, cfg config.Config) (snapshot.Store, error) {
	return openStoreAt(ctx, cfg, cfg.Snapshot.Store)
}

// openStoreAt returns the store at a path or a URL. A bucket is reached as snapshot.s3 says.
func openStoreAt(ctx context.Context, cfg config.Config, at string) (snapshot.Store, error) {
	if !config.IsBucket(at) {
		return snapshot.NewDir(config.Abs(at)), nil
	}
	store, err := s3.New(ctx, at, cfg.Snapshot.S3)
	if err != nil { // not the nil of a type, which is none
		return nil, err
	}
	return store, nil
}

// openSpool returns the spool, nil where there is none.
func openSpool(cfg config.Config) snapshot.Store {
	if cfg.Snapshot.Spool == "" {
		return nil
	}
	return snapshot.NewDir(cfg.Snapshot.Spool)
}

// backupOptions says how backups are written and read here.
func backupOptions(cfg config.Config) (snapshot.Options, error) {
	s := cfg.Snapshot
	opt := snapshot.Options{Scratch: s.Scratch, Rate: int64(s.Rate) << 20, Format: s.Format, Level: s.Compression, Examine: examineApart}
	var err error
	if opt.Recipients, err = snapshot.ParseRecipients(s.Recipients); err != nil {
		return opt, err
	}
	if s.IdentityFile != "" {
		opt.Identities, err = snapshot.ReadIdentities(s.IdentityFile)
	}
	return opt, err
}
