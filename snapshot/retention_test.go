package snapshot_test

import (
	"testing"
	"time"

	"holdfast/snapshot"
)

// TestKeeperPrunes keeps the newest three, and continues if the store refuses all deletions.
func TestKeeperPrunes(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 45*time.Minute-time.Second, 3)
		b.pass(t, time.Hour, 3)
		s := b.Status()
		if s.Prune.Error != "" || len(s.Prune.Kept) != 0 {
			t.Errorf("status: want all removed, got %+v", s.Prune)
		}
		b.wantSeries(t, map[string]float64{"pruned_total": 4, "prune_failures_total": 0})

		b.store.locked.Store(true)
		b.pass(t, 30*time.Minute, 5)
		s = b.Status()
		if s.Failures != 0 || s.LastError != "" || len(s.Prune.Kept) != 2 {
			t.Errorf("status with objects locked: want good backups, two kept, got %+v", s)
		}
		b.wantSeries(t, map[string]float64{"pruned_total": 4, "prune_failures_total": 2, "saves_total/failed": 0})
		b.store.locked.Store(false)
		b.pass(t, 15*time.Minute, 3)
		b.wantSeries(t, map[string]float64{"pruned_total": 7})
		if s := b.Status().Prune; len(s.Kept) != 0 {
			t.Errorf("status after the lock: got %+v", s)
		}
	}, func(b *bench) { b.cfg.Keep = snapshot.Keep{Newest: 3} })
}

// TestKeeperPrunesNothingWhileHeld keeps everything while the source demands it.
func TestKeeperPrunesNothingWhileHeld(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.member.held.Store(true)
		b.pass(t, time.Hour, 4)
		b.wantSeries(t, map[string]float64{"pruned_total": 0})
		b.member.held.Store(false)
		b.pass(t, 15*time.Minute, 3)
	}, func(b *bench) { b.cfg.Keep = snapshot.Keep{Newest: 3} })
}

// TestKeeperPrunesSeldom saves every minute, and prunes every ten.
func TestKeeperPrunesSeldom(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1)
		most := 0
		for range 21 {
			time.Sleep(time.Minute)
			most = max(most, b.backups(t))
		}
		if most < 10 || most > 12 {
			t.Errorf("most backups at a time: want 3 and those of ten minutes, got %d", most)
		}
	}, func(b *bench) { b.cfg.Keep, b.cfg.Every = snapshot.Keep{Newest: 3}, time.Minute })
}

// TestKeeperFollowerPrunesNothing saves on request while another node leads.
func TestKeeperFollowerPrunesNothing(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		for range 3 {
			_, err := b.Save(t.Context(), nil)
			must(t, err)
			time.Sleep(time.Hour)
		}
		b.pass(t, time.Hour, 3)
	}, func(b *bench) { b.cfg.Keep = snapshot.Keep{Newest: 1} })
}

// TestKeeperPrunesFullStore reduces what is kept because the store is full: only that makes room.
func TestKeeperPrunesFullStore(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 3*time.Hour, 12)
		b.store.full.Store(true)
		b.pass(t, time.Hour, 12)
		b.cfg.Keep.Newest = 2
		b.Reconfigure(b.cfg)
		b.pass(t, 30*time.Minute, 2)
	}, func(b *bench) { b.cfg.Keep = snapshot.Keep{Newest: 100} })
}
