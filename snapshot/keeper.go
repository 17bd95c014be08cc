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

// Source provides what a Keeper saves.
type Source interface {
	// Leader reports whether this node's member is the raft leader. It must not block.
	Leader() bool
	// Begin opens a read transaction of the local member. It also returns the fields of Meta from Cluster to EtcdVersion.
	// The Keeper closes the transaction.
	Begin(ctx context.Context) (Tx, Meta, error)
	// Identity returns the cluster whose backups are pruned and restored. It must not block.
	Identity() Identity
	// Hold returns why no backup may be pruned now, or "". It must not block.
	Hold() string
}

// Stores are the stores of a Keeper.
type Stores struct {
	// Main keeps the backups: only those in Main count.
	Main Store
	// Spool, which may be nil, is a directory of this machine in which each backup is made first. Only this Keeper may use
	// it: it removes anything unfinished in it as garbage.
	Spool Store
}

// Keeper saves a backup when one is due, on the node whose member leads, and at any time on request. It prunes backups
// that need not be kept, and drills the newest backup now and then.
//
// The schedule is only based on the store: a backup is due one interval after the last one made there, a drill one
// interval after the last one recorded there. A backup of an earlier generation does not count: it may hold what a
// restore has discarded. So a restart or a change of leader makes neither early or late. If two nodes both believe that
// they lead, both may save, which only makes one backup more.
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

// turn holds a token while a save or a drill is in progress.
type turn chan struct{}

// wait waits until nothing is in progress, and returns the function that gives the turn back.
func (t turn) wait(ctx context.Context) (release func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the save under way: %w", context.Cause(ctx))
	}
}

// state is what a Keeper knows of its saves. Its mu guards it.
type state struct {
	told       Status    // as far as it does not depend on the time: the method Status adds the rest
	leading    time.Time // since when this node leads, or zero
	of         Identity  // the cluster that it leads since then
	known      bool      // its Holdings are as complete as they can be: read or written since this node leads
	learned    int       // how often its Holdings were learned
	spooled    []Backup  // the good backups in the spool
	distrusted string    // the backup in the spool that could not be copied as it is
	attempted  time.Time
	logged     string // the last logged reason in a series of failures
}

const (
	// poll is how often a Keeper checks whether it leads and whether a backup is due.
	poll = time.Second
	// answerTime is how long a store may take for one request of a Keeper, and a disk to make a file. Without a limit, a
	// store that hangs would also keep backups from the spool.
	answerTime = time.Minute
)

// NewKeeper returns a keeper of the backups of one cluster. Validate must accept cfg.
//
// opt says how backups are written and read; the Keeper sets its Scratch, Rate, Format and Level from cfg. drill
// restores a backup in a separate process and compares it with its sidecar. Its error means that this could not be
// tried. It must return soon after its context ends. If drill is nil, there are no drills.
func NewKeeper(cfg Config, cluster string, stores Stores, source Source, opt Options,
	drill func(ctx context.Context, name string) (Drill, error),
	lg *zap.Logger, reg prometheus.Registerer) *Keeper {
	opt.Scratch, opt.Format, opt.Level = cfg.Scratch, cfg.Format, cfg.Compression
	stores.Main = &Timely{Store: stores.Main, Limit: answerTime}
	if stores.Spool != nil {
		stores.Spool = &Timely{Store: stores.Spool, Limit: answerTime}
	}
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
		id := k.source.Identity()
		k.mu.Lock()
		defer k.mu.Unlock()
		return rpo(k.state.made(id), time.Now())
	})
	k.drills = &drills{store: stores.Main, cluster: cluster, series: k.series.drill, lg: lg}
	k.pruner = &pruner{store: stores.Main, series: k.series.prune, lg: lg, due: make(chan struct{}, 1)}
	return k
}

// Run runs the schedule, and reads the main store now and then, until ctx ends. Then it returns nil. A failed backup
// never ends it.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	// In goroutines of their own, so that a store that is slow or hangs delays no backup.
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { k.watch(ctx) })
	beside.Go(func() {
		k.pruner.run(ctx, k.source, func() Keep {
			cfg, _ := k.plan()
			return cfg.Keep
		})
	})
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

// Reconfigure changes Every, Cron, Retry, Drill, Rate and Keep within a second; an operation in progress is not
// changed. The other keys of cfg need a new Keeper and are ignored.
func (k *Keeper) Reconfigure(cfg Config) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cfg.Every, k.cfg.Cron, k.cfg.Retry = cfg.Every, cfg.Cron, cfg.Retry
	k.cfg.Drill, k.cfg.Rate, k.cfg.Keep = cfg.Drill, cfg.Rate, cfg.Keep
	k.schedule = k.cfg.schedule()
}

// Save saves a backup now, whether this node leads or not. It waits for a save in progress, and interrupts a drill.
// progress may be nil. With a spool, a failed Save may leave a backup there, which the error names.
func (k *Keeper) Save(ctx context.Context, progress func(Progress)) (Meta, error) {
	release, err := k.urgent(ctx)
	if err != nil {
		return Meta{}, err
	}
	defer release()
	defer k.begin()()
	return k.attempt(ctx, time.Now(), "", progress)
}

// Fresh returns a verified backup that is at most within old, and saves one if there is none. Call it before a change
// of the cluster, with a bounded ctx. It returns the backup's sidecar.
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

// look checks whether this node leads, and reports whether a backup or a drill is due.
func (k *Keeper) look() (save, drill bool) {
	leads, id := k.source.Leader(), k.source.Identity()
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	if !leads {
		if !s.leading.IsZero() {
			// Another node now has to overcome the failures, and to know the store's newest backup.
			s.leading, s.told.Failures, s.logged = time.Time{}, 0, ""
			k.series.consecutive.Set(0)
		}
		return false, false
	}
	if !s.leads(id) {
		s.leading, s.of, s.known = now, id, false
		k.drills.lead()
	}
	at, ok := k.drillAt(now)
	return !k.schedule.off() && !now.Before(s.due(k.schedule, id, now)), ok && !now.Before(at)
}

// leads reports whether look has seen that this node leads the cluster. A restore may take less time than there is
// between two looks, and this node leads before and after it.
func (s *state) leads(id Identity) bool { return !s.leading.IsZero() && s.of == id }

// made returns the backup from which the schedule of a cluster counts. Its generation may have begun after the store
// was read.
func (s *state) made(id Identity) Meta {
	if m := s.told.made; m.Generation >= id.Generation {
		return m
	}
	return Meta{}
}

// due returns when the next attempt is due. That is in the past if the last backup is not known, or is later than now
// because the clock was set back.
func (s *state) due(sched schedule, id Identity, now time.Time) time.Time {
	made := s.made(id)
	switch {
	case s.told.Failures > 0:
		return sched.retryAt(s.attempted, s.told.Failures)
	case s.known && made.Name != "" && !made.Created.After(now.Add(skew)):
		return sched.next(made.Created)
	}
	return time.Time{}
}

// scheduled makes one scheduled attempt, and has the store pruned after a backup. It logs a failure if its reason
// differs from the last one.
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
	// Also prune a full store: a smaller snapshot.keep must take effect although no backup succeeds.
	if made || err != nil && reason == reasonFull {
		select {
		case k.pruner.due <- struct{}{}:
		default: // it is about to look
		}
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

// begin records that a save is in progress until end is called. The caller has the turn.
func (k *Keeper) begin() (end func()) {
	set := func(at time.Time) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.state.told.Saving = at
	}
	set(time.Now())
	return func() { set(time.Time{}) }
}

// saveIfDue asks the store whether a backup is due, because another node or an operator may have made one meanwhile,
// and saves one if so. A backup that waits in the spool is used instead of a new one if it is not old. If the store
// does not answer, a backup is made in the spool, if there is one, and the attempt still counts as failed.
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

// plan returns the current configuration and its schedule.
func (k *Keeper) plan() (Config, schedule) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cfg, k.schedule
}

// attempt brings a backup into the main store: the one that waits in the spool, or a new one. The caller has the turn.
func (k *Keeper) attempt(ctx context.Context, start time.Time, waiting string, progress func(Progress)) (Meta, error) {
	m, err := k.bring(ctx, waiting, progress)
	if err != nil {
		k.failed(ctx, start, err)
		return Meta{}, err
	}
	if err := markNewest(ctx, k.stores.Main, k.source.Identity(), m); err != nil && ctx.Err() == nil {
		// The backup counts all the same, and the next one is recorded again.
		k.lg.Warn("the newest backup was not recorded", zap.String("backup", m.Name), zap.Error(err))
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

func (k *Keeper) save(ctx context.Context, store Store, progress func(Progress)) (Meta, error) {
	tx, meta, err := k.source.Begin(ctx)
	if err != nil {
		return Meta{}, fail(reasonSource, fmt.Errorf("begin snapshot: %w", err))
	}
	meta.Cluster = k.cluster
	if store == k.stores.Spool {
		if err := checkRoom(ctx, store, tx.Size()); err != nil {
			return Meta{}, errors.Join(err, tx.Close())
		}
	}
	return Save(ctx, store, tx, meta, k.options(progress))
}

// options returns the options for the next operation.
func (k *Keeper) options(progress func(Progress)) Options {
	cfg, _ := k.plan()
	opt := k.opt
	opt.Rate, opt.Progress = int64(cfg.Rate)<<20, progress
	return opt
}

// know records the content of the main store.
func (k *Keeper) know(h Holdings) {
	id := k.source.Identity()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.remember(&h, id)
	k.state.told.Holdings, k.state.known = h, true
	k.state.told.Asked, k.state.told.StoreError = time.Now(), ""
	k.state.learned++
	k.series.newest.know(h)
	k.state.tellSpooled(k.series.spooled)
}

// saved adds a new backup to the known content of the main store.
func (k *Keeper) saved(m Meta) {
	k.mu.Lock()
	h := k.state.told.Holdings.saved(m)
	k.mu.Unlock()
	k.know(h)
}

// remember compares the store with what this process has seen there. A store that went back in time shows no other
// sign: its listing and its record of the newest backup agree.
func (s *state) remember(h *Holdings, id Identity) {
	most := s.told.Most
	if most.Name == "" || id.foreign(most) || !most.beyond(h.most) {
		s.told.Most = h.most
		return
	}
	if h.Doubt == nil {
		h.Doubt = fmt.Errorf("backup %s (generation %d, revision %d) was in the store, holds more than all that is there, "+
			"and is gone: look for a store that was set back, or a cache in front of it; if it was deleted, save another one",
			most.Name, most.Generation, most.Content.Revision)
	}
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
	s.attempted, s.told.LastError = start, err.Error()
	if !s.leading.IsZero() {
		s.told.Failures++
		k.series.consecutive.Set(float64(s.told.Failures))
	}
}

// recovered ends a series of failures.
func (k *Keeper) recovered() {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	s.told.Failures, s.logged, s.told.LastError = 0, "", ""
	k.series.consecutive.Set(0)
}
