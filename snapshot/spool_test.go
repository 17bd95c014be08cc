package snapshot_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/snapshot"
)

// spooled is the spool of a bench for a test.
func (b *bench) spooled() *switched { return b.spool.(*switched) }

// TestKeeperSpool makes backups in the spool. They get into both stores, and at most two of them stay in the spool.
func TestKeeperSpool(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		for i := range 5 {
			b.pass(t, 15*time.Minute, i+1)
			local := backups(t, b.spool)
			if want := min(i+1, 2); len(local) != want {
				t.Fatalf("backups in the spool after %d: want %d, got %d", i+1, want, len(local))
			}
			if newest := b.Status().Newest; newest != local[len(local)-1].Meta {
				t.Errorf("newest: want that of the spool %+v, got %+v", local[len(local)-1].Meta, newest)
			}
			if s := b.Status(); len(s.Spooled) != 0 || s.Failures != 0 {
				t.Errorf("status: want nothing to wait, got %+v", s)
			}
		}
		b.wantSeries(t, map[string]float64{"spooled": 0, "saves_total/saved": 5})
	}, withSpool)
}

// TestKeeperSpoolStoreOff cuts off the store for hours. Backups are still made in time, and the newest two stay. When
// the store is back, the newest one is soon there, without another transaction.
func TestKeeperSpoolStoreOff(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, time.Minute, 1)
		first := b.Status().Newest
		b.store.off.Store(true)
		for range 3 * 60 {
			time.Sleep(time.Minute)
			if got := len(backups(t, b.spool)); got > 2 {
				t.Fatalf("backups in the spool: want at most 2, got %d", got)
			}
		}
		if got := b.member.began.Load(); got != 1+12 {
			t.Errorf("transactions in 3 hours without the store: want one each 15 minutes, 13 in all, got %d", got)
		}
		s := b.Status()
		if s.Newest != first || !s.Overdue || s.Failures == 0 || len(s.Spooled) != 2 {
			t.Errorf("status: want the first backup alone, overdue, two in the spool, got %+v", s)
		}
		b.wantSeries(t, map[string]float64{
			"spooled": 2, "failures_total/store": float64(s.Failures), "saves_total/saved": 1,
			"rpo_seconds": time.Since(first.Created).Seconds(), // only backups in the store count
		})
		waiting := s.Spooled[1]
		b.store.off.Store(false)
		time.Sleep(time.Until(s.Due) + time.Second)
		if s := b.Status(); s.Failures != 0 || s.Overdue || len(s.Spooled) != 0 || time.Since(s.Newest.Created) > 16*time.Minute {
			t.Errorf("status with the store back: got %+v", s)
		}
		if b.Status().Newest.Name == waiting && b.member.began.Load() != 13 {
			t.Error("what had waited was copied, and yet a transaction was begun")
		}
	}, withSpool)
}

// TestKeeperSpoolStoreHangs lets the store hang, before a save or in the middle of one. Backups are still made in the
// spool, and the newest gets into the store when that answers.
func TestKeeperSpoolStoreHangs(t *testing.T) {
	for name, after := range map[string]time.Duration{"before a save": time.Minute, "during one": 0} {
		keeper(t, func(t *testing.T, b *bench) {
			release := make(chan struct{})
			if after == 0 {
				b.spooled().placed = func() { b.store.hangs.Store(&release) }
			}
			b.member.leader.Store(true)
			time.Sleep(after + time.Second)
			b.store.hangs.Store(&release)
			time.Sleep(40 * time.Minute)
			synctest.Wait()
			s := b.Status()
			if s.Failures == 0 || len(s.Spooled) != 2 {
				t.Fatalf("%s: want failures, and two backups in the spool, got %+v", name, s)
			}
			b.store.hangs.Store(nil)
			close(release)
			time.Sleep(time.Until(s.Due) + 5*time.Second)
			synctest.Wait()
			if s := b.Status(); s.Failures != 0 || len(s.Spooled) != 0 || time.Since(s.Newest.Created) > 16*time.Minute {
				t.Errorf("%s: with the store back: got %+v", name, s)
			}
		}, withSpool)
	}
}

// TestKeeperSpoolHangs lets the disk of the spool hang: the backup fails, and the error names the spool.
func TestKeeperSpoolHangs(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, time.Minute, 1)
		release := make(chan struct{})
		b.spooled().hangs.Store(&release)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		s := b.Status()
		if s.Failures == 0 || !strings.HasPrefix(s.LastError, "spool: ") ||
			!strings.HasSuffix(s.LastError, "no answer within 1m0s") {
			t.Errorf("status: got %+v", s)
		}
		b.spooled().hangs.Store(nil)
		close(release)
		b.pass(t, 16*time.Minute, 2)
	}, withSpool)
}

// TestKeeperSpoolAfterRestart restarts a node that no longer leads, while the store is slow to answer. When it has
// answered, the node does not say that its backup, which is in the store, waits.
func TestKeeperSpoolAfterRestart(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, time.Minute, 1)
		b.member.leader.Store(false)
		release := make(chan struct{})
		b.store.hangs.Store(&release)
		b.start(t)
		time.Sleep(2 * time.Second)
		close(release)
		synctest.Wait()
		if s := b.Status(); s.Count != 1 || len(s.Spooled) != 0 {
			t.Errorf("status: want one backup in the store and none that waits, got %+v", s)
		}
		b.wantSeries(t, map[string]float64{"spooled": 0})
	}, withSpool)
}

// TestKeeperSpoolRetry lets one upload fail: the next attempt uploads the same backup.
func TestKeeperSpoolRetry(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.store.full.Store(true)
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1) // begun, but not finished
		s := b.Status()
		b.wantSeries(t, map[string]float64{"failures_total/full": 1})
		if s.Failures != 1 || len(s.Spooled) != 1 || !strings.Contains(s.LastError, "which is in the spool") || s.Newest.Name != "" {
			t.Errorf("status: want that the store is full and one backup waits, got %+v", s)
		}
		b.store.full.Store(false)
		b.pass(t, 30*time.Second, 1)
		if got := b.Status(); got.Failures != 0 || got.Newest.Name != s.Spooled[0] || b.member.began.Load() != 1 {
			t.Errorf("status: want %s in the store after one transaction, got %+v", s.Spooled[0], got)
		}
	}, withSpool)
}

// TestKeeperSpoolFull fills the local disk: that is a reason of its own, leaves nothing behind, and touches no store.
func TestKeeperSpoolFull(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 16*time.Minute, 2)
		b.spooled().full.Store(true)
		b.pass(t, 15*time.Minute, 2)
		s := b.Status()
		if !strings.Contains(s.LastError, "no room in the spool: free some, or give it more") {
			t.Errorf("status: want that the spool has no room, got %+v", s)
		}
		for _, left := range backups(t, b.spool) {
			if left.Problem != "" {
				t.Errorf("spool: %s is left behind: %s", left.Name, left.Problem)
			}
		}
		if got := b.logs.FilterMessage("backup was not saved").Len(); got != 1 {
			t.Errorf("errors logged: want 1, got %d", got)
		}
		b.wantSeries(t, map[string]float64{"failures_total/full": float64(s.Failures)})
		b.spooled().full.Store(false)
		b.spooled().off.Store(true)
		time.Sleep(16 * time.Minute)
		if b.metrics(t)["failures_total/spool"] == 0 || b.member.began.Load() > 10 {
			t.Errorf("without the spool: want that it is the spool, got %+v", b.Status())
		}
		b.spooled().off.Store(false)
		b.pass(t, 16*time.Minute, 3)
	}, withSpool)
}

// TestKeeperSpoolGarbage starts with a spool in which processes were killed.
func TestKeeperSpoolGarbage(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		if got := files(t, filepath.Join(b.cfg.Spool, ".holdfast")); len(got) != 0 {
			t.Errorf("unfinished files in the spool: want none, got %v", got)
		}
		local := backups(t, b.spool)
		if !slices.ContainsFunc(local, func(l snapshot.Backup) bool { return l.Foreign }) || len(local) != 2 {
			t.Errorf("spool: want one backup of ours and the foreign one, got %+v", local)
		}
	}, func(b *bench) {
		spool := snapshot.NewDir(b.cfg.Spool)
		b.spool = spool
		meta := identity
		for i := range 4 {
			meta.Cluster = "prod"
			if i == 0 {
				meta.Cluster = "other"
			}
			_, err := snapshot.Save(context.Background(), spool, b.member.db.Begin(), meta, snapshot.Options{Scratch: b.cfg.Scratch})
			if err != nil {
				panic(err)
			}
		}
		begun := snapshot.FormatName(time.Now().Add(time.Second)) + "/etcd.backup.zst"
		if err := spool.Put(context.Background(), begun, strings.NewReader("cut sho")); err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(b.cfg.Spool, ".holdfast", "0123"), make([]byte, 1<<20), 0o600); err != nil {
			panic(err)
		}
	})
}

// TestKeeperSpoolDamaged changes a byte of a waiting backup. It is not uploaded, and not tried again and again.
func TestKeeperSpoolDamaged(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.store.off.Store(true)
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 0)
		name := b.Status().Spooled[0]
		file := filepath.Join(b.cfg.Spool, name, "etcd.backup.zst")
		data, err := os.ReadFile(file)
		must(t, err)
		data[len(data)/2] ^= 1
		must(t, os.WriteFile(file, data, 0o600))
		b.store.off.Store(false)
		time.Sleep(30 * time.Second)
		b.wantSeries(t, map[string]float64{"failures_total/mismatch": 1})
		if s := b.Status(); s.Newest.Name != "" {
			t.Errorf("status: want none in the store, got %+v", s)
		}
		time.Sleep(time.Minute)
		if s := b.Status(); s.Failures != 0 || s.Newest.Name == "" || s.Newest.Name == name {
			t.Errorf("status: want a new backup, got %+v", s)
		}
	}, withSpool)
}

func TestCheckRoom(t *testing.T) {
	spool := snapshot.NewDir(t.TempDir())
	must(t, snapshot.CheckRoom(t.Context(), spool, 1))
	err := snapshot.CheckRoom(t.Context(), spool, 1<<60)
	if err == nil || !strings.Contains(err.Error(), "a backup may need 1152921504606846976") {
		t.Errorf("a database larger than the disk: want an error, got %v", err)
	}
	must(t, snapshot.CheckRoom(t.Context(), snapshot.NewDir("/does/not/exist"), 1<<60)) // the save will report it
}
