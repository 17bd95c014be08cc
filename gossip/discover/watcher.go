package discover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
)

const (
	// lookEvery is how often the files are looked at when nothing has changed: others write to /etc/hosts, too.
	lookEvery = 5 * time.Second
	// gather is how long the first word of a leader waits for that of the other members. Where one of them is dead
	// there never is a complete view.
	gather = 5 * time.Second
)

// Feed is where a [Watcher] hears of the members.
type Feed interface {
	View() View               // of this moment
	Changed() <-chan struct{} // tells that there may be another view
	Problems() []string       // why little may be heard, one sentence each
}

// Outputs are what a [Watcher] keeps up to date, and for how long.
type Outputs struct {
	Hosts     string  // a file with a block as in /etc/hosts, "" for none
	Endpoints string  // a file of endpoints, "" for none
	Format    string  // of the endpoints: Lines or JSON
	Server    *Server // nil for none
	// Once ends when all members were heard of and the files are written, or with an error after Wait.
	Once bool
	Wait time.Duration
}

// Watcher keeps outputs up to date with what a feed says.
type Watcher struct {
	cluster string
	names   Names
	out     Outputs
	feed    Feed
	lg      *zap.Logger
	again   chan struct{} // capacity 1: look at once
	writes  *prometheus.CounterVec
	updated prometheus.Gauge

	mu        sync.Mutex // guards what follows
	directory directory
	heard     time.Time         // when a leader was first heard of
	serial    uint32            // of the zone
	untold    bool              // the directory has changed since the zone was made
	failed    map[string]string // file -> why it could not be written
}

// NewWatcher makes a watcher of the cluster, whose members have these names. It begins with what an earlier
// process left in the files, which the server tells from now on.
func NewWatcher(cluster string, names Names, out Outputs, feed Feed, reg prometheus.Registerer,
	lg *zap.Logger) *Watcher {
	w := &Watcher{
		cluster: cluster, names: names, out: out, feed: feed, lg: lg,
		again: make(chan struct{}, 1), failed: map[string]string{}, serial: uint32(time.Now().Unix()), untold: true,
		writes: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_discover_writes_total", Help: "Files brought up to date, by result.",
		}, []string{"output", "result"}),
		updated: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
			Name: "holdfast_discover_updated_timestamp_seconds", Help: "When a member was last seen to change.",
		}),
	}
	if data, err := os.ReadFile(out.Endpoints); err == nil && out.Format == JSON {
		w.directory.Recall(recallEndpoints(data, cluster))
	}
	if data, err := os.ReadFile(out.Hosts); err == nil {
		w.directory.Recall(recallHosts(data, cluster, names.Zone))
	}
	w.answer()
	return w
}

// Look has Run look at feed and files at once.
func (w *Watcher) Look() {
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// Run keeps the outputs up to date until ctx ends, or with Once until they were written. It does not run the server.
func (w *Watcher) Run(ctx context.Context) error {
	var late <-chan time.Time
	if w.out.Once {
		late = time.After(w.out.Wait)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		ready, complete := w.observe(time.Now())
		if ready && (complete || !w.out.Once) {
			if err := w.write(); w.out.Once {
				return err
			}
		}
		var gathered <-chan time.Time
		if !ready {
			gathered = time.After(gather / 10)
		}
		select {
		case <-ctx.Done():
			if w.out.Once {
				return errors.New("ended before every member was heard of: nothing was written")
			}
			return nil
		case <-late:
			return w.unheard()
		case <-w.feed.Changed():
		case <-w.again:
		case <-gathered:
		case <-tick.C:
		}
	}
}

// unheard says what Once has waited for in vain.
func (w *Watcher) unheard() error {
	text := "no leader was heard of"
	if w.directory.known {
		text = "not heard of the members in " + strings.Join(w.directory.missing, ", ")
	}
	text = strings.Join(append([]string{text}, w.feed.Problems()...), "; ")
	return fmt.Errorf("nothing was written within %s: %s", w.out.Wait, text)
}

// observe takes in what the feed says: ready means that it is worth writing, complete that no member is missing.
func (w *Watcher) observe(now time.Time) (ready, complete bool) {
	v := w.feed.View()
	w.mu.Lock()
	changed := w.directory.Update(v, now)
	if w.heard.IsZero() && w.directory.known {
		w.heard = now
	}
	w.untold = w.untold || changed
	missing := w.directory.missing
	complete = w.directory.known && len(missing) == 0
	ready = w.directory.known && (complete || now.Sub(w.heard) >= gather)
	entries := w.directory.Entries()
	w.mu.Unlock()
	if changed {
		w.updated.Set(float64(now.Unix()))
		w.lg.Info("members", zap.Strings("known", Places(entries)), zap.Strings("missing", missing))
	}
	if ready {
		w.answer()
	}
	return ready, complete
}

// Places says in a few words where each member is.
func Places(entries []Entry) []string {
	texts := make([]string, 0, len(entries))
	for _, e := range entries {
		texts = append(texts, fmt.Sprintf("%s=%s (%s)", e.Slot, e.Address, e.Node))
	}
	return texts
}

// answer has the server tell what is known, if that has changed.
func (w *Watcher) answer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out.Server == nil || !w.untold {
		return
	}
	w.untold = false
	w.serial++
	w.out.Server.Set(newZone(w.names, w.directory.Entries(), w.serial))
}

// write brings the files up to date.
func (w *Watcher) write() error {
	w.mu.Lock()
	entries := w.directory.Entries()
	w.mu.Unlock()
	var errs []error
	if w.out.Hosts != "" {
		errs = append(errs, w.sync("hosts", hostsFile(w.out.Hosts, w.cluster, w.names, entries)))
	}
	if w.out.Endpoints != "" {
		errs = append(errs, w.sync("endpoints", endpointsFile(w.out.Endpoints, w.out.Format, w.cluster, entries)))
	}
	return errors.Join(errs...)
}

func (w *Watcher) sync(output string, f outputFile) error {
	wrote, note, err := f.Sync()
	w.mu.Lock()
	before := w.failed[f.Path]
	delete(w.failed, f.Path)
	if err != nil {
		w.failed[f.Path] = err.Error()
	}
	w.mu.Unlock()
	if note != "" {
		w.lg.Warn("the file was repaired", zap.String("file", f.Path), zap.String("what", note))
	}
	switch {
	case err != nil:
		w.writes.WithLabelValues(output, "failed").Inc()
		if err.Error() != before {
			w.lg.Error("a file could not be brought up to date; trying again", zap.String("file", f.Path), zap.Error(err))
		}
		return fmt.Errorf("keep %s up to date: %w", f.Path, err)
	case wrote:
		w.writes.WithLabelValues(output, "written").Inc()
		w.lg.Info("wrote", zap.String("file", f.Path))
	}
	return nil
}

// State is what a watcher knows, and what it could not write.
type State struct {
	Known   bool     // a leader was heard of
	Entries []Entry  // what is told
	Missing []string // slots whose members were never heard of
	Failed  []string // why files are not up to date
}

// State returns what the watcher knows now.
func (w *Watcher) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return State{Known: w.directory.known, Entries: w.directory.Entries(), Missing: w.directory.missing,
		Failed: slices.Collect(maps.Values(w.failed))}
}
