package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/durable"
	"holdfast/embedded/generations"
	"holdfast/snapshot"
)

// Backups are the backups that a configuration names: those in the store, and in the spool of this machine.
type Backups struct {
	Config config.Config
	Store  snapshot.Store // snapshot.store

	spool  snapshot.Store // nil: there is none on this machine
	opt    snapshot.Options
	optErr error     // why opt cannot be used; most commands do not need it
	said   io.Writer // standard error
}

// OpenStore opens the store of the configuration, with a limit for each request. said is standard error.
func OpenStore(ctx context.Context, cfg config.Config, said io.Writer) (snapshot.Store, error) {
	store, err := node.OpenStore(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.Snapshot.Store, err)
	}
	return timely(store, cfg.Snapshot.Store, said), nil
}

// patience is how long a store may take to answer a command's request.
const patience = 30 * time.Second

// timely limits each request to a store. The first time that the store takes long, it says on said which one it is; at
// is the store as it is configured.
func timely(store snapshot.Store, at string, said io.Writer) *snapshot.Timely {
	return &snapshot.Timely{Store: store, Limit: patience, Slow: sync.OnceFunc(func() {
		fmt.Fprintf(said, "waiting for the store %s, which has not answered for %s; Ctrl-C ends the command\n", at,
			snapshot.Silence)
	})}
}

// Open opens the store and the spool of the configuration. It ignores a spool or a scratch directory that does not
// exist, because a machine without a node has none. by names the caller in recorded results; said is standard error.
func Open(ctx context.Context, cfg config.Config, by string, said io.Writer) (*Backups, error) {
	store, err := OpenStore(ctx, cfg, said)
	if err != nil {
		return nil, err
	}
	b := &Backups{Config: cfg, Store: store, said: said}
	if exists, _ := there(cfg.Snapshot.Spool); exists {
		b.spool = timely(node.OpenSpool(cfg), cfg.Snapshot.Spool, said)
	}
	b.opt, b.optErr = node.BackupOptions(cfg)
	b.opt.By = by
	switch exists, answers := there(cfg.Snapshot.Scratch); {
	case !answers:
		b.optErr = cmp.Or(b.optErr, fmt.Errorf("snapshot.scratch: %s has not answered for %s: make the disk answer, or set "+
			"another directory", cfg.Snapshot.Scratch, snapshot.Silence))
	case !exists:
		b.opt.Scratch = "" // the system's temporary directory
	}
	return b, nil
}

// there reports whether a directory exists, and whether its disk answers. One whose disk does not answer exists.
func there(dir string) (exists, answers bool) {
	if dir == "" {
		return false, true
	}
	missing, answers := durable.Soon(snapshot.Silence, func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
	return !missing, answers
}

// identity returns the identity of the cluster's own backups in the store.
func (b *Backups) identity(ctx context.Context) (snapshot.Identity, error) {
	id, err := generations.Identity(ctx, b.Store, b.Config.Cluster.Name)
	if err != nil {
		err = fmt.Errorf("read %s: %w", b.Config.Snapshot.Store, err)
	}
	return id, err
}

// list returns the backups in the store, oldest first.
func (b *Backups) list(ctx context.Context) ([]snapshot.Backup, snapshot.Identity, error) {
	id, err := b.identity(ctx)
	if err != nil {
		return nil, id, err
	}
	all, err := snapshot.List(ctx, b.Store, id)
	if err != nil {
		return nil, id, fmt.Errorf("list backups in %s: %w", b.Config.Snapshot.Store, err)
	}
	return all, id, nil
}

// Latest is the name of the newest good backup of our own cluster.
const Latest = "latest"

// resolve returns name or, for latest, the name of that backup in the store. It prints which backups latest skips, and
// which one may hold more.
func (b *Backups) resolve(ctx context.Context, name string) (string, error) {
	if name != Latest {
		return name, nil
	}
	all, id, err := b.list(ctx)
	if err != nil {
		return "", err
	}
	now := time.Now()
	if doubt := snapshot.Doubt(all, now); doubt != nil {
		fmt.Fprintln(b.said, doubt)
	}
	found, skipped, err := snapshot.LatestOf(all, id.Cluster, now)
	if err != nil {
		return "", fmt.Errorf("find the latest backup in %s: %w", b.Config.Snapshot.Store, err)
	}
	for _, text := range show.SkippedTexts(skipped, found, now) {
		fmt.Fprintln(b.said, text)
	}
	return found.Name, nil
}

// Progressing runs f with options that show the progress of reading or writing a backup.
func (b *Backups) Progressing(f func(opt snapshot.Options) error) error {
	if b.optErr != nil {
		return b.optErr
	}
	bar := show.NewProgress(b.said)
	defer bar.End()
	opt := b.opt
	opt.Progress = bar.Show
	return f(opt)
}

// Instead returns a text that names the newest good backup other than the bad ones, which need not be recorded as bad.
// It is "" if there is none, or the store cannot be read.
func (b *Backups) Instead(ctx context.Context, bad ...string) string {
	all, _, err := b.list(ctx)
	if err != nil {
		return ""
	}
	return show.InsteadText(all, bad...)
}

// noSuchBackup returns the error for a name that is not in the store.
func noSuchBackup(name string) error {
	return fmt.Errorf("there is no backup %s (`holdfast snapshot list` shows what is there)", name)
}
