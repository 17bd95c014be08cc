package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// backups are backups that behave as a test says.
type backups struct {
	mu      sync.Mutex
	backup  Backup
	err     error
	hang    bool // a fetch lasts until it is cancelled
	fresh   int  // how often a fresh one was requested
	freshIn time.Duration
	made    time.Time
	stand   plan.BackupStand // the newest
	newest  int              // how often the newest was requested
}

func (b *backups) Check(context.Context, string, string, func(Progress)) (Backup, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.backup, b.err
}
func (b *backups) Fetch(ctx context.Context, _, path string, progress func(Progress)) (Backup, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	progress(Progress{Phase: "verifying", Done: 1, Total: b.backup.Bytes})
	if b.hang {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return Backup{}, ctx.Err()
	}
	if b.err == nil {
		b.err = os.WriteFile(path, []byte("database"), 0o600)
	}
	return b.backup, b.err
}
func (b *backups) Fresh(ctx context.Context, _ time.Duration) error {
	b.mu.Lock()
	b.fresh++
	in := b.freshIn
	b.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(in):
		return nil
	}
}
func (b *backups) Made() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.made
}
func (b *backups) Revision(context.Context, string) (int64, error) { return 70, nil }
func (b *backups) Newest(ctx context.Context, _ string) (plan.BackupStand, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest++
	return b.stand, b.err
}

// restorable makes a member that serves generation 1, and a proposal for generation 2.
func restorable(t *testing.T) (*world, plan.Restore) {
	w := newWorld(t)
	r := record("a")
	l := ledgerV1{Version: 1, Etcd: "3.7.3", Ledger: plan.Ledger{Record: &r, Role: plan.RoleFounder, Started: "disk-a"}}
	if err := l.write(w.dir); err != nil {
		t.Fatal(err)
	}
	w.data = plan.DataDir{WAL: true, Member: 1, ClusterID: 7}
	w.backups.backup = Backup{Name: "b1", Digest: strings.Repeat("0f", 32), Revision: 50, Bytes: 8}
	return w, NewRestore(r, 0, w.backups.backup, 70, 100)
}

func (w *world) holding() *Coordinator {
	c := w.coordinator("a")
	c.holding.hold(w)
	return c
}

func look(t *testing.T, c *Coordinator) plan.Observation {
	t.Helper()
	o, err := c.observer.observe()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestNewRestore(t *testing.T) {
	founding := record("a")
	second := plan.Record{Cluster: "test", Generation: 2, ID: "second", Line: []string{founding.ID}}
	raised := second
	raised.Restore = &plan.Restore{Revision: 1000, Bump: 8000}
	for name, tc := range map[string]struct {
		parent     plan.Record
		last, bump int64
		want       int64
	}{
		"the configured bump":                       {founding, 50, 100, 100},
		"more, to be beyond the last":               {founding, 1050, 100, 1100},
		"a backup newer than what lives":            {founding, 0, 100, 100},
		"a later generation":                        {second, 50, 0, 0},
		"a restore that no backup has followed yet": {raised, 50, 100, 9050},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRestore(tc.parent, 2, Backup{Name: "b", Digest: "d", Revision: 50}, tc.last, tc.bump)
			if r.Bump != tc.want || r.Generation != tc.parent.Generation+1 || r.Attempt != 3 || r.Parent() != tc.parent.ID || len(r.ID) != 16 {
				t.Errorf("got %+v", r)
			}
			if r.Line[0] != founding.ID || len(r.Line) != int(tc.parent.Generation) {
				t.Errorf("line: got %v", r.Line)
			}
		})
	}
}

func TestPrepareThenEnterThenSwap(t *testing.T) {
	w, r := restorable(t)
	c := w.holding()
	if err := os.MkdirAll(filepath.Join(w.dir, "restore-older", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.loop.actor.act(t.Context(), look(t, c), plan.Action{Kind: plan.Prepare, Restore: &r}); err != nil {
		t.Fatal(err)
	}
	o := look(t, c)
	if o.Disk.Ledger.Prepared == nil || o.Disk.Ledger.Prepared.ID != r.ID || o.Disk.Built != r.ID {
		t.Fatalf("after prepare: %+v", o.Disk)
	}
	born := plan.Record{Cluster: "test", Generation: 2, ID: r.ID, Line: r.Line, Cause: plan.Restored, Restore: &r, Charter: o.Disk.Ledger.Record.Charter}
	born.Charter.Generation = 2
	wal, err := os.ReadFile(filepath.Join(w.dir, "restore-"+r.ID, "wal"))
	if want := born.Token() + " http://a.test:2380 120"; err != nil || string(wal) != want {
		t.Errorf("built %q, %v; want %q", wal, err, want)
	}
	if entries, _ := filepath.Glob(filepath.Join(w.dir, "restore-*")); len(entries) != 1 {
		t.Errorf("built: %v", entries)
	}
	if err := c.loop.actor.act(t.Context(), o, plan.Action{Kind: plan.Enter, Record: &born}); err != nil {
		t.Fatal(err)
	}
	if len(w.handed) != 1 || w.handed[0] != 0 {
		t.Errorf("time to hand over a generation that is over: got %v, want none", w.handed)
	}
	for range 2 { // the second time as after a crash before the ledger was written
		if err := c.loop.actor.act(t.Context(), look(t, c), plan.Action{Kind: plan.Swap, Record: &born}); err != nil {
			t.Fatal(err)
		}
		w.data = plan.DataDir{WAL: true, Member: 1, ClusterID: 77}
	}
	l, _, err := readLedger(w.dir)
	if err != nil || l.Record.ID != r.ID || l.Prepared != nil || l.Started != "disk-a" || l.Role != plan.RoleFounder {
		t.Errorf("ledger: got %+v, %v", l, err)
	}
	for path, want := range map[string]bool{"etcd/wal": true, "etcd-restored": true, "restore-" + r.ID: false} {
		if _, err := os.Stat(filepath.Join(w.dir, path)); os.IsNotExist(err) == want {
			t.Errorf("%s: got %v, want there %v", path, err, want)
		}
	}
}

// If the store stops answering during a restore, that is reported; the restore continues when the store is back.
func TestSilentStoreDuringARestoreIsSaid(t *testing.T) {
	w, r := restorable(t)
	c := w.holding()
	known := record("a")
	for _, s := range []struct {
		store plan.Store
		want  string
	}{
		{plan.Store{ID: "s", Record: &known, Restore: &r}, ""},
		{plan.Store{Unknown: "no such bucket"}, "no such bucket"},
		{plan.Store{ID: "s", Record: &known}, ""},
		{plan.Store{Unknown: "no such bucket"}, ""},
	} {
		c.generations.stored(s.store, time.Now())
		got := strings.Join(health.Texts(c.status.looked(look(t, c)).Findings()), "; ")
		if (got == "") != (s.want == "") || !strings.Contains(got, s.want) {
			t.Errorf("store %+v: got %q, want %q", s.store, got, s.want)
		}
	}
}

// A disk that has entered the new generation unprepared says why it cannot prepare, so that it may join instead. As a
// replacement it need not prepare any more.
func TestFounderThatCannotPrepareSaysSo(t *testing.T) {
	w, r := restorable(t)
	w.backups.err = errors.New("no identity decrypts it")
	c := w.holding()
	next := record("a")
	next.Generation, next.ID, next.Line, next.Restore = r.Generation, r.ID, r.Line, &r
	must := func(a plan.Action) {
		t.Helper()
		if err := c.loop.actor.act(t.Context(), look(t, c), a); err != nil {
			t.Fatal(err)
		}
	}
	must(plan.Action{Kind: plan.Enter, Record: &next})
	if err := c.loop.actor.act(t.Context(), look(t, c), plan.Action{Kind: plan.Prepare, Restore: &r}); err == nil {
		t.Fatal("prepared")
	}
	o := look(t, c)
	st := Situation{Observation: o}.Restoring()
	if !strings.Contains(o.Unable, "no identity") || st == nil || st.State != health.RestoreUnable || st.Error != o.Unable {
		t.Errorf("entered: unable %q, status %+v", o.Unable, st)
	}
	again := Situation{Observation: o, Busy: true, Action: plan.Action{Kind: plan.Prepare}, Progress: Progress{Phase: "verifying"}}
	if st := again.Restoring(); st.State != health.RestoreUnable || st.Error != o.Unable || st.Phase != "verifying" {
		t.Errorf("while it tries again: status %+v, want the error of the last attempt, and how far this one is", st)
	}
	must(plan.Action{Kind: plan.SetAside, Record: &next})
	o = look(t, c)
	if st := (Situation{Observation: o}).Restoring(); o.Unable != "" || st != nil {
		t.Errorf("a replacement: unable %q, status %+v", o.Unable, st)
	}
}

func TestPrepareThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world, r *plan.Restore)
		want   string
	}{
		"the backup is damaged":            {func(w *world, _ *plan.Restore) { w.backups.err = errors.New("sha256 differs") }, "sha256 differs"},
		"another backup by that name":      {func(w *world, _ *plan.Restore) { w.backups.backup.Digest = "other" }, "another backup by that name"},
		"no room":                          {func(w *world, _ *plan.Restore) { w.full = errors.New("the volume has 1 MiB free") }, "1 MiB free"},
		"a proposal of an unknown lineage": {func(_ *world, r *plan.Restore) { r.Line = []string{"who"} }, "is not known here"},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := restorable(t)
			tc.change(w, &r)
			c := w.holding()
			if err := c.loop.actor.act(t.Context(), look(t, c), plan.Action{Kind: plan.Prepare, Restore: &r}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			c.generations.store.Restore = &r
			o := look(t, c)
			if !strings.Contains(o.Unable, tc.want) || o.Disk.Ledger.Prepared != nil {
				t.Errorf("unable %q, prepared %v", o.Unable, o.Disk.Ledger.Prepared)
			}
			if found, _ := filepath.Glob(filepath.Join(w.dir, "restore-*")); len(found) > 0 || o.Disk.Built != "" {
				t.Errorf("it leaves %v, built %q", found, o.Disk.Built)
			}
			if s := c.Now(); s.Findings() != nil {
				t.Errorf("problems: %v", s.Findings())
			}
			// The others conclude the restore, and this disk enters: it still cannot prepare.
			before := c.holding.held.ledger.Ledger
			c.generations.store.Restore = nil
			c.holding.held.ledger.Ledger = before.After(plan.Action{Kind: plan.Enter, Record: &plan.Record{Cluster: r.Cluster, Generation: r.Generation, ID: r.ID, Line: r.Line, Restore: &r}}, "disk-a")
			if got := look(t, c).Unable; !strings.Contains(got, tc.want) {
				t.Errorf("unable to prepare what is concluded: got %q", got)
			}
			c.generations.store.Restore, c.holding.held.ledger.Ledger = &r, before
			w.full, w.backups.err, w.backups.backup.Digest, r.Line = nil, nil, strings.Repeat("0f", 32), []string{record("a").ID}
			if err := c.loop.actor.act(t.Context(), look(t, c), plan.Action{Kind: plan.Prepare, Restore: &r}); err != nil || look(t, c).Unable != "" {
				t.Errorf("when the cause is gone: %v, unable %q", err, look(t, c).Unable)
			}
		})
	}
}

func TestDiscardForgetsFirst(t *testing.T) {
	w, r := restorable(t)
	var steps []string
	c := w.holding()
	if err := c.loop.actor.act(t.Context(), look(t, c), plan.Action{Kind: plan.Prepare, Restore: &r}); err != nil {
		t.Fatal(err)
	}
	c.world.Step = func(name string) {
		steps = append(steps, name)
		if _, err := os.Stat(filepath.Join(w.dir, "restore-"+r.ID)); err != nil {
			t.Errorf("at %s what was built is gone", name)
		}
	}
	if err := c.loop.actor.act(t.Context(), look(t, c), plan.Action{Kind: plan.Discard}); err != nil {
		t.Fatal(err)
	}
	if o := look(t, c); o.Disk.Built != "" || o.Disk.Ledger.Prepared != nil || !slices.Equal(steps, []string{"before-discard", "after-discard"}) {
		t.Errorf("got %+v by %v", o.Disk, steps)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "restore-"+r.ID)); !os.IsNotExist(err) {
		t.Errorf("what was built is still there: %v", err)
	}
}

// What was built on the disk is found when the volume is claimed, complete or not.
func TestBuiltIsSeenAfterARestart(t *testing.T) {
	w, r := restorable(t)
	if err := os.MkdirAll(filepath.Join(w.dir, "restore-"+r.ID), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := look(t, w.holding()).Disk.Built; got != r.ID {
		t.Errorf("got %q, want %s", got, r.ID)
	}
}

func TestSwapWithoutWhatWasBuiltTouchesNothing(t *testing.T) {
	w, r := restorable(t)
	c := w.holding()
	born := plan.Record{Cluster: "test", Generation: 2, ID: r.ID, Line: r.Line, Cause: plan.Restored, Restore: &r, Charter: record("a").Charter}
	if err := os.MkdirAll(filepath.Join(w.dir, "etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.loop.actor.act(t.Context(), look(t, c), plan.Action{Kind: plan.Enter, Record: &born}); err != nil {
		t.Fatal(err)
	}
	if err := c.loop.actor.act(t.Context(), look(t, c), plan.Action{Kind: plan.Swap, Record: &born}); err == nil || !strings.Contains(err.Error(), "is gone from the volume") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "etcd")); err != nil {
		t.Error(err)
	}
}

func TestRequestThatFailsIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := restorable(t)
		w.backups.err = errors.New("no such backup")
		c := w.holding()
		c.cfg.Plan.Foreign = true
		r := record("a")
		c.generations.store = plan.Store{Record: &r, Requests: []plan.Request{{Command: "c1", Backup: "b1", By: "the command c1"}}}
		q := c.generations.store.Requests[0]
		for wait := firstRefusal; wait <= 4*firstRefusal; wait *= 2 {
			if err := c.loop.actor.act(t.Context(), look(t, c), plan.Action{Kind: plan.Propose, Request: &q}); err == nil {
				t.Fatal("proposed a backup that is not there")
			}
			time.Sleep(wait - time.Second)
			o := look(t, c)
			if got := o.Store.Requests[0].Problem; !strings.Contains(got, "no such backup") || c.generations.store.Requests[0].Problem != "" {
				t.Errorf("problem: got %q", got)
			}
			if got := c.status.looked(o).Findings(); len(got) != 1 || !strings.Contains(got[0].Text, "no such backup") {
				t.Errorf("shown: %v", got)
			}
			time.Sleep(2 * time.Second)
			if got := look(t, c).Store.Requests[0].Problem; got != "" {
				t.Errorf("problem after %s: got %q", wait, got)
			}
		}
	})
}

// A command that can never be carried out is tried once and deleted, as is one that has had its chance. The status says
// why for a while, and the history for longer.
func TestCommandThatIsOverIsDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error  // of the first attempt; nil: the store says that the command is over
		problem string // of the store
		want    string
	}{
		"of no use": {fmt.Errorf("%w: nobody knows it", ErrUseless), "", "nobody knows it"},
		"too late":  {nil, "too late", "too late"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := restorable(t)
				w.data.ClusterID = 77
				w.backups.err = tc.err
				r := record("a")
				w.knows = plan.Store{Record: &r, Requests: []plan.Request{{Command: "c1", Backup: "b1", By: "the command c1", Problem: tc.problem, Over: tc.problem != ""}}}
				c := w.coordinator("a")
				stop := live(t, c)
				time.Sleep(time.Minute)
				if w.dismissed != nil {
					t.Errorf("deleted unasked: %v", w.dismissed)
				}
				if got := strings.Join(health.Texts(c.Now().Findings()), "; "); !strings.Contains(got, "restore.foreign-commands is false") {
					t.Errorf("shown: %s", got)
				}
				c.observer.mu.Lock()
				c.cfg.Plan.Foreign = true
				c.observer.mu.Unlock()
				time.Sleep(15 * time.Second)
				w.set(func() {
					if len(w.dismissed) != 1 || w.dismissed[0] != "c1" {
						t.Errorf("deleted %v", w.dismissed)
					}
					w.knows.Requests = nil
				})
				time.Sleep(showDismissed / 2)
				if got := strings.Join(health.Texts(c.Now().Findings()), "; "); !strings.Contains(got, tc.want) || !strings.Contains(got, "was deleted") {
					t.Errorf("shown: %s", got)
				}
				time.Sleep(showDismissed)
				if got := c.Now().Findings(); got != nil {
					t.Errorf("shown after a while: %v", got)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				entries, _ := os.ReadFile(filepath.Join(w.dir, "history.jsonl"))
				if !strings.Contains(string(entries), tc.want) {
					t.Errorf("the history says %s", entries)
				}
			})
		})
	}
}

// While the store does not answer, no command is deleted.
func TestCommandIsKeptWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := restorable(t)
		w.data.ClusterID = 77
		w.backups.err = errors.New("no answer")
		r := record("a")
		w.knows = plan.Store{Record: &r, Requests: []plan.Request{{Command: "c1", Backup: "b1", By: "the command c1"}}}
		c := w.coordinator("a")
		c.cfg.Plan.Foreign = true
		stop := live(t, c)
		time.Sleep(3 * time.Hour)
		if err := stop(); err != nil || w.dismissed != nil {
			t.Errorf("deleted %v, %v", w.dismissed, err)
		}
	})
}

// A backup before a change of the members is bounded, and is not tried each time if the store is dead.
func TestReplaceGoesOnWithoutABackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := replacing(t, &plan.Facts{Version: 1, Slot: "b", Disk: "disk-b2", Phase: plan.PhaseVacant})
		w.backups.freshIn = time.Hour
		w.deaf = true
		c := w.coordinator("a", "b", "c")
		stop := live(t, c)
		time.Sleep(2 * time.Minute)
		if got := c.Now().Findings(); len(got) != 1 || !strings.Contains(got[0].Text, "no backup could be made") {
			t.Errorf("problems: %v", got)
		}
		w.backups.mu.Lock()
		w.backups.made = time.Now() // by the schedule
		w.backups.mu.Unlock()
		time.Sleep(time.Minute)
		if got := c.Now().Findings(); len(got) != 0 {
			t.Errorf("problems after a backup: %v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(w.removed) == 0 || w.backups.fresh != 1 {
			t.Errorf("removed %d, a backup was tried %d times; want some and once", len(w.removed), w.backups.fresh)
		}
	})
}

// Long pauses end at the same moments, whenever they began; short ones are as long as was asked for.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // at a whole second
		for _, c := range []struct{ after, pause, want time.Duration }{
			{0, time.Second, time.Second},
			{300 * time.Millisecond, time.Second, 700 * time.Millisecond},
			{300 * time.Millisecond, 2 * time.Second, 1900 * time.Millisecond},
			{300 * time.Millisecond, time.Second, 600 * time.Millisecond},
			{0, 999 * time.Millisecond, 999 * time.Millisecond},
		} {
			time.Sleep(c.after)
			if got := together(c.pause); got != c.want {
				t.Errorf("a pause of %s takes %s, want %s", c.pause, got, c.want)
			}
		}
	})
}

func TestPaceOfAFailedFetchHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		for range 8 {
			p.next(plan.Action{Kind: plan.Prepare}, plan.Action{})
			p.did(errors.New("no such backup"))
		}
		if p.due() || time.Until(p.retry) < 30*time.Second {
			t.Errorf("after 8 failures: the next attempt in %s", time.Until(p.retry))
		}
		p.next(plan.Action{Kind: plan.Discard}, plan.Action{Kind: plan.Prepare})
		time.Sleep(time.Nanosecond)
		if !p.due() {
			t.Errorf("another action has to wait %s", time.Until(p.retry))
		}
		for range 8 {
			p.did(errors.New("disk full"))
		}
		if got := time.Until(p.retry); got > maxRetry {
			t.Errorf("after 8 failures of that: %s", got)
		}
	})
}

// A rest holds up neither another action nor a slot that has become free.
func TestPaceAfterARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slot := func(s string) plan.Action { return plan.Action{Kind: plan.Replace, Why: "slot " + s + " is no member"} }
		avoids := func(slots ...string) plan.Action {
			a := plan.Action{Kind: plan.Acquire, Why: "standing by", Avoid: map[string]string{}}
			for _, s := range slots {
				a.Avoid[s] = "it is held"
			}
			return a
		}
		for name, c := range map[string]struct {
			err         error
			before, now plan.Action
			due         bool
		}{
			"the same slot":      {errOvertaken, slot("d"), slot("d"), false},
			"another slot":       {errOvertaken, slot("d"), slot("c"), true},
			"not yet":            {errNotYet, slot("d"), slot("c"), false},
			"the same are free":  {errNotYet, avoids("a", "b"), avoids("a", "b"), false},
			"one more is free":   {errNotYet, avoids("a", "b"), avoids("a"), true},
			"one more is held":   {errNotYet, avoids("a"), avoids("a", "b"), false},
			"another is claimed": {errors.New("disk full"), avoids("a", "b"), slot("a"), false},
		} {
			var p pace
			p.next(c.before, plan.Action{})
			p.did(c.err)
			if p.next(c.now, c.before); p.due() != c.due {
				t.Errorf("%s: due %t", name, p.due())
			}
		}
	})
}

// To read why no backup was made changes nothing: the next reader is told what is true then.
func TestProblemOfTheSaver(t *testing.T) {
	b, tried := &backups{}, time.Now()
	s := &saver{env: env{world: &World{Backups: b}}, unsaved: "none was made", tried: tried}
	for _, tc := range []struct {
		made time.Time
		want string
	}{{want: "none was made"}, {made: tried.Add(time.Second)}, {made: tried.Add(-time.Second), want: "none was made"}} {
		b.made = tc.made
		if got := s.problem(); got != tc.want {
			t.Errorf("the newest is of %v: got %q, want %q", tc.made, got, tc.want)
		}
	}
}

// A backup that failed before another change keeps none from being made before a restore: an operator has put the store
// right, and the restore is what leads back. The same restore, which is prepared again, does not wait for it again.
func TestFreshBeforeEachRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backups{freshIn: time.Hour}
		s := &saver{env: env{lg: zap.NewNop(), world: &World{Backups: b}}}
		for i, c := range []struct {
			restore string
			answers bool
			tried   int
			problem bool
		}{{"", false, 1, true}, {"r1", false, 2, true}, {"r1", true, 2, true}, {"r2", true, 3, false}, {"", true, 4, false}} {
			if c.answers {
				b.freshIn = 0
			}
			s.fresh(t.Context(), c.restore, time.Minute, time.Second)
			if b.fresh != c.tried || (s.problem() != "") != c.problem {
				t.Errorf("step %d: want %d attempts, got %d; the problem is %q", i, c.tried, b.fresh, s.problem())
			}
		}
	})
}

// A clock that was set a month ahead makes the data old. But it is deleted only after a week of service.
func TestReclaimAfterTheClockWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		aside := func(ago, served time.Duration) *time.Time {
			s := Situation{Aside: []plan.Aside{{Reason: "restored", Since: time.Now().Add(-ago)}}, Served: served}
			return s.SetAside(7 * day)[0].Reclaimed
		}
		for _, c := range []struct{ ago, served, want time.Duration }{
			{30 * day, day, 6 * day}, {day, 30 * day, 6 * day}, {day, 2 * day, 6 * day}, {-30 * day, 8 * day, 37 * day},
			{30 * day, 8 * day, 0},
		} {
			if at := aside(c.ago, c.served); at == nil || time.Until(*at) != c.want {
				t.Errorf("%s old, served for %s: want in %s, got %v", c.ago, c.served, c.want, at)
			}
		}
		if at := aside(30*day, 0); at != nil {
			t.Errorf("of a member that does not serve: got %v", at)
		}
	})
}

func TestReclaimOnlyAfterServingWithoutABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		since := time.Now().Add(-time.Hour)
		w.aside = []plan.Aside{{Path: "aside/1-restored", Reason: "restored", Since: since, Bytes: 9}, {Path: "aside/2-by-operator", Reason: "by-operator", Since: since}}
		c := w.coordinator("a")
		c.cfg.ReclaimAfter = 2 * time.Hour
		stop := live(t, c)
		time.Sleep(10 * time.Second)
		if aside := c.Now().Aside; len(aside) != 2 {
			t.Errorf("soon after the start: got %+v", aside)
		}
		time.Sleep(5 * time.Minute)
		aside := c.Now().SetAside(c.cfg.ReclaimAfter)
		if len(aside) != 2 || aside[0].Reclaimed == nil || time.Until(*aside[0].Reclaimed) < 110*time.Minute || aside[1].Reclaimed != nil {
			t.Errorf("aside: got %+v", aside)
		}
		time.Sleep(100 * time.Minute)
		w.mu.Lock()
		w.member.HasLead = false
		w.mu.Unlock()
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.member.HasLead = true
		w.mu.Unlock()
		time.Sleep(115 * time.Minute)
		w.mu.Lock()
		early := len(w.reclaimed)
		w.mu.Unlock()
		if early != 0 {
			t.Errorf("reclaimed %d times although it has not served for two hours", early)
		}
		time.Sleep(3 * time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := len(w.reclaimed); n != 3 {
			t.Errorf("reclaimed %d times in 3 h, want once an hour", n)
		}
	})
}
