package snapshot

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// spool makes a new backup in the spool. Before that it removes all but the newest one there, so that there are never
// more than two. The caller has the turn.
func (k *Keeper) spool(ctx context.Context, progress func(Progress)) (m Meta, err error) {
	if err = tidy(ctx, k.stores.Spool, k.source.Identity()); err == nil {
		m, err = k.save(ctx, k.stores.Spool, progress)
	}
	k.countSpooled(ctx)
	return m, blame(reasonSpool, err)
}

// upload copies a backup from the spool into the main store.
func (k *Keeper) upload(ctx context.Context, name string, progress func(Progress)) (Meta, error) {
	start := time.Now()
	m, err := Copy(ctx, k.stores.Spool, k.stores.Main, name, k.options(progress))
	if err != nil {
		err = blame(reasonStore, fmt.Errorf("upload backup %s, which is in the spool: %w", name, err))
		if reasonOf(ctx, err) == reasonMismatch { // whatever changed it, the next attempt makes a new one
			k.mu.Lock()
			k.state.distrusted = name
			k.mu.Unlock()
		}
		return Meta{}, err
	}
	k.series.upload.Set(time.Since(start).Seconds())
	k.saved(m)
	k.countSpooled(ctx)
	return m, nil
}

// waiting returns the last backup made in the spool if it is good enough: at most one interval old and not known to be
// damaged. Otherwise it returns "".
func (k *Keeper) waiting(ctx context.Context, now time.Time) (string, error) {
	if k.stores.Spool == nil {
		return "", nil
	}
	h, err := hold(ctx, k.stores.Spool, k.source.Identity(), now.Add(skew))
	if err != nil {
		return "", blame(reasonSpool, err)
	}
	m := h.made
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.Name == "" || m.Name == k.state.distrusted || !now.Before(k.schedule.next(m.Created)) {
		return "", nil
	}
	return m.Name, nil
}

// cleanSpool removes what an earlier run left unfinished in the spool. If that fails, making the next backup fails too.
func (k *Keeper) cleanSpool(ctx context.Context) {
	if k.stores.Spool == nil {
		return
	}
	release, err := k.turn.wait(ctx)
	if err != nil {
		return
	}
	defer release()
	if err := tidy(ctx, k.stores.Spool, k.source.Identity()); err != nil && ctx.Err() == nil {
		k.lg.Warn("spool was not tidied", zap.Error(err))
	}
	k.countSpooled(ctx)
}

// tidy removes all backups from the spool but the newest, and everything unfinished or damaged, whatever its age:
// nobody else writes there. Pinned backups, and those of another cluster or etcd-manager, stay. The caller has the
// turn.
func tidy(ctx context.Context, spool Store, id Identity) error {
	if d := directoryOf(spool); d != nil {
		if err := d.sweepAll(ctx); err != nil {
			return fmt.Errorf("remove what a killed save left: %w", err)
		}
	}
	backups, err := List(ctx, spool, id)
	if err != nil {
		return err
	}
	keep, _ := Newest(slices.DeleteFunc(slices.Clone(backups), func(b Backup) bool { return !b.own() }), time.Now())
	for _, b := range backups {
		if b.Name == keep.Name || b.Pinned || b.Foreign || b.Legacy {
			continue
		}
		if err := remove(ctx, spool, b.Name); err != nil {
			return fmt.Errorf("make room for the next backup: %w", err)
		}
	}
	return nil
}

// directoryOf returns the directory that is the spool, or nil.
func directoryOf(spool Store) *Dir {
	if limited, ok := spool.(*Timely); ok {
		spool = limited.Store
	}
	d, _ := spool.(*Dir)
	return d
}

// countSpooled updates what is in the spool.
func (k *Keeper) countSpooled(ctx context.Context) {
	backups, err := List(ctx, k.stores.Spool, k.source.Identity())
	if err != nil {
		return // the next attempt reports it
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.spooled = slices.DeleteFunc(backups, func(b Backup) bool { return !b.own() })
	k.state.tellSpooled(k.series.spooled)
}

// tellSpooled updates which backups in the spool wait: those that are newer than the store's.
func (s *state) tellSpooled(count prometheus.Gauge) {
	s.told.Spooled = nil
	for _, b := range s.spooled {
		if s.told.Newest.Name == "" || b.compare(s.told.Newest) > 0 {
			s.told.Spooled = append(s.told.Spooled, b.Name)
		}
	}
	count.Set(float64(len(s.told.Spooled)))
}

// checkRoom returns an error unless a database of size bytes would fit into the spool. A backup is smaller. But the
// spool may share its disk with the member, and a member without room to write is worse than a missed backup.
func checkRoom(ctx context.Context, spool Store, size int64) error {
	d := directoryOf(spool)
	if d == nil {
		return nil
	}
	free, err := answeredSoon(ctx, &d.patience, func() (free unix.Statfs_t, err error) {
		err = unix.Statfs(d.path, &free)
		return free, err
	})
	if err != nil { // the write reports it better
		return nil
	}
	if have := int64(free.Bavail) * int64(free.Bsize); have < size {
		return fail(reasonStore, fmt.Errorf("%s has %d bytes free, a backup may need %d: %w", d.path, have, size,
			syscall.ENOSPC))
	}
	return nil
}
