package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Keep says which backups are kept: the section "snapshot.keep" of the configuration.
//
// Ages count from the last verified backup, not from now, and a gap between two backups counts as at most Hourly, or
// two days if that is longer. So while no backups are made, none gets older. Neither a year without backups nor a clock
// that jumped a year ahead makes the whole history expire at once.
type Keep struct {
	// All is the age up to which every backup is kept.
	All time.Duration `mapstructure:"all"`
	// Hourly is the age up to which one backup per hour is kept, Daily one per day. Hours and days are in UTC.
	Hourly time.Duration `mapstructure:"hourly"`
	Daily  time.Duration `mapstructure:"daily"`
	// Newest is how many of the newest verified backups, in the order of [Newest], are kept whatever their age, at least
	// 1.
	Newest int `mapstructure:"newest"`
}

// Expired returns the backups that need not be kept at the time now, oldest first. It is a pure function. It never
// returns backups that are foreign, legacy, pinned, damaged, unverified or from the future, or one of the Newest
// verified ones.
//
// The newest are those of the highest generation, then of the highest revision, so a wrong clock does not matter for
// them. Only among those that are not [Backup.Ordered], it does. Ages, hours and days are based on time.
//
// Of each hour and each day the last backup is kept, because it is also the last of them to get too old. If another one
// were kept, its expiry would let the next one take its place or not, depending on how often the rules are applied. The
// last backup of a day is also the last of its hour. A pinned backup counts as one of its hour, of its day and of the
// Newest.
func (k Keep) Expired(backups []Backup, now time.Time) []Backup {
	judged := slices.DeleteFunc(slices.Clone(backups), func(b Backup) bool { return !b.own() || b.Created.After(now) })
	slices.SortStableFunc(judged, func(a, b Backup) int { return byTime(a.Meta, b.Meta) })
	ages := k.ages(judged)
	newest := k.newest(judged)
	var expired []Backup
	var hour, day time.Time // of the next later backup
	for i, b := range slices.Backward(judged) {
		h, d := b.Created.UTC().Truncate(time.Hour), b.Created.UTC().Truncate(24*time.Hour)
		keep := newest[b.Name] || b.Pinned || ages[i] < k.All ||
			ages[i] < k.Hourly && !h.Equal(hour) ||
			ages[i] < k.Daily && !d.Equal(day)
		if !keep {
			expired = append(expired, b)
		}
		hour, day = h, d
	}
	slices.Reverse(expired)
	return expired
}

// newest returns the names of the newest backups, which are kept whatever their age.
func (k Keep) newest(backups []Backup) map[string]bool {
	ordered := slices.SortedFunc(slices.Values(backups), func(a, b Backup) int { return b.order(a) })
	names := map[string]bool{}
	for _, b := range ordered[:min(max(k.Newest, 1), len(ordered))] {
		names[b.Name] = true
	}
	return names
}

// ages returns the ages of the backups, which must be sorted.
func (k Keep) ages(backups []Backup) []time.Duration {
	longest := max(k.Hourly, 48*time.Hour)
	ages := make([]time.Duration, len(backups))
	for i := len(backups) - 2; i >= 0; i-- {
		gap := backups[i+1].Created.Sub(backups[i].Created)
		ages[i] = ages[i+1] + min(gap, longest)
	}
	return ages
}

// Pruned is what Prune removed, or would remove.
type Pruned struct {
	// Expired are the backups that need not be kept, Orphans what saves left behind that failed at least a day ago.
	Expired []Backup `json:"expired"`
	Orphans []Backup `json:"orphans"`
	// Kept are those of them that are still there, and why, by name: the store failed to delete them, for example because
	// of an object lock, or they were meanwhile pinned or written to.
	Kept map[string]string `json:"kept,omitempty"`
	// Refused are the names in Kept whose deletion was tried and failed.
	Refused []string `json:"refused,omitempty"`
}

// spared says why a backup to be pruned is left alone: it changed meanwhile. That is no failure.
type spared string

func (s spared) Error() string { return string(s) }

// Prune removes the backups of id that keep does not keep, and orphans of failed saves. With dryRun it removes nothing.
// An error is the store's; a single backup that cannot be removed is not an error but is listed in Kept. If the store
// fails half way, the result says what was removed before.
//
// Prune must know whose backups it may remove: it refuses an empty cluster, and an unknown lineage if the store holds
// backups of several. If now is later than the store's own clock, Prune uses the store's.
func Prune(ctx context.Context, store Store, id Identity, keep Keep, now time.Time, dryRun bool) (Pruned, error) {
	if err := checkCluster(id.Cluster); err != nil {
		return Pruned{}, fmt.Errorf("prune: %w", err)
	}
	c, err := scan(ctx, store, "")
	if err != nil {
		return Pruned{}, fmt.Errorf("prune: %w", err)
	}
	now = c.clock(now)
	backups, err := readAll(ctx, store, id, c.entries, now)
	if err == nil {
		err = id.unambiguous(backups)
	}
	if err != nil {
		return Pruned{}, fmt.Errorf("prune: %w", err)
	}
	// Non-nil, so that JSON has [] and not null.
	p := Pruned{Expired: append([]Backup{}, keep.Expired(backups, now)...), Orphans: []Backup{}}
	listed := make(map[string]entry, len(c.entries))
	for i, e := range c.entries {
		listed[e.name] = e
		if b := backups[i]; !e.committed() && !b.Pinned && b.Cluster == id.Cluster && !b.Foreign && e.abandoned(now) {
			p.Orphans = append(p.Orphans, b)
		}
	}
	if dryRun {
		return p, nil
	}
	p.Kept = map[string]string{}
	all := slices.Concat(p.Expired, p.Orphans)
	for i, b := range all {
		err := listed[b.Name].prune(ctx, store)
		if err == nil {
			continue
		}
		p.Kept[b.Name] = err.Error()
		if errors.As(err, new(spared)) {
			continue
		}
		p.Refused = append(p.Refused, b.Name)
		// Was only this deletion refused, or is the store gone? Then every other deletion would fail too, each after a while.
		if _, gone := store.List(ctx, b.Name+"/"); gone != nil {
			for _, rest := range all[i+1:] {
				p.Kept[rest.Name] = "the store did not answer any more"
				p.Refused = append(p.Refused, rest.Name)
			}
			return p, fmt.Errorf("prune: %w", errors.Join(err, gone))
		}
	}
	return p, nil
}

// unambiguous returns an error if the cluster's name alone does not say whose the backups are.
func (id Identity) unambiguous(backups []Backup) error {
	if id.Lineage != "" {
		return nil
	}
	lineage := ""
	for _, b := range backups {
		if b.Foreign || b.Lineage == "" {
			continue
		}
		if lineage != "" && b.Lineage != lineage {
			return fmt.Errorf("the store holds backups of two clusters named %s, founded as %s and as %s, and which of them is "+
				"meant is not known", id.Cluster, lineage, b.Lineage)
		}
		lineage = b.Lineage
	}
	return nil
}

// prune removes a backup unless it was pinned or written to since it was listed as e.
func (e entry) prune(ctx context.Context, store Store) error {
	now, err := lookup(ctx, store, e.name)
	if err != nil {
		return err
	}
	pinned, err := Exists(ctx, store, object(e.name, pinObject)) // whatever the listing shows
	if err != nil {
		return err
	}
	if pinned {
		return spared("it was pinned meanwhile")
	}
	if now.written().After(e.written()) {
		return spared("it was written to meanwhile")
	}
	return now.remove(ctx, store)
}

// Delete removes any backup, even a good, pinned or foreign one: the caller has decided. The commit marks go first, so
// an interrupted deletion leaves an unfinished backup, never one that seems good. The error is ErrNotFound if there is
// no such backup.
func Delete(ctx context.Context, store Store, name string) error {
	e, err := lookup(ctx, store, name)
	if err != nil {
		return fmt.Errorf("delete backup: %w", err)
	}
	if len(e.files) == 0 {
		return fmt.Errorf("delete backup %s: %w", name, ErrNotFound)
	}
	b, err := e.read(ctx, store, Identity{}, time.Now())
	if err == nil {
		err = e.remove(ctx, store)
	}
	if err == nil {
		err = unmarkNewest(ctx, store, b)
	}
	return err
}

func remove(ctx context.Context, store Store, name string) error {
	e, err := lookup(ctx, store, name)
	if err != nil {
		return fmt.Errorf("delete backup: %w", err)
	}
	return e.remove(ctx, store)
}

// remove deletes the objects of a backup in the order of removal, and only objects that exist: in a versioned bucket,
// deleting what does not exist would leave a delete marker. Then it asks for the last one, because the answer to a
// deletion has no content that shows who gave it.
func (e entry) remove(ctx context.Context, store Store) error {
	last := ""
	for _, file := range removal {
		if !e.has(file) {
			continue
		}
		if err := store.Delete(ctx, object(e.name, file)); err != nil {
			return fmt.Errorf("delete backup %s: %w", e.name, err)
		}
		last = file
	}
	if last == "" {
		return nil
	}
	there, err := Exists(ctx, store, object(e.name, last))
	if err == nil && there {
		err = fmt.Errorf("the store says that it deleted %s, and still has it: look for a proxy in front of the store, or a "+
			"retention that it does not report", object(e.name, last))
	}
	if err != nil {
		return fmt.Errorf("delete backup %s: %w", e.name, err)
	}
	return nil
}

// maxKept is how many of the backups that a store keeps are told and logged: all may be.
const maxKept = 5

// pruneEvery is the least time between two prunings, since each reads all sidecars.
const pruneEvery = 10 * time.Minute

// pruner prunes the main store. Its lock may be taken while the Keeper's is held, never the other way round.
type pruner struct {
	store  Store
	series pruneSeries
	lg     *zap.Logger
	due    chan struct{} // a backup was saved, or the store is full

	mu     sync.Mutex
	status PruneStatus
}

func (p *pruner) account() PruneStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// run prunes whenever that is due and the source does not hold it, until ctx ends.
func (p *pruner) run(ctx context.Context, source Source, keep func() Keep) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.due:
		}
		if hold := source.Hold(); hold != "" {
			p.lg.Info("nothing was pruned", zap.String("reason", hold))
			continue
		}
		p.prune(ctx, source.Identity(), keep())
	}
}

// prune prunes the main store, unless it did so less than pruneEvery ago. A failure does not affect the backup that was
// just made.
func (p *pruner) prune(ctx context.Context, id Identity, keep Keep) {
	if last := p.account().Last; !last.IsZero() && time.Since(last) < pruneEvery { // by the monotonic clock
		return
	}
	pruned, err := Prune(ctx, p.store, id, keep, time.Now(), false)
	if ctx.Err() != nil {
		return
	}
	st := PruneStatus{Last: time.Now(), Refused: len(pruned.Refused), Kept: map[string]string{}}
	for _, name := range pruned.Refused[:min(st.Refused, maxKept)] {
		st.Kept[name] = pruned.Kept[name]
	}
	if err != nil {
		st.Error = err.Error()
	}
	p.pruned(st, len(pruned.Expired)+len(pruned.Orphans)-len(pruned.Kept))
}

// pruned records and shows the result of a pruning, and logs changes.
func (p *pruner) pruned(st PruneStatus, removed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.status
	p.status = st
	p.series.total.Add(float64(removed))
	if st.Error != "" || st.Refused > 0 {
		p.series.failures.Inc()
	}
	switch {
	case st.Error != "" && before.Error == "":
		p.lg.Error("backups were not pruned", zap.String("error", st.Error))
	case st.Refused > 0 && before.Refused == 0:
		p.lg.Warn("the store keeps backups that are to be pruned", zap.Int("backups", st.Refused),
			zap.Any("kept", st.Kept))
	case removed > 0:
		p.lg.Info("pruned backups", zap.Int("removed", removed))
	}
}
