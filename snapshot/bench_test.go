package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// member is a Source that a test controls.
type member struct {
	db      *snapshottest.DB
	leader  atomic.Bool
	refuses atomic.Bool
	held    atomic.Bool // nothing may be pruned
	began   atomic.Int64
	later   atomic.Uint64 // how many generations later than that of identity
}

func (m *member) Leader() bool { return m.leader.Load() }

func (m *member) Begin(context.Context) (snapshot.Tx, snapshot.Meta, error) {
	m.began.Add(1)
	if m.refuses.Load() {
		return nil, snapshot.Meta{}, errors.New("not ready")
	}
	meta := identity
	meta.Generation += m.later.Load()
	return m.db.Begin(), meta, nil
}

func (m *member) Identity() snapshot.Identity {
	id := ours
	id.Generation = identity.Generation + m.later.Load()
	return id
}

func (m *member) Hold() string {
	if m.held.Load() {
		return "another program runs a member"
	}
	return ""
}

// bench is a keeper under test with everything around it.
type bench struct {
	*snapshot.Keeper
	member *member
	dir    string
	store  *switched
	spool  snapshot.Store // nil if there is none
	cfg    snapshot.Config
	drill  func(ctx context.Context, name string) (snapshot.Drill, error)
	logs   *observer.ObservedLogs
	reg    *prometheus.Registry
}

// switched is a store that can be cut off, and that can refuse deletions.
type switched struct {
	snapshot.Store
	off, locked atomic.Bool
	slow        atomic.Int64 // how long each Get takes
	throttled   atomic.Int64 // how long each Delete takes
	full        atomic.Bool
	hangs       atomic.Pointer[chan struct{}] // until it is closed or the context ends
	placed      func()                        // if it is not nil, it is called after each Put
	lists       atomic.Pointer[outdated]      // lists instead, if it is not nil
}

func (s *switched) fault(ctx context.Context) error {
	if until := s.hangs.Load(); until != nil {
		select {
		case <-*until:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if s.off.Load() {
		return errors.New("no route to host")
	}
	return nil
}

func (s *switched) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	if err := s.fault(ctx); err != nil {
		return nil, err
	}
	if old := s.lists.Load(); old != nil {
		return old.List(ctx, prefix)
	}
	return s.Store.List(ctx, prefix)
}

func (s *switched) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := s.fault(ctx); err != nil {
		return nil, err
	}
	if wait := time.Duration(s.slow.Load()); wait > 0 { // Go 1.26 crashes at time.After(0) in synctest with -race
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return s.Store.Get(ctx, name)
}

func (s *switched) Put(ctx context.Context, name string, r io.Reader) error {
	if err := s.fault(ctx); err != nil {
		return err
	}
	if s.full.Load() {
		_, _ = io.ReadFull(r, make([]byte, 10))
		return fmt.Errorf("write %s: %w", name, syscall.ENOSPC)
	}
	if s.placed != nil {
		defer s.placed()
	}
	return s.Store.Put(ctx, name, r)
}

func (s *switched) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if err := s.fault(ctx); err != nil {
		return err
	}
	return s.Store.PutIfAbsent(ctx, name, data)
}

func (s *switched) Delete(ctx context.Context, name string) error {
	if s.locked.Load() {
		return errors.New("object is locked")
	}
	if wait := time.Duration(s.throttled.Load()); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.Store.Delete(ctx, name)
}

// keeper runs test in a bubble with a keeper that saves every 15 minutes, retries after 30 seconds and keeps everything
// for a month. setup, if any, changes that before the keeper starts.
func keeper(t *testing.T, test func(t *testing.T, b *bench), setup ...func(b *bench)) {
	t.Helper()
	db := smallDB(t)
	dir, scratch, spool := t.TempDir(), t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{member: &member{db: db}, dir: dir, store: &switched{Store: snapshot.NewDir(dir)}, cfg: snapshot.Default()}
		b.cfg.Scratch, b.cfg.Spool, b.cfg.Keep.All = scratch, spool, 30*24*time.Hour
		for _, set := range setup {
			set(b)
		}
		b.start(t)
		test(t, b)
	})
}

// withSpool gives the keeper a spool that can be cut off.
func withSpool(b *bench) { b.spool = &switched{Store: snapshot.NewDir(b.cfg.Spool)} }

// start runs a new keeper, as after a restart of the process.
func (b *bench) start(t *testing.T) (stop func()) {
	core, logs := observer.New(zap.InfoLevel)
	b.logs, b.reg = logs, prometheus.NewRegistry()
	b.Keeper = snapshot.NewKeeper(b.cfg, "prod", snapshot.Stores{Main: b.store, Spool: b.spool}, b.member, snapshot.Options{}, b.drill, zap.New(core), b.reg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	keeper := b.Keeper
	go func() { done <- keeper.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: want nil, got %v", err)
		}
	})
	t.Cleanup(stop)
	synctest.Wait()
	return stop
}

func (b *bench) backups(t *testing.T) int {
	t.Helper()
	return len(backups(t, b.store.Store))
}

// backups lists a store.
func backups(t *testing.T, store snapshot.Store) []snapshot.Backup {
	t.Helper()
	list, err := snapshot.List(t.Context(), store, ours)
	must(t, err)
	return list
}

// forgeAt puts an apparently good backup made at that time into store.
func forgeAt(t *testing.T, store snapshot.Store, meta snapshot.Meta, at time.Time) {
	t.Helper()
	meta.Name = snapshot.FormatName(at)
	meta.Created, _ = snapshot.ParseName(meta.Name)
	text, err := snapshot.EncodeMeta(meta)
	must(t, err)
	must(t, store.Put(t.Context(), meta.Name+"/etcd.backup.zst", strings.NewReader(strings.Repeat("x", int(meta.Stored.Size)))))
	must(t, store.Put(t.Context(), meta.Name+"/holdfast.meta.json", strings.NewReader(string(text))))
}

// pass lets time pass, and then wants this number of backups.
func (b *bench) pass(t *testing.T, d time.Duration, want int) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	if got := b.backups(t); got != want {
		t.Fatalf("backups %s later: want %d, got %d", d, want, got)
	}
}

// metrics returns the value of every series, by its name and label values.
func (b *bench) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := b.reg.Gather()
	must(t, err)
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) != 0 {
		t.Errorf("lint of metrics: %v, %v", problems, err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "holdfast_snapshot_")
			for _, l := range m.GetLabel() {
				name += "/" + l.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

// wantSeries compares some series.
func (b *bench) wantSeries(t *testing.T, want map[string]float64) {
	t.Helper()
	values := b.metrics(t)
	for name, want := range want {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s: want %g, got %g (there: %t)", name, want, got, ok)
		}
	}
}
