package snapshot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Source gives a Keeper what to save.
type Source interface {
	// Leader reports whether this node's member is the raft leader. It must not block.
	Leader() bool
	// Begin opens a read transaction of the local member, and tells whose it is: the fields of Meta from Cluster to
	// EtcdVersion. The Keeper closes the transaction.
	Begin(ctx context.Context) (Tx, Meta, error)
}

// Keeper saves a backup whenever one is due, on the node whose member leads, and any time on request.
//
// The schedule is kept nowhere but in the store: a backup is due one interval after the newest one there. So neither a
// restart nor a change of leader makes one early or late.
type Keeper struct {
	cluster string
	scratch string
	store   Store
	source  Source
	lg      *zap.Logger
	series  series
	turn    chan struct{} // holds a token while a save is under way

	mu    sync.Mutex
	state state
}

// state is what a Keeper knows, under its mu.
type state struct {
	every, retry time.Duration
	leading      time.Time // since when, zero if not
	known        bool      // newest is the store's newest as far as we can know: read or written since we lead
	newest       Meta
	attempted    time.Time
	failures     int
	lastError    string
	reason       string // of the last failure, as logged
}

// Status is a Keeper's account of itself.
type Status struct {
	// Leading is whether the schedule runs here.
	Leading bool `json:"leading"`
	// Newest is the newest verified backup this node knows of, with an empty Name if it knows none. While it does not
	// lead, that may be an old one.
	Newest Meta `json:"newest"`
	// Attempted is the time of the last attempt, zero if there was none.
	Attempted time.Time `json:"attempted"`
	// LastError is the error of the last attempt, "" if it succeeded.
	LastError string `json:"lastError"`
	// Failures counts the attempts that failed since the last one that did not, while this node leads.
	Failures int `json:"failures"`
	// Due is when the next attempt is made, zero if none is or the store has not been asked yet.
	Due time.Time `json:"due"`
	// Overdue says that this node leads, and that the newest verified backup is older than two intervals.
	Overdue bool `json:"overdue"`
}

// poll is how often a Keeper looks whether it leads and whether a backup is due.
const poll = time.Second

// NewKeeper returns a keeper of the backups of one cluster.
func NewKeeper(cfg Config, cluster string, store Store, source Source, lg *zap.Logger, reg prometheus.Registerer) *Keeper {
	return &Keeper{
		cluster: cluster,
		scratch: cfg.Scratch,
		store:   store,
		source:  source,
		lg:      lg,
		series:  newSeries(reg),
		turn:    make(chan struct{}, 1),
		state:   state{every: cfg.Every, retry: cfg.Retry},
	}
}

// Run keeps the schedule until ctx ends, and then returns nil. A failed backup never ends it.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if k.look() {
			k.scheduled(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Reconfigure changes the schedule, from the next second on. The values are as in Config.
func (k *Keeper) Reconfigure(every, retry time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.every, k.state.retry = every, retry
}

// Save saves a backup now, whether this node leads or not, after one that is under way. progress may be nil.
func (k *Keeper) Save(ctx context.Context, progress func(Progress)) (Meta, error) {
	release, err := k.wait(ctx)
	if err != nil {
		return Meta{}, err
	}
	defer release()
	return k.save(ctx, progress)
}

// Status returns the keeper's account of itself.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	st := Status{
		Leading:   !s.leading.IsZero(),
		Newest:    s.newest,
		Attempted: s.attempted,
		LastError: s.lastError,
		Failures:  s.failures,
	}
	if !st.Leading || s.every == 0 {
		return st
	}
	if s.known || s.failures > 0 {
		st.Due = s.due(time.Now())
	}
	since := s.newest.Created
	if !s.known || s.newest.Name == "" { // then the time since we lead is what counts against us
		since = s.leading
	}
	st.Overdue = time.Since(since) > 2*s.every
	return st
}

// look sees who leads, and reports whether it is time to attempt a backup.
func (k *Keeper) look() bool {
	leads := k.source.Leader()
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	if !leads {
		if !s.leading.IsZero() {
			// The failures are now another node's to overcome, and the store's newest backup its to know.
			s.leading, s.failures, s.reason = time.Time{}, 0, ""
			k.series.consecutive.Set(0)
		}
		return false
	}
	if s.leading.IsZero() {
		s.leading, s.known = now, false
	}
	return s.every > 0 && !now.Before(s.due(now))
}

// due returns when the next attempt is to be made, the past if that is not known: or no longer, after the clock was
// set back behind the newest backup.
func (s *state) due(now time.Time) time.Time {
	switch {
	case s.failures > 0:
		return s.attempted.Add(backoff(s.retry, s.every, s.failures))
	case s.known && !s.newest.Created.After(now):
		return s.newest.Created.Add(s.every)
	}
	return time.Time{}
}

// backoff is the wait after a number of failures in a row: retry doubled for each but the first, at most every.
func backoff(retry, every time.Duration, failures int) time.Duration {
	for i := 1; i < failures && retry < every; i++ {
		retry *= 2
	}
	return min(retry, every)
}

// scheduled makes one attempt of the schedule. A failure is logged when its reason is a new one.
func (k *Keeper) scheduled(ctx context.Context) {
	release, err := k.wait(ctx)
	if err != nil {
		return // shutting down
	}
	defer release()
	err = k.saveIfDue(ctx)
	reason := reasonOf(ctx, err)
	if err == nil || reason == reasonInterrupted {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if reason != k.state.reason {
		k.state.reason = reason
		k.lg.Error("backup was not saved", zap.String("reason", reason), zap.Error(err))
	}
}

// saveIfDue asks the store whether a backup is due, which another node or an operator may have made meanwhile, and
// saves one if it is.
func (k *Keeper) saveIfDue(ctx context.Context) error {
	start := time.Now()
	newest, err := newest(ctx, k.store, k.cluster, start)
	if err != nil {
		err = fail(reasonStore, err)
		k.failed(ctx, start, err)
		return err
	}
	k.mu.Lock()
	k.state.newest, k.state.known = newest, true
	every := k.state.every
	k.mu.Unlock()
	if newest.Name != "" {
		k.series.saved(newest)
		if start.Before(newest.Created.Add(every)) {
			k.recovered()
			return nil
		}
	}
	_, err = k.save(ctx, nil)
	return err
}

// wait waits until no save is under way and returns the function to call when this one is over.
func (k *Keeper) wait(ctx context.Context) (release func(), err error) {
	select {
	case k.turn <- struct{}{}:
		return func() { <-k.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the save under way: %w", context.Cause(ctx))
	}
}

// save makes one backup. The caller has the turn.
func (k *Keeper) save(ctx context.Context, progress func(Progress)) (Meta, error) {
	start := time.Now()
	m, err := func() (Meta, error) {
		tx, meta, err := k.source.Begin(ctx)
		if err != nil {
			return Meta{}, fail(reasonSource, fmt.Errorf("begin snapshot: %w", err))
		}
		meta.Cluster = k.cluster
		return Save(ctx, k.store, tx, meta, Options{Scratch: k.scratch, Progress: progress})
	}()
	if err != nil {
		k.failed(ctx, start, err)
		return Meta{}, err
	}
	k.mu.Lock()
	s := &k.state
	s.newest, s.known, s.attempted = m, true, start
	k.mu.Unlock()
	k.recovered()
	k.series.saves.WithLabelValues(resultSaved).Inc()
	k.series.duration.Set(time.Since(start).Seconds())
	k.series.saved(m)
	k.lg.Info("saved backup", zap.String("backup", m.Name), zap.Int64("revision", m.Content.Revision),
		zap.Int64("size", m.Content.Size), zap.Int64("stored", m.Stored.Size), zap.Duration("took", time.Since(start)))
	return m, nil
}

// failed records an attempt that made no backup.
func (k *Keeper) failed(ctx context.Context, start time.Time, err error) {
	reason := reasonOf(ctx, err)
	if reason == reasonInterrupted {
		k.series.saves.WithLabelValues(resultInterrupted).Inc()
		return
	}
	k.series.saves.WithLabelValues(resultFailed).Inc()
	k.series.failures.WithLabelValues(reason).Inc()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	s.attempted, s.lastError = start, err.Error()
	if !s.leading.IsZero() {
		s.failures++
		k.series.consecutive.Set(float64(s.failures))
	}
}

// recovered ends a row of failures.
func (k *Keeper) recovered() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.failures, k.state.reason, k.state.lastError = 0, "", ""
	k.series.consecutive.Set(0)
}
