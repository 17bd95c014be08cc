package snapshot_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/snapshot"
)

func TestKeeperOnDemand(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		var phases []string
		m, err := b.Save(t.Context(), func(p snapshot.Progress) { phases = append(phases, p.Phase) })
		if err != nil || b.backups(t) != 1 || b.Status().Newest != m || len(phases) == 0 {
			t.Errorf("Save on a follower: got %+v, %v, phases %v", m, err, phases)
		}
		b.member.refuses.Store(true)
		if _, err := b.Save(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "not ready") {
			t.Errorf("Save: want the member's refusal, got %v", err)
		}
		if s := b.Status(); s.Failures != 0 || s.LastError == "" {
			t.Errorf("status: want the error, but no row of failures of the schedule, got %+v", s)
		}
	})
}

// TestKeeperOneAtATime lets a save hang and a second one wait for it.
func TestKeeperOneAtATime(t *testing.T) {
	db := smallDB(t)
	dir, scratch := snapshot.NewDir(t.TempDir()), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{})
		store := faulty{Store: dir, put: func(ctx context.Context, name string, r io.Reader) error {
			err := dir.Put(ctx, name, r)
			<-wake
			return err
		}}
		m := &member{db: db}
		k := snapshot.NewKeeper(snapshot.Config{Scratch: scratch}, "prod", snapshot.Stores{Main: store}, m, snapshot.Options{}, nil, zap.NewNop(), prometheus.NewRegistry())
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := k.Save(t.Context(), nil)
				done <- err
			}()
		}
		synctest.Wait()
		if got := m.began.Load(); got != 1 {
			t.Errorf("saves under way: want 1, got %d", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := k.Save(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("third Save: want that its time is up, got %v", err)
		}
		close(wake)
		must(t, errors.Join(<-done, <-done))
	})
}

// TestKeeperInterrupted ends the context midway: that is no failure of the backup.
func TestKeeperInterrupted(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := b.Save(ctx, func(snapshot.Progress) { cancel() })
		if !errors.Is(err, context.Canceled) || b.backups(t) != 0 {
			t.Errorf("Save: want Canceled and no backup, got %v", err)
		}
		if s := b.Status(); s.LastError != "" {
			t.Errorf("status: got %+v", s)
		}
	})
}

// TestKeeperFresh only saves if there is nothing fresh, and returns an error if the store does not answer.
func TestKeeperFresh(t *testing.T) {
	for name, setup := range map[string][]func(*bench){"store": nil, "spool": {withSpool}} {
		t.Run(name, func(t *testing.T) {
			keeper(t, func(t *testing.T, b *bench) {
				first, err := b.Fresh(t.Context(), time.Minute)
				if err != nil || b.backups(t) != 1 {
					t.Errorf("Fresh without a backup: want a new one, got %+v, %v", first, err)
				}
				time.Sleep(time.Minute)
				if got, err := b.Fresh(t.Context(), time.Minute); err != nil || got != first {
					t.Errorf("Fresh a minute later: want %s, got %+v, %v", first.Name, got, err)
				}
				time.Sleep(time.Second)
				if got, err := b.Fresh(t.Context(), time.Minute); err != nil || got.Name == first.Name || b.backups(t) != 2 {
					t.Errorf("Fresh another second later: want a new one, got %+v, %v", got, err)
				}
				b.store.off.Store(true)
				if _, err := b.Fresh(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "no route to host") {
					t.Errorf("Fresh without the store: want that it is off, got %v", err)
				}
			}, setup...)
		})
	}
}

// TestKeeperFreshWaits requests a fresh backup while the schedule makes one, and gets that one.
func TestKeeperFreshWaits(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		wake := make(chan struct{})
		dir := b.store.Store
		b.store.Store = faulty{Store: dir, put: func(ctx context.Context, name string, r io.Reader) error {
			<-wake
			return dir.Put(ctx, name, r)
		}}
		b.member.leader.Store(true)
		time.Sleep(2 * time.Second)
		done := make(chan snapshot.Meta)
		go func() {
			m, err := b.Fresh(t.Context(), time.Minute)
			if err != nil {
				t.Error(err)
			}
			done <- m
		}()
		synctest.Wait()
		close(wake)
		if m := <-done; m != b.Status().Newest || b.member.began.Load() != 1 {
			t.Errorf("Fresh: want the backup of the schedule %s, got %s", b.Status().Newest.Name, m.Name)
		}
	})
}
