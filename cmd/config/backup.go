package config

import (
	"fmt"
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

// nestedDirectories finds backups and volumes inside each other. If one of them is lost, moved or emptied,
// so is the other.
func nestedDirectories(c Config) []contradiction {
	type directory struct{ key, path string }
	key, path := c.VolumeDirectory()
	all := []directory{{key, path}}
	if !c.Snapshot.InBucket() {
		all = append(all, directory{"snapshot.store", c.Snapshot.Store})
	}
	if c.Snapshot.Spool != "" {
		all = append(all, directory{"snapshot.spool", c.Snapshot.Spool})
	}
	all = append(all, directory{"snapshot.scratch", c.Snapshot.Scratch})
	var found []contradiction
	for i, from := range all {
		for _, d := range all[i+1:] {
			if a, b := Abs(from.path), Abs(d.path); within(a, b) || within(b, a) {
				found = append(found, contradiction{[]string{d.key, from.key},
					fmt.Sprintf("must not lie in %s (%s) nor hold it, got %q", from.key, a, d.path)})
			}
		}
	}
	return found
}

// backupContradictions finds keys of backups that exclude each other.
func backupContradictions(c Config) []contradiction {
	var found []contradiction
	s := c.Snapshot
	if s.Format == snapshot.FormatManager && len(s.Recipients) > 0 {
		found = append(found, contradiction{[]string{"snapshot.recipients", "snapshot.format"},
			fmt.Sprintf("must be empty with snapshot.format %s, which knows no encryption, got %d", s.Format,
				len(s.Recipients))})
	}
	if s.Cron != "" && s.Every != snapshot.Default().Every && s.Every != 0 {
		found = append(found, contradiction{[]string{"snapshot.cron", "snapshot.every"},
			fmt.Sprintf("must be empty where snapshot.every is set (to %s), got %q", FormatDuration(s.Every), s.Cron)})
	}
	return found
}

// backupDoubts returns warnings about the sections snapshot and restore.
func backupDoubts(c Config) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	s, r := c.Snapshot, c.Restore
	if s.Every == 0 && s.Cron == "" {
		add("snapshot.every: 0s, no backup is made")
	}
	if s.Drill == 0 {
		add("snapshot.drill: 0s, it is never tried whether a backup can be restored")
	}
	if len(s.Recipients) > 0 && s.IdentityFile == "" {
		add("snapshot.identity-file: not set, so this node makes no drills, and cannot restore or, once saved, fully " +
			"verify its encrypted backups: drill them where the key is")
	}
	if s.IdentityFile != "" {
		if _, err := snapshot.ReadIdentities(s.IdentityFile); err != nil {
			add("%v", err)
		}
	}
	if c.storeInClear() && len(s.Recipients) == 0 {
		add("snapshot.s3.endpoint: %s is not https, so anyone on the way to it reads every backup: take https, or set "+
			"snapshot.recipients",
			s.S3.Endpoint)
	}
	if s.S3 != s3.Default() && !s.InBucket() {
		add("snapshot.s3: set, but snapshot.store is the directory %s", s.Store)
	}
	if r.RevisionBump == 0 {
		add("restore.revision-bump: 0, after a restore the watchers of Kubernetes do not notice that time went back")
	}
	if r.ReclaimAfter > 0 && r.ReclaimAfter < time.Hour {
		add("restore.reclaim-after: %s, what a restore has set aside is deleted almost at once",
			FormatDuration(r.ReclaimAfter))
	}
	return all
}
