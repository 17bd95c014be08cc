package snapshot

import (
	"context"
	"errors"
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
	// Identity says whose backups are ours. It must not block.
	Identity() Identity
	// Hold says why no backup may be pruned now, "" if nothing is in the way. It must not block.
	Hold() string
}

// Stores are where a Keeper keeps backups.
type Stores struct {
	// Main keeps them: only what is there counts.
	Main Store
	// Spool, nil for none, is a directory of this machine in which each is made first. It is this Keeper's alone: what
	// is unfinished there is removed as garbage.
	Spool Store
}

// Keeper saves a backup whenever one is due, on the node whose member leads, and any time on request. It prunes what
// need not be kept, and drills the newest backup now and then.
//
// The schedule is kept only in the store: a backup is due one interval after the last one that was made there, a drill
// one interval after the last one recorded there. So neither a restart nor a change of leader makes one early or late.
// If two nodes both believe that they lead, both may save; that is one backup more.
type Keeper struct {
	cluster string
	stores  Stores
	source  Source
	opt     Options
	restore func(ctx context.Context, name string) (Drill, error)
	lg      *zap.Logger
	series  series
	turn    turn
	drills  *drills
	pruner  *pruner

	mu       sync.Mutex
	cfg      Config
	schedule schedule // of cfg
	state    state
}

// turn holds a token while a save or a drill is under way.
type turn chan struct{}

// wait waits until nothing is under way and returns the function to call when this is over.
func (t turn) wait(ctx context.Context) (release func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the save under way: %w", context.Cause(ctx))
	}
}

// state is what a Keeper knows of its saves, under its mu.
type state struct {
	leading    time.Time // since when, zero if not
	known      bool      // holds is what the store holds as far as we can know: read or written since we lead
	holds      holdings
	learned    int       // how often holds was learned
	asked      time.Time // when the main store told holds, zero if never
	storeError string    // why it did not, the last time it was asked
	spooled    []string
	distrusted string    // what is in the spool under this name could not be copied as it is
	saving     time.Time // since when a save is under way, zero if none is
	attempted  time.Time
	failures   int
	lastError  string
	logged     string // the reason that was logged last, in a row of failures
}

// poll is how often a Keeper looks whether it leads and whether a backup is due.
const poll = time.Second

// NewKeeper returns a keeper of the backups of one cluster. cfg is one that Validate accepts.
//
// opt says how backups are written and read; the Keeper sets its Scratch, Rate, Format and Level from cfg. drill
// restores a backup in a process of its own and compares it with its sidecar; the error means that this could not be
// tried. It returns soon after its context ends. Without a drill there are none.
func NewKeeper(cfg Config, cluster string, stores Stores, source Source, opt Options,
	drill func(ctx context.Context, name string) (Drill, error),
	lg *zap.Logger, reg prometheus.Registerer) *Keeper {
	opt.Scratch, opt.Format, opt.Level = cfg.Scratch, cfg.Format, cfg.Compression
	k := &Keeper{
		cluster:  cluster,
		stores:   stores,
		source:   source,
		opt:      opt,
		restore:  drill,
		lg:       lg,
		turn:     make(turn, 1),
		cfg:      cfg,
		schedule: cfg.schedule(),
	}
	k.series = newSeries(reg, func() float64 {
		k.mu.Lock()
		defer k.mu.Unlock()
		return rpo(k.state.holds.made, time.Now())
	})
	k.drills = &drills{store: stores.Main, cluster: cluster, series: k.series.drill, lg: lg}
	k.pruner = &pruner{store: stores.Main, series: k.series.prune, lg: lg}
	return k
}

// Run keeps the schedule, and looks at the main store now and then, until ctx ends, and then returns nil. A failed
// backup never ends it.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { k.watch(ctx) }) // a store that hangs holds up no backup
	k.cleanSpool(ctx)
	for {
		switch save, drill := k.look(); {
		case save:
			k.scheduled(ctx)
		case drill:
			k.scheduledDrill(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Reconfigure changes Every, Cron, Retry, Drill, Rate and Keep, from the next second on; what is under way continues as
// it began. The other keys of cfg need a new Keeper and are ignored.
func (k *Keeper) Reconfigure(cfg Config) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cfg.Every, k.cfg.Cron, k.cfg.Retry = cfg.Every, cfg.Cron, cfg.Retry
	k.cfg.Drill, k.cfg.Rate, k.cfg.Keep = cfg.Drill, cfg.Rate, cfg.Keep
	k.schedule = k.cfg.schedule()
}

// Save saves a backup now, whether this node leads or not, after one that is under way; a drill gives way to it.
// progress may be nil. With a spool, an error may leave a backup there, which the error names.
func (k *Keeper) Save(ctx context.Context, progress func(Progress)) (Meta, error) {
	release, err := k.urgent(ctx)
	if err != nil {
		return Meta{}, err
	}
	defer release()
	defer k.begin()()
	return k.attempt(ctx, time.Now(), "", progress)
}

// Fresh makes sure that there is a verified backup made at most within ago, and saves one if there is none. Call it
// before a change of the cluster, with a bounded ctx. The result is that backup's sidecar.
func (k *Keeper) Fresh(ctx context.Context, within time.Duration) (Meta, error) {
	release, err := k.urgent(ctx)
	if err != nil {
		return Meta{}, err
	}
	defer release()
	defer k.begin()()
	now := time.Now()
	h, err := hold(ctx, k.stores.Main, k.source.Identity(), now.Add(skew))
	if err != nil {
		return Meta{}, blame(reasonStore, err)
	}
	k.know(h)
	if h.made.Name != "" && now.Sub(h.made.Created) <= within {
		return h.made, nil
	}
	return k.attempt(ctx, now, "", nil)
}

// look checks whether this node leads, and reports whether it is time to attempt a backup, or a drill.
func (k *Keeper) look() (save, drill bool) {
	leads := k.source.Leader()
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	if !leads {
		if !s.leading.IsZero() {
			// The failures are now another node's to overcome, and the store's newest backup its to know.
			s.leading, s.failures, s.logged = time.Time{}, 0, ""
			k.series.consecutive.Set(0)
		}
		return false, false
	}
	if s.leading.IsZero() {
		s.leading, s.known = now, false
		k.drills.lead()
	}
	at, ok := k.drillAt(now)
	return !k.schedule.off() && !now.Before(s.due(k.schedule, now)), ok && !now.Before(at)
}

// due returns when the next attempt is to be made: in the past if that is not known, or no longer known after the clock
// was set back to before the last backup.
func (s *state) due(sched schedule, now time.Time) time.Time {
	switch {
	case s.failures > 0:
		return sched.retryAt(s.attempted, s.failures)
	case s.known && s.holds.made.Name != "" && !s.holds.made.Created.After(now.Add(skew)):
		return sched.next(s.holds.made.Created)
	}
	return time.Time{}
}

// scheduled makes one attempt of the schedule, and prunes after a backup unless the source holds that up. A failure is
// logged when its reason is a new one.
func (k *Keeper) scheduled(ctx context.Context) {
	release, err := k.turn.wait(ctx)
	if err != nil {
		return // shutting down
	}
	end := k.begin()
	made, err := k.saveIfDue(ctx)
	end()
	release()
	reason := reasonOf(ctx, err)
	// In a full store less is kept when snapshot.keep says so from now on: that must not wait for a backup to succeed.
	hold := k.source.Hold()
	switch due := made || err != nil && reason == reasonFull; {
	case due && hold != "":
		k.lg.Info("nothing was pruned", zap.String("reason", hold))
	case due:
		cfg, _ := k.plan()
		k.pruner.prune(ctx, k.source.Identity(), cfg.Keep)
	}
	if err == nil || reason == reasonInterrupted {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if reason != k.state.logged {
		k.state.logged = reason
		k.lg.Error("backup was not saved", zap.String("reason", reason), zap.Error(err))
	}
}

// begin notes that a save is under way until the function that it returns is called, which is never if the store hangs.
// The caller has the turn.
func (k *Keeper) begin() (end func()) {
	set := func(at time.Time) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.state.saving = at
	}
	set(time.Now())
	return func() { set(time.Time{}) }
}

// saveIfDue asks the store whether a backup is due, which another node or an operator may have made meanwhile, and
// saves one if it is. What still waits in the spool is taken for it while it is not old itself. When the store does not
// answer, a backup is made in the spool, if there is one, and the attempt has failed all the same.
func (k *Keeper) saveIfDue(ctx context.Context) (made bool, err error) {
	start := time.Now()
	h, storeErr := hold(ctx, k.stores.Main, k.source.Identity(), start.Add(skew))
	if storeErr == nil {
		k.know(h)
		if _, schedule := k.plan(); h.made.Name != "" && start.Before(schedule.next(h.made.Created)) {
			k.recovered()
			return false, nil
		}
	}
	waiting, err := k.waiting(ctx, start)
	if err == nil && storeErr != nil {
		err = blame(reasonStore, storeErr)
		if k.stores.Spool != nil && waiting == "" {
			_, spoolErr := k.spool(ctx, nil)
			err = errors.Join(spoolErr, err)
		}
	}
	if err != nil {
		k.failed(ctx, start, err)
		return false, err
	}
	_, err = k.attempt(ctx, start, waiting, nil)
	return err == nil, err
}

// plan returns the configuration as it is now, and its schedule.
func (k *Keeper) plan() (Config, schedule) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cfg, k.schedule
}

// attempt brings a backup into the main store: what waits in the spool under that name, or a new one. The caller has
// the turn.
func (k *Keeper) attempt(ctx context.Context, start time.Time, waiting string, progress func(Progress)) (Meta, error) {
	m, err := k.bring(ctx, waiting, progress)
	if err != nil {
		k.failed(ctx, start, err)
		return Meta{}, err
	}
	k.saved(m)
	k.recovered()
	k.mu.Lock()
	k.state.attempted = start
	k.mu.Unlock()
	k.series.saves.WithLabelValues(resultSaved).Inc()
	k.series.duration.Set(time.Since(start).Seconds())
	k.lg.Info("saved backup", zap.String("backup", m.Name), zap.Int64("revision", m.Content.Revision),
		zap.Int64("size", m.Content.Size), zap.Int64("stored", m.Stored.Size), zap.Duration("took", time.Since(start)))
	return m, nil
}

// bring does the work of attempt.
func (k *Keeper) bring(ctx context.Context, waiting string, progress func(Progress)) (Meta, error) {
	if k.stores.Spool == nil {
		m, err := k.save(ctx, k.stores.Main, progress)
		return m, blame(reasonStore, err)
	}
	if waiting == "" {
		m, err := k.spool(ctx, progress)
		if err != nil {
			return Meta{}, err
		}
		waiting = m.Name
	}
	return k.upload(ctx, waiting, progress)
}

// save makes a new backup in a store.
func (k *Keeper) save(ctx context.Context, store Store, progress func(Progress)) (Meta, error) {
	tx, meta, err := k.source.Begin(ctx)
	if err != nil {
		return Meta{}, fail(reasonSource, fmt.Errorf("begin snapshot: %w", err))
	}
	meta.Cluster = k.cluster
	if store == k.stores.Spool {
		if err := checkRoom(store, tx.Size()); err != nil {
			return Meta{}, errors.Join(err, tx.Close())
		}
	}
	return Save(ctx, store, tx, meta, k.options(progress))
}

// options returns the options of what is about to be done.
func (k *Keeper) options(progress func(Progress)) Options {
	cfg, _ := k.plan()
	opt := k.opt
	opt.Rate, opt.Progress = int64(cfg.Rate)<<20, progress
	return opt
}

// know records that the main store holds h.
func (k *Keeper) know(h holdings) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.holds, k.state.known = h, true
	k.state.asked, k.state.storeError = time.Now(), ""
	k.state.learned++
	k.series.newest.know(h)
}

// saved adds a backup that was just made to what the main store is known to hold.
func (k *Keeper) saved(m Meta) {
	k.mu.Lock()
	h := k.state.holds.saved(m)
	k.mu.Unlock()
	k.know(h)
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

// recovered ends a series of failures.
func (k *Keeper) recovered() {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	s.failures, s.logged, s.lastError = 0, "", ""
	k.series.consecutive.Set(0)
}
