package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"holdfast/cmd/config"
	"holdfast/embedded/generations"
	"holdfast/snapshot"
	"holdfast/snapshot/s3"
)

// makeBackupDirectories makes the directories of backups that are ours: anywhere else a missing directory may be a
// missing mount.
func makeBackupDirectories(cfg config.Config) error {
	for _, dir := range cfg.OwnBackupDirectories() {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make %s for backups: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

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

// storeIdentity says whose backups are ours where no node can be asked: those of the lineage that the store's newest
// record has. A store without a record has backups of an etcd that we do not run: then the newest one decides.
func storeIdentity(ctx context.Context, store snapshot.Store, cluster string) (snapshot.Identity, error) {
	id := snapshot.Identity{Cluster: cluster}
	record, err := (&generations.Records{Store: store, Cluster: cluster}).Newest(ctx)
	if err != nil {
		return id, err
	}
	if record != nil {
		id.Lineage = record.Lineage()
		return id, nil
	}
	b, _, err := snapshot.Latest(ctx, store, id)
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		return id, err
	}
	id.Lineage = b.Lineage
	return id, nil
}
