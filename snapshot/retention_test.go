package snapshot_test

import (
	"testing"
	"testing/synctest"
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
		if s.Prune.Error != "" || s.Prune.Refused != 0 {
			t.Errorf("status: want all removed, got %+v", s.Prune)
		}
		b.wantSeries(t, map[string]float64{"pruned_total": 4, "prune_failures_total": 0})

		b.store.locked.Store(true)
		b.pass(t, 30*time.Minute, 5)
		s = b.Status()
		if s.Failures != 0 || s.LastError != "" || s.Prune.Refused != 2 {
			t.Errorf("status with objects locked: want good backups, two kept, got %+v", s)
		}
		b.wantSeries(t, map[string]float64{"pruned_total": 4, "prune_failures_total": 2, "saves_total/failed": 0})
		b.store.locked.Store(false)
		b.pass(t, 15*time.Minute, 3)
		b.wantSeries(t, map[string]float64{"pruned_total": 7})
		if s := b.Status().Prune; s.Refused != 0 {
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

// TestPruneDelaysNoBackup prunes a dozen backups in a store that throttles deletions. That takes half an hour, in which
// backups are made on time.
func TestPruneDelaysNoBackup(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 3*time.Hour, 12)
		b.store.throttled.Store(int64(50 * time.Second))
		b.cfg.Keep.Newest = 1
		b.Reconfigure(b.cfg)
		before := b.member.began.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := b.member.began.Load() - before; got != 4 {
			t.Errorf("backups in an hour: want 4, got %d", got)
		}
		b.pass(t, 2*time.Hour, 1)
	}, func(b *bench) { b.cfg.Keep = snapshot.Keep{Newest: 100} })
}

// TestKeeperPruneOfAnEarlierLead fails to prune. It says so no longer when another node leads, nor when it leads again:
// that node has pruned since.
func TestKeeperPruneOfAnEarlierLead(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.store.locked.Store(true)
		b.member.leader.Store(true)
		b.pass(t, 110*time.Minute, 8)
		if s := b.Status().Prune; s.Refused != 7 || len(s.Kept) != 5 {
			t.Errorf("while it leads: got %+v", s)
		}
		for _, leads := range []bool{false, true} {
			b.member.leader.Store(leads)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if s := b.Status().Prune; s.Refused != 0 {
				t.Errorf("later, leading %t: got %+v", leads, s)
			}
		}
	}, func(b *bench) { b.cfg.Keep = snapshot.Keep{Newest: 1} })
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
