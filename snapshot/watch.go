package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"
)

const (
	// watchEvery is how often a Keeper reads the main store, whether it leads or not. Within this time every node knows
	// what others saved, verified and drilled, which matters most if no node leads. On S3 it is one or two listings.
	watchEvery = time.Minute
	// watchTime is the limit for the store to answer.
	watchTime = 30 * time.Second
)

// watch reads the main store until ctx ends.
func (k *Keeper) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen, told := &memory{}, map[string]bool{}
	for {
		k.lookAtStore(ctx, seen, told)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Within limits a look at a store. The error that it then causes says how long nobody answered.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, unanswered(limit))
}

func unanswered(limit time.Duration) error { return fmt.Errorf("no answer within %s", limit) }

// lookAtStore reads the main store. told has the bad backups that were already logged.
func (k *Keeper) lookAtStore(ctx context.Context, seen *memory, told map[string]bool) {
	ctx, cancel := Within(ctx, watchTime)
	defer cancel()
	k.mu.Lock()
	before := k.state.learned
	k.mu.Unlock()
	start := time.Now()
	backups, err := seen.list(ctx, k.stores.Main, k.source.Identity())
	if err == nil {
		err = k.drills.read(ctx, k.source.Identity())
	}
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) { // shutting down
			return
		}
		k.silent(err)
		return
	}
	h := holdingsOf(backups, k.source.Identity(), start.Add(skew))
	k.mu.Lock()
	fresher := k.state.learned != before // a save or a drill learned more meanwhile than this listing may show
	k.state.told.StoreError = ""
	k.mu.Unlock()
	if !fresher {
		k.know(h)
	}
	for _, b := range h.Failed {
		key := b.Name + " " + b.Failed.At.String()
		if !told[key] {
			told[key] = true
			k.lg.Error("backup is bad according to a later proof", zap.String("backup", b.Name),
				zap.String("proof", b.Failed.Kind),
				zap.String("by", b.Failed.By), zap.String("error", b.Failed.Error))
		}
	}
}

// silent records why the store did not answer.
func (k *Keeper) silent(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.told.StoreError = err.Error()
}

// memory has the backups that were read. While none of its objects changes, a finished backup is not read again. So
// reading the store costs only the listing, however many backups there are.
type memory map[string]remembered

type remembered struct {
	files  map[string]Object
	backup Backup
}

// settled is the age from which a change of an object would show in its time, even if the store's times are in whole
// seconds.
const settled = 10 * time.Second

// list is List without the order.
func (m *memory) list(ctx context.Context, store Store, id Identity) ([]Backup, error) {
	c, err := scan(ctx, store, "")
	if err != nil {
		return nil, err
	}
	clock := c.clock(time.Now())
	now := memory{}
	var backups []Backup
	var changed []entry
	for _, e := range c.entries {
		known, ok := (*m)[e.name]
		if !ok || !maps.EqualFunc(known.files, e.files, func(a, b Object) bool { return a.Version() == b.Version() }) {
			changed = append(changed, e)
			continue
		}
		now[e.name] = known
		known.backup.Foreign = id.foreign(known.backup.Meta)
		backups = append(backups, known.backup)
	}
	read, err := readAll(ctx, store, id, changed, clock)
	for i, b := range read { // after an error as well, so that the next look has less to read
		if e := changed[i]; b.Name != "" && b.Problem == "" && clock.Sub(e.written()) > settled {
			now[b.Name] = remembered{e.files, b}
		}
	}
	*m = now
	if err != nil {
		return nil, err
	}
	return withNewest(ctx, store, id, append(backups, read...))
}
