package config

import (
	"slices"
	"strings"
	"time"

	"holdfast/snapshot"
	"holdfast/snapshot/s3"
	"holdfast/volume"
	"holdfast/volume/ebs"
)

// Volume is the `volume:` section: the provider, and a section for each kind of volume.
type Volume struct {
	volume.Config `mapstructure:",squash"`
	EBS           ebs.Config `mapstructure:"ebs"`
}

// Validate reports every value out of range.
func (c Volume) Validate(wrong func(key, format string, args ...any)) {
	c.Config.Validate(wrong)
	c.EBS.Validate(wrong)
}

// Snapshot is the `snapshot:` section.
type Snapshot struct {
	snapshot.Config `mapstructure:",squash"`
	S3              s3.Config `mapstructure:"s3"`
}

// Validate reports every value out of range.
func (c Snapshot) Validate(wrong func(key, format string, args ...any)) {
	c.Config.Validate(wrong)
	c.S3.Validate(wrong)
	if c.InBucket() {
		if _, _, err := s3.ParseURL(c.Store); err != nil {
			wrong("snapshot.store", "%v", err)
		}
	}
}

// InBucket reports whether the store is a bucket and not a directory.
func (c Snapshot) InBucket() bool { return IsBucket(c.Store) }

// IsBucket reports whether the address of a store is that of a bucket.
func IsBucket(store string) bool { return strings.HasPrefix(store, "s3://") }

// Restore is the `restore:` section.
type Restore struct {
	// Automatic restores the newest backup if every disk is blank and the store has a record of the cluster.
	Automatic bool `mapstructure:"automatic"`
	// ForeignCommands lets nodes propose restores that other programs ask for with a command in the store.
	ForeignCommands bool `mapstructure:"foreign-commands"`
	// RevisionBump is added to the revision of a restored backup, 0 to MaxRevisionBump. More is added if the result would
	// not exceed the last known revision.
	RevisionBump int64 `mapstructure:"revision-bump"`
	// ReclaimAfter is how long a member must serve without a break before data set aside on its volume is deleted. The
	// data must be at least as old. 0 never deletes.
	ReclaimAfter time.Duration `mapstructure:"reclaim-after"`
}

// MaxRevisionBump leaves room for millions of restores in the 63 bits of a revision.
const MaxRevisionBump = 1_000_000_000_000

// Validate reports every value out of range.
func (c Restore) Validate(wrong func(key, format string, args ...any)) {
	if c.RevisionBump < 0 || c.RevisionBump > MaxRevisionBump {
		wrong("restore.revision-bump", "must be 0–%d, got %d", MaxRevisionBump, c.RevisionBump)
	}
	if c.ReclaimAfter < 0 {
		wrong("restore.reclaim-after", "must be 0s (never) or more, got %s", c.ReclaimAfter)
	}
}

// OwnBackupDirectories returns the directories for backups below node.data-dir, which belongs to this node alone.
func (c Config) OwnBackupDirectories() []string {
	all := []string{c.Snapshot.Store, c.Snapshot.Spool, c.Snapshot.Scratch}
	return slices.DeleteFunc(all, func(dir string) bool {
		return dir == "" || IsBucket(dir) || !within(Abs(c.Node.DataDir), Abs(dir))
	})
}
