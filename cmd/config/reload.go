package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Change is a key whose value differs between two configurations. Old and New are in the syntax of a flag, with
// references instead of their values.
type Change struct {
	Key, Old, New string
}

// reloadableKeys are the keys that a running node can change. All others are about what it has bound, claimed or told
// its peers.
var reloadableKeys = []string{
	"cluster.slots", "cluster.size",
	"log.level", "snapshot.every", "snapshot.cron", "snapshot.retry", "snapshot.drill", "snapshot.rate",
	"snapshot.keep.all", "snapshot.keep.hourly", "snapshot.keep.daily", "snapshot.keep.newest",
}

// reloads reports whether a running node can change a key to its value in n. It takes nothing from another cluster's
// file, nor from one that does not name the slots any more: a file that was mixed up or cut off must remove neither
// members nor backups.
func (l *Loaded) reloads(n *Loaded, key string) bool {
	was, is := l.Config.Cluster, n.Config.Cluster
	return slices.Contains(reloadableKeys, key) && was.Name == is.Name && (was.Unset || !is.Unset)
}

// takeOver sets the reloadable keys of l to their values in n.
func (l *Loaded) takeOver(n *Loaded) {
	for _, k := range Keys() {
		if l.reloads(n, k.Name) {
			k.value(&l.Config).Set(k.value(&n.Config))
			if text, ok := n.shown[k.Name]; ok {
				l.shown[k.Name] = text
			} else {
				delete(l.shown, k.Name)
			}
		}
	}
	if l.reloads(n, "cluster.slots") {
		l.Config.Cluster.Unset = n.Config.Cluster.Unset
	}
}

// diff returns the keys that n changes: those that a running node can apply, and those that need a restart.
func (l *Loaded) diff(n *Loaded) (reloadable, restart []Change) {
	for _, k := range Keys() {
		c := Change{k.Name, l.Text(k), n.Text(k)}
		same := k.Text(&l.Config) == k.Text(&n.Config)
		if !same && c.Old == c.New {
			c.New += " (which holds another value now)"
		}
		switch {
		case same:
		case l.reloads(n, c.Key):
			reloadable = append(reloadable, c)
		default:
			restart = append(restart, c)
		}
	}
	return reloadable, restart
}

// Reload calls load and applies the reloadable keys to l. It returns the changes that it applied, and those that need a
// restart. An invalid configuration changes nothing.
func (l *Loaded) Reload(load func() (*Loaded, error), level zap.AtomicLevel,
	lg *zap.Logger) (taken, restart []Change, err error) {
	next, err := load()
	if err != nil {
		lg.Error("the changed configuration is wrong and was not taken over", zap.Error(err))
		return nil, nil, err
	}
	taken, restart = l.diff(next)
	for _, c := range taken {
		lg.Info("configuration reloaded", zap.String("key", c.Key), zap.String("old", c.Old), zap.String("new", c.New))
	}
	for _, c := range restart {
		lg.Warn("configuration changed, but this key needs a restart", zap.String("key", c.Key), zap.String("running", c.Old),
			zap.String("file", c.New))
	}
	l.takeOver(next)
	if to, err := zapcore.ParseLevel(l.Config.Log.Level); err == nil {
		level.SetLevel(to)
	}
	return taken, restart, nil
}

// Watch calls changed after each SIGHUP and each change of the file's content or mode, until ctx is done; then it
// returns nil. If the file becomes unreadable, that is a change too. The first call comes at the start, because the
// file may have changed since it was loaded. Calls are never concurrent. Without a file, only SIGHUP counts. The same
// holds, with a logged warning, if the file cannot be watched: other processes may have used up inotify's limits.
func Watch(ctx context.Context, file string, lg *zap.Logger, changed func()) error {
	w := newFileWatch(file, lg)
	defer w.close()
	w.run(ctx, changed)
	return nil
}

// settleTime is the pause between two looks at a file after an event. Only content that both looks see counts, because
// editors and copies write in several steps. Waiting until events stop would not do: another file in the same directory
// may change all the time.
const settleTime = 100 * time.Millisecond

// digest identifies the content and the mode of a file. The zero digest means that the file cannot be read.
type digest [sha256.Size]byte

// fileWatch watches directories, not the file: editors replace the file by a rename, and Kubernetes replaces a symbolic
// link beside it. It compares the content, and so ignores what an event says.
type fileWatch struct {
	file   string
	last   digest // of the content at the last call of changed
	seen   digest // of the content at the last look
	lg     *zap.Logger
	hangup chan os.Signal
	fs     *fsnotify.Watcher // nil: nothing to watch, or not possible
}

// newFileWatch starts to collect events, which run handles.
func newFileWatch(file string, lg *zap.Logger) *fileWatch {
	w := &fileWatch{file: file, lg: lg, hangup: make(chan os.Signal, 1)}
	signal.Notify(w.hangup, syscall.SIGHUP)
	if file == "" {
		return w
	}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		w.warn(err)
		return w
	}
	w.fs = fs
	w.addDirectories()
	return w
}

func (w *fileWatch) close() {
	signal.Stop(w.hangup)
	if w.fs != nil {
		w.fs.Close()
	}
}

func (w *fileWatch) run(ctx context.Context, changed func()) {
	var events <-chan fsnotify.Event
	var errs <-chan error
	if w.fs != nil {
		events, errs = w.fs.Events, w.fs.Errors
	}
	look := time.After(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.hangup:
			w.last = contentOf(w.file)
			changed()
		case <-events:
			if look == nil {
				look = time.After(settleTime)
			}
		case err := <-errs: // events were lost, perhaps one about this file
			w.warn(err)
			look = time.After(settleTime)
		case <-look:
			look = nil
			w.addDirectories()
			isNew, again := w.look()
			if isNew {
				changed()
			}
			if again {
				look = time.After(settleTime)
			}
		}
	}
}

// look reports whether the content has changed and settled, or whether to look again because it may still be changing.
func (w *fileWatch) look() (isNew, again bool) {
	now := contentOf(w.file)
	switch {
	case now == w.last:
		return false, false
	case now != w.seen:
		w.seen = now
		return false, true
	default:
		w.last = now
		return true, false
	}
}

// addDirectories watches the directory of the file and that of the file's target, if it is a link. The target may be
// another one after each change. Adding a directory again is harmless.
func (w *fileWatch) addDirectories() {
	if w.fs == nil {
		return
	}
	directories := []string{filepath.Dir(w.file)}
	if target, err := filepath.EvalSymlinks(w.file); err == nil {
		directories = append(directories, filepath.Dir(target))
	}
	for _, d := range directories {
		if err := w.fs.Add(d); err != nil {
			w.warn(err)
		}
	}
}

func (w *fileWatch) warn(err error) {
	w.lg.Warn("config file was not watched, SIGHUP still reloads it", zap.String("file", w.file), zap.Error(err))
}

// contentOf returns the digest of the file's content and mode: a file that everyone may change is refused.
func contentOf(file string) digest {
	data, err := readFile(file)
	if err != nil {
		return digest{}
	}
	info, err := os.Stat(file)
	if err != nil {
		return digest{}
	}
	return sha256.Sum256(fmt.Append(data, info.Mode()))
}
