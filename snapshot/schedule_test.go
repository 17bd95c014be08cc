package snapshot_test

import (
	"slices"
	"testing"
	"time"

	"holdfast/snapshot"
)

// TestNextDue checks when the next attempt is made after a backup, with a correct clock and a wrong one.
func TestNextDue(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	berlin := time.FixedZone("CEST", 2*60*60)
	for name, test := range map[string]struct {
		every        time.Duration
		cron         string
		created, now time.Time
		want         time.Time // zero means at once
	}{
		"every":            {every: 15 * time.Minute, created: noon, now: noon, want: noon.Add(15 * time.Minute)},
		"long ago":         {every: 15 * time.Minute, created: noon.AddDate(-1, 0, 0), now: noon, want: noon.AddDate(-1, 0, 0).Add(15 * time.Minute)},
		"clock set back":   {every: time.Minute, created: noon.Add(time.Hour), now: noon},
		"clocks differ":    {every: time.Minute, created: noon.Add(30 * time.Second), now: noon, want: noon.Add(90 * time.Second)},
		"cron":             {cron: "*/20 * * * *", created: noon.Add(3 * time.Second), now: noon, want: noon.Add(20 * time.Minute)},
		"cron, just then":  {cron: "*/20 * * * *", created: noon, now: noon, want: noon.Add(20 * time.Minute)},
		"cron is in UTC":   {cron: "0 3 * * *", created: noon.In(berlin), now: noon, want: time.Date(2026, 7, 2, 3, 0, 0, 0, time.UTC)},
		"cron beats every": {every: time.Minute, cron: "@daily", created: noon, now: noon, want: time.Date(2026, 7, 2, 0, 0, 0, 0, time.UTC)},
		"leap day":         {cron: "0 0 29 2 *", created: noon, now: noon, want: time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC)},
	} {
		cfg := snapshot.Default()
		cfg.Every, cfg.Cron = test.every, test.cron
		if got := snapshot.Due(cfg, test.created, test.now); !got.Equal(test.want) {
			t.Errorf("%s: want %s, got %s", name, test.want, got)
		}
	}
}

func TestRetryAt(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	waits := func(every, retry time.Duration, cron string) (got []time.Duration) {
		cfg := snapshot.Default()
		cfg.Every, cfg.Retry, cfg.Cron = every, retry, cron
		for failures := range 9 {
			got = append(got, snapshot.RetryAt(cfg, noon, failures+1).Sub(noon))
		}
		return got
	}
	s, m, h := time.Second, time.Minute, time.Hour
	for name, test := range map[string]struct{ got, want []time.Duration }{
		"until the next is due":    {waits(5*m, 30*s, ""), []time.Duration{30 * s, m, 2 * m, 4 * m, 5 * m, 5 * m, 5 * m, 5 * m, 5 * m}},
		"an hour at most":          {waits(24*h, 10*m, ""), []time.Duration{10 * m, 20 * m, 40 * m, h, h, h, h, h, h}},
		"cron":                     {waits(0, 20*m, "30 * * * *"), []time.Duration{20 * m, 30 * m, 30 * m, 30 * m, 30 * m, 30 * m, 30 * m, 30 * m, 30 * m}},
		"retry longer than that":   {waits(24*h, 2*h, ""), slices.Repeat([]time.Duration{2 * h}, 9)},
		"retry longer than every":  {waits(m, 2*h, ""), slices.Repeat([]time.Duration{m}, 9)},
		"thousands do not overrun": {[]time.Duration{snapshot.RetryAt(snapshot.Default(), noon, 100_000).Sub(noon)}, []time.Duration{15 * m}},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: want %s, got %s", name, test.want, test.got)
		}
	}
}

// TestKeeperCron follows a cron schedule over two days, in which the leader changes every 100 minutes.
func TestKeeperCron(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 2*time.Second, 1) // 2000-01-01, a Saturday, at midnight: there is none, so one is made at once
		until := time.Date(2000, 1, 3, 0, 0, 5, 0, time.UTC)
		for time.Now().Before(until) {
			time.Sleep(min(100*time.Minute, time.Until(until)))
			b.member.leader.Store(false)
			time.Sleep(time.Second)
			b.member.leader.Store(true)
		}
		b.pass(t, time.Second, 1+3+3)
		for i, want := range []string{"01T00:00", "01T06:30", "01T12:30", "01T18:30", "02T06:30", "02T12:30", "02T18:30"} {
			if got := backups(t, b.store)[i].Created.Format("02T15:04"); got != want {
				t.Errorf("backup %d: want it made at %s, got %s", i, want, got)
			}
		}
		if want := time.Date(2000, 1, 3, 6, 30, 0, 0, time.UTC); !b.Status().Due.Equal(want) {
			t.Errorf("due: want %s, got %s", want, b.Status().Due)
		}
		b.store.off.Store(true)
		time.Sleep(12*time.Hour + 29*time.Minute)
		if s := b.Status(); s.Overdue {
			t.Errorf("one missed, the second one just due: want not overdue, got %+v", s)
		}
		time.Sleep(10 * time.Minute)
		if s := b.Status(); !s.Overdue {
			t.Errorf("two missed: want overdue, got %+v", s)
		}
	}, func(b *bench) { b.cfg.Cron = "30 6-18/6 * * *" })
}

// TestKeeperClockAhead finds that the newest backup seems to be a year old, because the clock has jumped. That makes
// one backup, not one for each that is missing, and removes none.
func TestKeeperClockAhead(t *testing.T) {
	_, _, meta := saved(t, smallDB(t))
	keeper(t, func(t *testing.T, b *bench) {
		for i := range 48 {
			forgeAt(t, b.store, meta, time.Now().AddDate(-1, 0, 0).Add(-time.Duration(i)*time.Hour))
		}
		b.member.leader.Store(true)
		time.Sleep(2 * time.Second)
		if got := b.Status().Newest.Created; time.Since(got) > 2*time.Second {
			t.Errorf("newest: want one of just now, got %s", got)
		}
		after := b.backups(t)
		if after < 4 { // one of each of the three days, and the newest three
			t.Errorf("backups after the jump: want at least 4 of 49, got %d", after)
		}
		b.pass(t, 14*time.Minute, after)
	}, func(b *bench) { b.cfg.Keep = snapshot.Default().Keep })
}

// TestKeeperFailover has two keepers on one store that both believe that they lead for an hour, and then only the
// second one does. Each backup may be made twice, and all are good.
func TestKeeperFailover(t *testing.T) {
	db, scratch := smallDB(t), t.TempDir()
	keeper(t, func(t *testing.T, b *bench) {
		other := &bench{member: &member{db: db}, dir: b.dir, store: b.store, cfg: b.cfg}
		other.cfg.Scratch = scratch
		other.start(t)
		b.member.leader.Store(true)
		other.member.leader.Store(true)
		time.Sleep(time.Hour + time.Minute)
		b.member.leader.Store(false)
		both := b.backups(t)
		if both < 5 || both > 10 {
			t.Errorf("backups of two leaders in an hour: want 5 to 10, got %d", both)
		}
		b.pass(t, time.Hour, both+4)
		for _, made := range backups(t, b.store) {
			if made.Problem != "" {
				t.Errorf("backup %s: %s", made.Name, made.Problem)
			}
			if _, err := snapshot.Verify(t.Context(), b.store, made.Name, snapshot.Options{Scratch: scratch}); err != nil {
				t.Error(err)
			}
		}
	})
}
