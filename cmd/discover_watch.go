package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/gossip"
	"holdfast/gossip/discover"
	"holdfast/metrics"
)

const (
	// lookEvery is how often the files are looked at when nothing has changed: others write to /etc/hosts, too.
	lookEvery = 5 * time.Second
	// gather is how long the first word of a leader waits for that of the other members. Where one of them is dead there
	// never is a complete view.
	gather = 5 * time.Second
)

// watcher keeps the outputs of `holdfast discover` up to date.
type watcher struct {
	cluster, zone string
	options       discoverOptions
	mesh          *gossip.Mesh
	server        *discover.Server // nil: no DNS
	lg            *zap.Logger
	again         chan struct{} // capacity 1: look at once
	writes        *prometheus.CounterVec
	updated       prometheus.Gauge

	mu        sync.Mutex // guards what follows
	serving   plan.Servers
	directory discover.Directory
	heard     time.Time         // when a leader was first heard of
	serial    uint32            // of the zone
	failed    map[string]string // file -> why it could not be written
}

func newWatcher(cfg config.Config, o discoverOptions, mesh *gossip.Mesh, reg prometheus.Registerer, lg *zap.Logger) *watcher {
	w := &watcher{
		cluster: cfg.Cluster.Name, zone: cfg.Cluster.Name + "." + cfg.Cluster.Domain, options: o, mesh: mesh, lg: lg,
		again: make(chan struct{}, 1), failed: map[string]string{}, serial: uint32(time.Now().Unix()),
		writes: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_discover_writes_total", Help: "Files brought up to date, by result.",
		}, []string{"output", "result"}),
		updated: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
			Name: "holdfast_discover_updated_timestamp_seconds", Help: "When a member was last seen to change.",
		}),
	}
	w.recall()
	return w
}

// recall takes up what an earlier process left in the files.
func (w *watcher) recall() {
	if data, err := os.ReadFile(w.options.endpoints); err == nil && w.options.format == discover.JSON {
		w.directory.Recall(discover.RecallEndpoints(data, w.cluster))
	}
	if data, err := os.ReadFile(w.options.hosts); err == nil {
		w.directory.Recall(discover.RecallHosts(data, w.cluster, w.zone))
	}
}

func (w *watcher) look() {
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// run keeps the outputs up to date until ctx ends, or with --once until they were written.
func (w *watcher) run(ctx context.Context) error {
	w.answer()
	var late <-chan time.Time
	if w.options.once {
		late = time.After(w.options.wait)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		ready, complete := w.observe(time.Now())
		if ready && (complete || !w.options.once) {
			if err := w.write(); w.options.once {
				return err
			}
		}
		var gathered <-chan time.Time
		if !ready {
			gathered = time.After(gather / 10)
		}
		select {
		case <-ctx.Done():
			if w.options.once {
				return errors.New("ended before every member was heard of: nothing was written")
			}
			return nil
		case <-late:
			return w.unheard()
		case <-w.mesh.Changed():
		case <-w.again:
		case <-gathered:
		case <-tick.C:
		}
	}
}

// unheard says what --once has waited for in vain.
func (w *watcher) unheard() error {
	text := "no leader was heard of"
	if w.directory.Known() {
		text = "not heard of the members in " + strings.Join(w.directory.Missing(), ", ")
	}
	for _, p := range w.mesh.Problems() {
		text += "; " + p.Text
	}
	return fmt.Errorf("nothing was written within %s: %s", w.options.wait, text)
}

// observe takes in what the gossip says: ready means that it is worth writing, complete that no member is missing.
func (w *watcher) observe(now time.Time) (ready, complete bool) {
	nodes := w.mesh.Nodes()
	w.mu.Lock()
	w.serving = plan.Serving(w.peers(nodes), w.serving)
	changed := w.directory.Update(view(w.serving, nodes), now)
	if w.heard.IsZero() && w.directory.Known() {
		w.heard = now
	}
	complete = w.directory.Known() && len(w.directory.Missing()) == 0
	ready = w.directory.Known() && (complete || now.Sub(w.heard) >= gather)
	entries := w.directory.Entries()
	w.mu.Unlock()
	if changed {
		w.updated.Set(float64(now.Unix()))
		w.lg.Info("members", zap.Strings("known", places(entries)), zap.Strings("missing", w.directory.Missing()))
	}
	if changed && ready {
		w.answer()
	}
	return ready, complete
}

// peers decodes what the nodes say of themselves. What this version does not understand is nothing said.
func (w *watcher) peers(nodes []gossip.Node) []plan.Peer {
	peers := make([]plan.Peer, 0, len(nodes))
	for _, n := range nodes {
		p := plan.Peer{Node: n.Node, Live: n.Live}
		if n.State != nil {
			var err error
			if p.Facts, err = coordinator.ReadFacts(n.State); err != nil {
				p.Unread = err.Error()
			}
		}
		peers = append(peers, p)
	}
	return peers
}

// view adds to the members the addresses of their nodes.
func view(s plan.Servers, nodes []gossip.Node) discover.View {
	v := discover.View{Known: s.Known, Voters: s.Voters}
	for _, r := range s.Running {
		i := slices.IndexFunc(nodes, func(n gossip.Node) bool { return n.Node == r.Node })
		if i < 0 {
			continue
		}
		v.Running = append(v.Running, discover.Entry{Slot: r.Slot, Node: r.Node, Address: nodes[i].Address, Clients: r.Clients,
			PeerURL: strings.ReplaceAll(r.PeerURL, config.SlotMark, r.Slot), Leader: r.Leader, Live: r.Live})
	}
	return v
}

func places(entries []discover.Entry) []string {
	texts := make([]string, 0, len(entries))
	for _, e := range entries {
		texts = append(texts, fmt.Sprintf("%s=%s (%s)", e.Slot, e.Address, e.Node))
	}
	return texts
}

// answer has the DNS server tell what is known.
func (w *watcher) answer() {
	if w.server == nil {
		return
	}
	w.mu.Lock()
	w.serial++
	z := discover.NewZone(discover.Names{Zone: w.zone}, w.directory.Entries(), w.serial)
	w.mu.Unlock()
	w.server.Set(z)
}

// write brings the files up to date.
func (w *watcher) write() error {
	w.mu.Lock()
	entries := w.directory.Entries()
	w.mu.Unlock()
	var errs []error
	if w.options.hosts != "" {
		errs = append(errs, w.sync("hosts", discover.Hosts(w.options.hosts, w.cluster, discover.Names{Zone: w.zone}, entries)))
	}
	if w.options.endpoints != "" {
		errs = append(errs, w.sync("endpoints", discover.Endpoints(w.options.endpoints, w.options.format, w.cluster, entries)))
	}
	return errors.Join(errs...)
}

func (w *watcher) sync(output string, f discover.File) error {
	wrote, note, err := f.Sync()
	w.mu.Lock()
	before, text := w.failed[f.Path], ""
	if err != nil {
		text = err.Error()
	}
	w.failed[f.Path] = text
	w.mu.Unlock()
	if note != "" {
		w.lg.Warn("the file was repaired", zap.String("file", f.Path), zap.String("what", note))
	}
	switch {
	case err != nil:
		w.writes.WithLabelValues(output, "failed").Inc()
		if text != before {
			w.lg.Error("a file could not be brought up to date; trying again", zap.String("file", f.Path), zap.Error(err))
		}
		return fmt.Errorf("keep %s up to date: %w", f.Path, err)
	case wrote:
		w.writes.WithLabelValues(output, "written").Inc()
		w.lg.Info("wrote", zap.String("file", f.Path))
	}
	return nil
}

func (w *watcher) livez(context.Context) []metrics.Check {
	return []metrics.Check{{Name: "discover", Detail: "runs"}}
}

// readyz says whether what is written can be relied on.
func (w *watcher) readyz(context.Context) []metrics.Check {
	w.mu.Lock()
	defer w.mu.Unlock()
	members := metrics.Check{Name: "members", Detail: strings.Join(places(w.directory.Entries()), ", ")}
	if !w.directory.Known() {
		members.Err = errors.New("no leader was ever heard of")
	} else if missing := w.directory.Missing(); len(missing) > 0 {
		members.Warning = "not heard of the members in " + strings.Join(missing, ", ")
	}
	files := metrics.Check{Name: "files", Detail: "up to date"}
	for _, text := range w.failed {
		if text != "" {
			files.Err = errors.New(text)
		}
	}
	return []metrics.Check{members, files}
}

// status is the document behind /status.
func (w *watcher) status(context.Context) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return map[string]any{"cluster": w.cluster, "members": w.directory.Entries(), "missing": w.directory.Missing(), "problems": health.Texts(gossipFindings(w.mesh.Problems()))}, nil
}
