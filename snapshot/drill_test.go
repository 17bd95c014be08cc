package snapshot_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/snapshot"
)

// drills is a drill that a test controls.
type drills struct {
	mu    sync.Mutex
	names []string
	do    func(ctx context.Context) (snapshot.Drill, error)
}

func (d *drills) drill(ctx context.Context, name string) (snapshot.Drill, error) {
	d.mu.Lock()
	d.names = append(d.names, name)
	do := d.do
	d.mu.Unlock()
	time.Sleep(10 * time.Second)
	if do != nil {
		return do(ctx)
	}
	return snapshot.Drill{Revision: 6, HashKV: 42, Compared: true}, nil
}

// set changes what a drill does; with nil it finds no problem.
func (d *drills) set(do func(ctx context.Context) (snapshot.Drill, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.do = do
}

// drilled runs test with a keeper that drills once a day.
func drilled(t *testing.T, test func(t *testing.T, b *bench, d *drills), setup ...func(b *bench)) {
	t.Helper()
	d := &drills{}
	keeper(t, func(t *testing.T, b *bench) { test(t, b, d) }, append(setup, func(b *bench) { b.drill = d.drill })...)
}

// seldom makes few backups, for a test that lasts days.
func seldom(b *bench) { b.cfg.Every = 4 * time.Hour }

// after lets time pass, and then wants this number of drills.
func (d *drills) after(t *testing.T, wait time.Duration, want int) {
	t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	if len(d.names) != want {
		t.Fatalf("drills %s later: want %d, got %d", wait, want, len(d.names))
	}
}

// TestDrillSchedule drills the newest backup once a day, through elections and restarts.
func TestDrillSchedule(t *testing.T) {
	drilled(t, func(t *testing.T, b *bench, d *drills) {
		d.after(t, time.Hour, 0) // it does not lead
		b.member.leader.Store(true)
		d.after(t, time.Minute, 1)
		first := b.Status().Newest.Name
		if s := b.Status().Drill; d.names[0] != first || s.Last.Name != first || s.Last.HashKV != 42 || s.Last.Took != 10*time.Second || !s.Due.Equal(s.Last.Time.Add(24*time.Hour)) {
			t.Errorf("status: want a drill of %s, the next a day later, got %+v", first, s)
		}
		b.wantSeries(t, map[string]float64{
			"drills_total/passed": 1, "drill_last_success": 1, "drill_duration_seconds": 10,
			"drill_last_timestamp_seconds": float64(b.Status().Drill.Last.Time.UnixMicro()) / 1e6,
		})
		d.after(t, 12*time.Hour, 1)
		b.member.leader.Store(false)
		time.Sleep(2 * time.Second)
		b.member.leader.Store(true)
		d.after(t, time.Hour, 1)
		b.member.leader.Store(false) // another node, which learns of it from the store
		b.member = &member{db: b.member.db}
		b.start(t)
		b.member.leader.Store(true)
		d.after(t, time.Minute, 1)
		if s := b.Status().Drill.Last; s.Name != first {
			t.Errorf("last drill as another node knows it: want %s, got %+v", first, s)
		}
		b.wantSeries(t, map[string]float64{"drills_total/passed": 0, "drill_last_success": 1})
		d.after(t, 11*time.Hour, 2)
		d.after(t, 24*time.Hour, 3)
		if slices.Contains(d.names[1:], first) {
			t.Errorf("drills: want the newest each time, got %v", d.names)
		}
	}, seldom)
}

// TestDrillFails finds a backup that cannot be restored: this is reported at once, and tried again after an hour.
func TestDrillFails(t *testing.T) {
	drilled(t, func(t *testing.T, b *bench, d *drills) {
		d.do = func(context.Context) (snapshot.Drill, error) {
			return snapshot.Drill{Error: "HashKV: want 1, got 2"}, nil
		}
		b.member.leader.Store(true)
		d.after(t, 30*time.Minute, 1)
		if s := b.Status(); s.Drill.Last.Error == "" || s.Failures != 0 || s.LastError != "" {
			t.Errorf("status: want the drill's error, and none of the backup, got %+v", s)
		}
		if got := b.logs.FilterMessage("backup failed its restore drill").Len(); got != 1 {
			t.Errorf("errors logged: want 1, got %d", got)
		}
		b.wantSeries(t, map[string]float64{"drills_total/failed": 1, "drill_last_success": 0})
		d.set(nil)
		d.after(t, 40*time.Minute, 2)
		if s := b.Status(); s.Drill.Last.Error != "" {
			t.Errorf("status after a good drill: got %+v", s)
		}
		d.after(t, 23*time.Hour, 2)
	}, seldom)
}

// TestDrillUntried cannot drill for a while: it tries again with growing delays, and reports an error meanwhile.
func TestDrillUntried(t *testing.T) {
	drilled(t, func(t *testing.T, b *bench, d *drills) {
		d.do = func(context.Context) (snapshot.Drill, error) {
			return snapshot.Drill{}, errors.New("no room to restore")
		}
		b.member.leader.Store(true)
		d.after(t, 5*time.Minute, 4) // after 0, 30, 60 and 120 seconds, plus the time that they take
		if s := b.Status().Drill; !strings.Contains(s.Error, "no room to restore") || s.Last.Name != "" {
			t.Errorf("status: want why it could not be tried, got %+v", s)
		}
		if got := b.logs.FilterMessage("restore drill could not be tried").Len(); got != 1 {
			t.Errorf("errors logged: want 1, got %d", got)
		}
		b.wantSeries(t, map[string]float64{"drills_total/untried": 4, "drill_last_timestamp_seconds": 0})
		d.set(nil)
		d.after(t, 5*time.Minute, 5)
		if s := b.Status().Drill; s.Error != "" || s.Last.Name == "" {
			t.Errorf("status after a good drill: got %+v", s)
		}
	})
}

// TestDrillHangs lets a drill hang until it is stopped. That is a finding, and it does not delay the next backup.
func TestDrillHangs(t *testing.T) {
	drilled(t, func(t *testing.T, b *bench, d *drills) {
		d.set(func(ctx context.Context) (snapshot.Drill, error) {
			<-ctx.Done()
			return snapshot.Drill{}, ctx.Err()
		})
		b.member.leader.Store(true)
		d.after(t, 10*time.Minute, 1)
		if s := b.Status(); s.Drill.Running != s.Newest.Name {
			t.Errorf("status: want that it runs, got %+v", s.Drill)
		}
		b.pass(t, 6*time.Minute, 2)
		if s := b.Status().Drill; !strings.Contains(s.Last.Error, "it had not ended after 14m5") || s.Running != "" {
			t.Errorf("status: want that it did not end, got %+v", s)
		}
		b.wantSeries(t, map[string]float64{"drills_total/failed": 1})
	})
}

// TestDrillGivesWay requests a backup during a drill. The backup does not wait, and the drill is repeated.
func TestDrillGivesWay(t *testing.T) {
	drilled(t, func(t *testing.T, b *bench, d *drills) {
		d.set(func(ctx context.Context) (snapshot.Drill, error) {
			select {
			case <-ctx.Done():
				return snapshot.Drill{Error: "killed"}, nil // as someone might report who sees the process end
			case <-time.After(5 * time.Minute):
				return snapshot.Drill{Revision: 6}, nil
			}
		})
		b.member.leader.Store(true)
		time.Sleep(time.Minute)
		start := time.Now()
		_, err := b.Save(t.Context(), nil)
		must(t, err)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the backup that was asked for waited %s", waited)
		}
		d.after(t, time.Minute, 2)
		if s := b.Status().Drill; s.Last.Name != "" || s.Error != "" || d.names[1] == d.names[0] {
			t.Errorf("status: want no finding, and the newer backup drilled, got %+v, %v", s, d.names)
		}
		b.wantSeries(t, map[string]float64{"drills_total/interrupted": 1, "drills_total/failed": 0})
		d.after(t, time.Hour, 2)
		if s := b.Status().Drill; s.Last.Revision != 6 {
			t.Errorf("status: want the second drill's result, got %+v", s)
		}
	})
}

// TestDrillRecord finds invalid data in place of the last drill's result.
func TestDrillRecord(t *testing.T) {
	future, err := json.Marshal(snapshot.Drill{Name: "x", Time: time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)})
	must(t, err)
	for name, text := range map[string]string{"no JSON": "{", "from the future": string(future), "empty": ""} {
		t.Run(name, func(t *testing.T) {
			drilled(t, func(t *testing.T, b *bench, d *drills) {
				must(t, b.store.Put(t.Context(), "holdfast/prod/drill.json", strings.NewReader(text)))
				b.member.leader.Store(true)
				d.after(t, time.Hour, 1)
				r, err := b.store.Get(t.Context(), "holdfast/prod/drill.json")
				must(t, err)
				defer r.Close()
				b2, err := io.ReadAll(r)
				must(t, err)
				var got snapshot.Drill
				if err := json.Unmarshal(b2, &got); err != nil || !reflect.DeepEqual(got, b.Status().Drill.Last) {
					t.Errorf("stored: want %+v, got %s, %v", b.Status().Drill.Last, b2, err)
				}
			})
		})
	}
}

// TestDrillStoreOff cannot ask the store when a drill is due: it shows that, and makes no drill on a guess.
func TestDrillStoreOff(t *testing.T) {
	drilled(t, func(t *testing.T, b *bench, d *drills) {
		b.member.leader.Store(true)
		d.after(t, 23*time.Hour+50*time.Minute, 1)
		b.store.off.Store(true)
		d.after(t, time.Hour, 1)
		if s := b.Status().Drill; !strings.Contains(s.Error, "no route to host") {
			t.Errorf("status: want that the store is off, got %+v", s)
		}
		b.store.off.Store(false)
		d.after(t, time.Hour, 2)
	}, seldom)
}

// TestNoDrill has no drill function: no backup is drilled, and backups are made all the same.
func TestNoDrill(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 25*time.Hour, 7)
		if s := b.Status().Drill; !s.Due.IsZero() || s.Last.Name != "" {
			t.Errorf("status: want no drill, got %+v", s)
		}
	}, seldom)
}

// TestDrillWithoutIdentity encrypts without having the key: that nothing is drilled is no failure, but is shown.
func TestDrillWithoutIdentity(t *testing.T) {
	drilled(t, func(t *testing.T, b *bench, d *drills) {
		b.member.leader.Store(true)
		d.after(t, 50*time.Hour, 0)
		if s := b.Status().Drill; !strings.Contains(s.Off, "no identity") || !s.Due.IsZero() || s.Error != "" {
			t.Errorf("status: want that drills are off, and why, got %+v", s)
		}
	}, seldom, func(b *bench) {
		b.cfg.Recipients = []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"}
	})
}

// TestDrillOfAnotherFounding finds the drill of a cluster that was given up: it proves nothing about the new cluster's
// backups.
func TestDrillOfAnotherFounding(t *testing.T) {
	drilled(t, func(t *testing.T, b *bench, d *drills) {
		old, err := json.Marshal(snapshot.Drill{Name: "of the old one", Lineage: "l-0", Time: time.Now()})
		must(t, err)
		must(t, b.store.Put(t.Context(), "holdfast/prod/drill.json", strings.NewReader(string(old))))
		b.member.leader.Store(true)
		d.after(t, time.Minute, 1)
		if last := b.Status().Drill.Last; last.Lineage != "l-1" || last.Name == "of the old one" {
			t.Errorf("last drill: want our own, got %+v", last)
		}
		d.after(t, 20*time.Hour, 1) // and not repeatedly
	}, seldom)
}
