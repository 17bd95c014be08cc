package snapshot_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/snapshot"
)

func TestKeeperSchedule(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.pass(t, time.Hour, 0) // it does not lead
		b.member.leader.Store(true)
		// Between an election and the next look, the status must not say that no node makes backups, or that none is due.
		if s := b.Status(); !s.Leading || s.Due.IsZero() || s.Overdue {
			t.Errorf("status of a leader just elected: got %+v", s)
		}
		b.pass(t, 2*time.Second, 1) // at once, because there is none
		first := b.Status().Newest
		if due := first.Created.Add(15 * time.Minute); !b.Status().Due.Equal(due) {
			t.Errorf("due: want %s, got %s", due, b.Status().Due)
		}
		b.pass(t, 14*time.Minute+50*time.Second, 1)
		b.pass(t, 20*time.Second, 2)
		b.pass(t, time.Hour, 6)

		b.member.leader.Store(false)
		b.pass(t, 2*time.Second, 6)
		b.member.leader.Store(true)
		if s := b.Status(); !s.Due.Equal(s.Newest.Created.Add(15 * time.Minute)) {
			t.Errorf("a leader again: want the attempt 15m after %s, got %s", s.Newest.Created, s.Due)
		}
		b.member.leader.Store(false)
		b.pass(t, time.Hour, 6)
		if s := b.Status(); s.Leading || s.Overdue || !s.Due.IsZero() {
			t.Errorf("status of a follower: got %+v", s)
		}
	})
}

// TestKeeperPhase changes the leader, restarts, and lets other nodes save: a backup is due 15 minutes after the newest
// one in the store, no matter who made it.
func TestKeeperPhase(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 10*time.Minute, 1)
		b.member.leader.Store(false)
		b.pass(t, 2*time.Second, 1)
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1) // not again because of the election
		b.start(t)                  // a second node, and then it is this one that leads
		b.pass(t, 2*time.Second, 1)
		if got := b.Status().Newest.Content.Revision; got != 6 {
			t.Errorf("newest backup after a restart: want revision 6 from the store, got %d", got)
		}
	})
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 10*time.Minute, 1)
		_, err := snapshot.Save(t.Context(), b.store, b.member.db.Begin(), identity, snapshot.Options{Scratch: b.cfg.Scratch})
		must(t, err)
		b.pass(t, 14*time.Minute, 2)
		b.pass(t, 2*time.Minute, 3)
	})
}

// TestKeeperGeneration begins another generation, as a restore does: nothing in it is in any backup yet, and until
// there is one, the newest backup is what the restore has discarded. So one is made at once.
func TestKeeperGeneration(t *testing.T) {
	for _, setup := range [][]func(b *bench){nil, {withSpool}} {
		keeper(t, func(t *testing.T, b *bench) {
			b.member.leader.Store(true)
			b.pass(t, time.Minute, 1)
			b.member.leader.Store(false)
			b.pass(t, 2*time.Second, 1)
			b.member.later.Store(1)
			b.pass(t, 2*time.Minute, 1)
			if got := b.metrics(t)["rpo_seconds"]; !math.IsInf(got, 1) {
				t.Errorf("rpo_seconds: want +Inf before the new generation has a backup, got %v", got)
			}
			b.member.leader.Store(true)
			b.pass(t, 2*time.Second, 2)
			if got, want := b.Status().Newest.Generation, identity.Generation+1; got != want {
				t.Errorf("generation of the newest backup: want %d, got %d", want, got)
			}
			b.pass(t, 14*time.Minute, 2)
			b.pass(t, 2*time.Minute, 3)
		}, setup...)
	}
}

// TestKeeperFastRestore begins another generation between two looks at the leader: a restore can be that fast.
func TestKeeperFastRestore(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 50*time.Minute, 4)
		b.member.later.Store(1)
		if got := b.metrics(t)["rpo_seconds"]; !math.IsInf(got, 1) {
			t.Errorf("rpo_seconds: want +Inf before the new generation has a backup, got %v", got)
		}
		if s := b.Status(); s.Due.After(time.Now()) || s.Overdue {
			t.Errorf("status before the next look: got due %s, overdue %t", s.Due, s.Overdue)
		}
		b.store.off.Store(true)
		time.Sleep(2 * time.Second)
		if s := b.Status(); s.Failures != 1 || s.Overdue {
			t.Errorf("status after a failure: got %d failures, overdue %t", s.Failures, s.Overdue)
		}
		time.Sleep(30 * time.Minute)
		if s := b.Status(); !s.Overdue {
			t.Error("status after half an hour of failures: want overdue")
		}
		b.store.off.Store(false)
		b.pass(t, time.Minute, 5)
		b.pass(t, 14*time.Minute, 5)
	})
}

// TestKeeperFreshOfGeneration asks for a fresh backup in a generation that has none.
func TestKeeperFreshOfGeneration(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		_, err := b.Save(t.Context(), nil)
		must(t, err)
		b.member.later.Store(1)
		got, err := b.Fresh(t.Context(), time.Hour)
		if err != nil || got.Generation != identity.Generation+1 {
			t.Errorf("want a backup of the new generation, got one of %d, %v", got.Generation, err)
		}
	})
}

// TestKeeperFuture finds a backup of a node whose clock is a year ahead, and does not wait a year.
func TestKeeperFuture(t *testing.T) {
	_, _, meta := saved(t, smallDB(t))
	keeper(t, func(t *testing.T, b *bench) {
		forgeAt(t, b.store, meta, time.Now().Add(365*24*time.Hour))
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 2)
		b.pass(t, 10*time.Minute, 2) // but it does not save all the time either
		b.pass(t, 6*time.Minute, 3)
	})
}

// TestKeeperUnfinished finds only an unfinished backup: it does not count.
func TestKeeperUnfinished(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		name := snapshot.FormatName(time.Now())
		must(t, b.store.Put(t.Context(), name+"/etcd.backup.zst", strings.NewReader("x")))
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 2)
	})
}

func TestKeeperFailures(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, time.Minute, 1)
		b.store.off.Store(true)
		time.Sleep(13*time.Minute + 50*time.Second)
		var attempts []time.Time
		for failures := range 8 {
			for b.Status().Failures == failures {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			attempts = append(attempts, time.Now())
		}
		for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute} {
			if got := attempts[i+1].Sub(attempts[i]); got != want {
				t.Errorf("wait after failure %d: want %s, got %s", i+1, want, got)
			}
		}
		s := b.Status()
		if s.Failures != 8 || !s.Overdue || !strings.Contains(s.LastError, "no route to host") || s.Newest.Name == "" {
			t.Errorf("status: want 8 failures, overdue, the error, the backup there is, got %+v", s)
		}
		b.wantMetrics(t, 1, 8, 8)
		b.member.refuses.Store(true) // two faults at once: the first one remains the reason
		if got := b.logs.FilterMessage("backup was not saved").Len(); got != 1 {
			t.Errorf("errors logged for one reason: want 1, got %d", got)
		}
		b.store.off.Store(false)
		time.Sleep(16 * time.Minute)
		if got := b.logs.FilterMessage("backup was not saved").Len(); got != 2 {
			t.Errorf("errors logged for two reasons: want 2, got %d", got)
		}
		b.member.refuses.Store(false)
		b.pass(t, 16*time.Minute, 2)
		if s := b.Status(); s.Failures != 0 || s.Overdue || s.LastError != "" {
			t.Errorf("status after recovery: got %+v", s)
		}
		b.wantMetrics(t, 2, 9, 0)
	})
}

func (b *bench) wantMetrics(t *testing.T, saves, failures, consecutive int) {
	t.Helper()
	newest := b.Status().Newest
	b.wantSeries(t, map[string]float64{
		"saves_total/saved":               float64(saves),
		"saves_total/failed":              float64(failures),
		"consecutive_failures":            float64(consecutive),
		"bytes":                           float64(newest.Stored.Size),
		"database_bytes":                  float64(newest.Content.Size),
		"compression_ratio":               float64(newest.Content.Size) / float64(newest.Stored.Size),
		"last_success_timestamp_seconds":  float64(newest.Created.UnixMicro()) / 1e6,
		"last_verified_timestamp_seconds": float64(newest.Verified.UnixMicro()) / 1e6,
		"rpo_seconds":                     time.Since(newest.Created).Seconds(),
	})
}

// TestKeeperMetricsFromTheStart checks that every series exists before anything has happened.
func TestKeeperMetricsFromTheStart(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.wantSeries(t, map[string]float64{
			"last_success_timestamp_seconds": 0, "last_verified_timestamp_seconds": 0, "rpo_seconds": math.Inf(1), "bytes": 0, "database_bytes": 0,
			"compression_ratio": 0, "duration_seconds": 0, "upload_duration_seconds": 0, "consecutive_failures": 0, "spooled": 0,
			"saves_total/saved": 0, "saves_total/failed": 0, "saves_total/interrupted": 0,
			"failures_total/source": 0, "failures_total/database": 0, "failures_total/spool": 0, "failures_total/full": 0,
			"failures_total/store": 0, "failures_total/mismatch": 0, "failures_total/scratch": 0,
			"drill_last_timestamp_seconds": 0, "drill_last_success": 0, "drill_duration_seconds": 0,
			"drills_total/passed": 0, "drills_total/failed": 0, "drills_total/untried": 0, "drills_total/interrupted": 0,
			"pruned_total": 0, "prune_failures_total": 0,
		})
		if _, err := json.Marshal(b.Status()); err != nil {
			t.Errorf("status as JSON: %v", err)
		}
	})
}

// TestKeeperLosesLead fails, then another node leads: the failure is no longer this node's alarm.
func TestKeeperLosesLead(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.store.off.Store(true)
		b.member.leader.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := b.Status(); s.Failures == 0 || !s.Overdue {
			t.Errorf("status of a leader without a backup for an hour: got %+v", s)
		}
		b.member.leader.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := b.Status(); s.Failures != 0 || s.Overdue {
			t.Errorf("status of a follower: got %+v", s)
		}
	})
}

// TestKeeperTakesOver leads again after a day in which others led. Its information is a day old, which does not mean a
// day without a backup.
func TestKeeperTakesOver(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1)
		b.member.leader.Store(false)
		b.pass(t, 24*time.Hour, 1)
		b.store.off.Store(true)
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1)
		if s := b.Status(); !s.Leading || s.Failures != 1 || s.Overdue {
			t.Errorf("status of a new leader: want one failure, not overdue, got %+v", s)
		}
		b.pass(t, 31*time.Minute, 1)
		if s := b.Status(); !s.Overdue {
			t.Errorf("status half an hour later: want overdue, got %+v", s)
		}
	})
}

func TestKeeperReconfigure(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		cfg := b.cfg
		cfg.Every, cfg.Retry = 0, time.Second
		b.Reconfigure(cfg)
		b.member.leader.Store(true)
		b.pass(t, time.Hour, 0)
		if s := b.Status(); s.Overdue || !s.Due.IsZero() {
			t.Errorf("status when off: got %+v", s)
		}
		cfg.Every = time.Minute
		b.Reconfigure(cfg)
		b.pass(t, 2*time.Second, 1)
		b.pass(t, 3*time.Minute, 4)
		cfg.Every, cfg.Cron = 0, "0 * * * *"
		b.Reconfigure(cfg)
		b.pass(t, time.Hour, 5)
		b.pass(t, time.Hour, 6)
		cfg.Keep = snapshot.Keep{Newest: 2}
		b.Reconfigure(cfg)
		b.pass(t, time.Hour, 2)
	})
}

func TestKeeperDamagedStore(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1)
		must(t, os.Rename(b.dir, filepath.Join(filepath.Dir(b.dir), "elsewhere")))
		must(t, os.Mkdir(b.dir, 0o700))
		time.Sleep(16 * time.Minute)
		synctest.Wait()
		if s := b.Status(); s.Failures == 0 || !strings.Contains(s.LastError, "still mounted") {
			t.Errorf("status: want that the store is gone, got %+v", s)
		}
		if got := files(t, b.dir); len(got) != 0 {
			t.Errorf("the place where the store was: want nothing written there, got %v", got)
		}
	})
}

// A damaged sidecar may be that of the backup that holds the most: the status says so while all is well.
func TestKeeperTellsOfADoubt(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 20*time.Minute, 2)
		newest := b.Status().Newest.Name
		if err := b.Status().Doubt; err != nil {
			t.Errorf("got %v", err)
		}
		put(t, b.store, newest+"/holdfast.meta.json", "{")
		b.pass(t, 2*time.Minute, 3) // it does not count for the schedule, but may hold more than the new one
		if err := b.Status().Doubt; err == nil || !strings.Contains(err.Error(), newest+" does not tell what it holds") {
			t.Errorf("got %v", err)
		}
	})
}
