package snapshot_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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

// member is a Source in the hands of a test.
type member struct {
	db      *snapshottest.DB
	leader  atomic.Bool
	refuses atomic.Bool
	began   atomic.Int64
}

func (m *member) Leader() bool { return m.leader.Load() }

func (m *member) Begin(context.Context) (snapshot.Tx, snapshot.Meta, error) {
	m.began.Add(1)
	if m.refuses.Load() {
		return nil, snapshot.Meta{}, errors.New("not ready")
	}
	return m.db.Begin(), identity, nil
}

// bench is a keeper under test with all around it.
type bench struct {
	*snapshot.Keeper
	member *member
	dir    string
	store  *switched
	logs   *observer.ObservedLogs
	reg    *prometheus.Registry
}

// switched is a store that can be cut off.
type switched struct {
	snapshot.Store
	off atomic.Bool
}

func (s *switched) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	if s.off.Load() {
		return nil, errors.New("no route to host")
	}
	return s.Store.List(ctx, prefix)
}

func (s *switched) Put(ctx context.Context, name string, r io.Reader) error {
	if s.off.Load() {
		return errors.New("no route to host")
	}
	return s.Store.Put(ctx, name, r)
}

// keeper runs test in a bubble with a keeper that saves every 15 minutes and retries after 30 seconds.
func keeper(t *testing.T, test func(t *testing.T, b *bench)) {
	db := smallDB(t)
	dir, scratch := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{member: &member{db: db}, dir: dir, store: &switched{Store: snapshot.NewDir(dir)}}
		b.start(t, scratch)
		test(t, b)
	})
}

// start runs a new keeper, as after a restart of the process.
func (b *bench) start(t *testing.T, scratch string) (stop func()) {
	core, logs := observer.New(zap.InfoLevel)
	b.logs, b.reg = logs, prometheus.NewRegistry()
	cfg := snapshot.Default()
	cfg.Scratch = scratch
	b.Keeper = snapshot.NewKeeper(cfg, "prod", b.store, b.member, zap.New(core), b.reg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
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
	list, err := snapshot.List(t.Context(), b.store.Store, "prod")
	must(t, err)
	return len(list)
}

// pass lets time go by and wants a number of backups then.
func (b *bench) pass(t *testing.T, d time.Duration, want int) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	if got := b.backups(t); got != want {
		t.Fatalf("backups %s later: want %d, got %d", d, want, got)
	}
}

func TestKeeperSchedule(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.pass(t, time.Hour, 0) // it does not lead
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1) // at once, there is none
		first := b.Status().Newest
		if due := first.Created.Add(15 * time.Minute); !b.Status().Due.Equal(due) {
			t.Errorf("due: want %s, got %s", due, b.Status().Due)
		}
		b.pass(t, 14*time.Minute+50*time.Second, 1)
		b.pass(t, 20*time.Second, 2)
		b.pass(t, time.Hour, 6)

		b.member.leader.Store(false)
		b.pass(t, time.Hour, 6)
		if s := b.Status(); s.Leading || s.Overdue || !s.Due.IsZero() {
			t.Errorf("status of a follower: got %+v", s)
		}
	})
}

// TestKeeperPhase changes the leader, restarts, and lets others save: a backup is due 15 minutes after the newest one
// in the store, whoever made it.
func TestKeeperPhase(t *testing.T) {
	scratch := t.TempDir()
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 10*time.Minute, 1)
		b.member.leader.Store(false)
		b.pass(t, 2*time.Second, 1)
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1) // not again because of the election
		b.start(t, scratch)         // a second node, and then it is this one that leads
		b.pass(t, 2*time.Second, 1)
		if got := b.Status().Newest.Content.Revision; got != 6 {
			t.Errorf("newest backup after a restart: want revision 6 from the store, got %d", got)
		}
	})
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 10*time.Minute, 1)
		_, err := snapshot.Save(t.Context(), b.store, b.member.db.Begin(), identity, snapshot.Options{Scratch: scratch})
		must(t, err)
		b.pass(t, 14*time.Minute, 2)
		b.pass(t, 2*time.Minute, 3)
	})
}

// TestKeeperFuture finds a backup by a node whose clock is a year ahead, and does not wait a year.
func TestKeeperFuture(t *testing.T) {
	_, _, meta := saved(t, smallDB(t))
	keeper(t, func(t *testing.T, b *bench) {
		name := snapshot.FormatName(time.Now().Add(365 * 24 * time.Hour))
		meta.Name = name
		meta.Created, _ = snapshot.ParseName(name)
		text, err := snapshot.EncodeMeta(meta)
		must(t, err)
		must(t, b.store.Put(t.Context(), "prod/"+name+"/etcd.backup.zst", strings.NewReader(strings.Repeat("x", int(meta.Stored.Size)))))
		must(t, b.store.Put(t.Context(), "prod/"+name+"/holdfast.meta.json", strings.NewReader(string(text))))
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 2)
		b.pass(t, 10*time.Minute, 2) // nor does it save all the time
		b.pass(t, 6*time.Minute, 3)
	})
}

// TestKeeperClockSetBack sets the clock back behind the newest backup, which it must not wait for.
func TestKeeperClockSetBack(t *testing.T) {
	now := time.Now()
	if got, want := snapshot.Due(now, time.Minute, now), now.Add(time.Minute); !got.Equal(want) {
		t.Errorf("due: want %s, got %s", want, got)
	}
	if got := snapshot.Due(now.Add(time.Hour), time.Minute, now); got.After(now) {
		t.Errorf("due after the clock was set back: want the past, got %s", got)
	}
}

// TestKeeperUnfinished finds only an unfinished backup: that is none.
func TestKeeperUnfinished(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		name := snapshot.FormatName(time.Now())
		must(t, b.store.Put(t.Context(), "prod/"+name+"/etcd.backup.zst", strings.NewReader("x")))
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 2)
	})
}

func TestKeeperFailures(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, time.Minute, 1)
		b.store.off.Store(true)
		time.Sleep(14*time.Minute + 5*time.Second)
		synctest.Wait()
		attempts := []time.Time{b.Status().Attempted}
		for range 7 {
			for before := b.Status().Attempted; b.Status().Attempted.Equal(before); {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			attempts = append(attempts, b.Status().Attempted)
		}
		for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute} {
			if got := attempts[i+1].Sub(attempts[i]); got != want {
				t.Errorf("wait after failure %d: want %s, got %s", i+1, want, got)
			}
		}
		s := b.Status()
		if s.Failures != 8 || !s.Overdue || !strings.Contains(s.LastError, "no route to host") || s.Newest.Name == "" {
			t.Errorf("status: want 8 failures, overdue, the error, the backup there is, got %+v", s)
		}
		b.wantMetrics(t, 1, 8, 8)
		b.member.refuses.Store(true) // two faults at once: the first one seen stays the reason
		if got := b.logs.FilterMessage("backup was not saved").Len(); got != 1 {
			t.Errorf("errors logged for one reason: want 1, got %d", got)
		}
		b.store.off.Store(false)
		time.Sleep(16 * time.Minute)
		if got := b.logs.FilterMessage("backup was not saved").Len(); got != 2 {
			t.Errorf("errors logged for two reasons: want 2, got %d", got)
		}
		b.member.refuses.Store(false)
		b.pass(t, 16*time.Minute, 2)
		if s := b.Status(); s.Failures != 0 || s.Overdue || s.LastError != "" {
			t.Errorf("status after recovery: got %+v", s)
		}
		b.wantMetrics(t, 2, 9, 0)
	})
}

func (b *bench) wantMetrics(t *testing.T, saves, failures, consecutive int) {
	t.Helper()
	families, err := b.reg.Gather()
	must(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "/" + l.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	newest := b.Status().Newest
	for name, want := range map[string]float64{
		"holdfast_snapshot_saves_total/saved":              float64(saves),
		"holdfast_snapshot_saves_total/failed":             float64(failures),
		"holdfast_snapshot_consecutive_failures":           float64(consecutive),
		"holdfast_snapshot_bytes":                          float64(newest.Stored.Size),
		"holdfast_snapshot_last_success_timestamp_seconds": float64(newest.Created.UnixMicro()) / 1e6,
	} {
		if got := values[name]; got != want {
			t.Errorf("%s: want %g, got %g", name, want, got)
		}
	}
	for _, name := range []string{"holdfast_snapshot_failures_total/mismatch", "holdfast_snapshot_duration_seconds"} {
		if _, ok := values[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) != 0 {
		t.Errorf("lint of metrics: %v, %v", problems, err)
	}
}

// TestKeeperLosesLead fails, and then another node leads: what is left to do is no longer this node's alarm.
func TestKeeperLosesLead(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.store.off.Store(true)
		b.member.leader.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := b.Status(); s.Failures == 0 || !s.Overdue {
			t.Errorf("status of a leader without a backup for an hour: got %+v", s)
		}
		b.member.leader.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := b.Status(); s.Failures != 0 || s.Overdue {
			t.Errorf("status of a follower: got %+v", s)
		}
	})
}

// TestKeeperTakesOver leads again after a day in which others did. What it remembers is a day old, which is not the
// same as a day without a backup.
func TestKeeperTakesOver(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1)
		b.member.leader.Store(false)
		b.pass(t, 24*time.Hour, 1)
		b.store.off.Store(true)
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1)
		if s := b.Status(); !s.Leading || s.Failures != 1 || s.Overdue {
			t.Errorf("status of a new leader: want one failure, not overdue, got %+v", s)
		}
		b.pass(t, 31*time.Minute, 1)
		if s := b.Status(); !s.Overdue {
			t.Errorf("status half an hour later: want overdue, got %+v", s)
		}
	})
}

func TestKeeperReconfigure(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.Reconfigure(0, time.Second)
		b.member.leader.Store(true)
		b.pass(t, time.Hour, 0)
		if s := b.Status(); s.Overdue || !s.Due.IsZero() {
			t.Errorf("status when off: got %+v", s)
		}
		b.Reconfigure(time.Minute, time.Second)
		b.pass(t, 2*time.Second, 1)
		b.pass(t, 3*time.Minute, 4)
	})
}

func TestKeeperDamagedStore(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1)
		must(t, os.Rename(b.dir, filepath.Join(filepath.Dir(b.dir), "elsewhere")))
		must(t, os.Mkdir(b.dir, 0o700))
		time.Sleep(16 * time.Minute)
		synctest.Wait()
		if s := b.Status(); s.Failures == 0 || !strings.Contains(s.LastError, "still mounted") {
			t.Errorf("status: want that the store is gone, got %+v", s)
		}
		if got := files(t, b.dir); len(got) != 0 {
			t.Errorf("the place where the store was: want nothing written there, got %v", got)
		}
	})
}
