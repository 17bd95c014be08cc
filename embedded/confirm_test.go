package embedded

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// asked is a member whose answers the test decides.
type asked struct {
	*confirmation
	mu            sync.Mutex
	known, here   bool
	changed       chan struct{}
	index         uint64
	reads, writes int
	news          int
	open, most    int // unanswered questions, now and at most
	answer        func(context.Context) error
}

func newAsked() *asked {
	a := &asked{known: true, changed: make(chan struct{}), answer: func(context.Context) error { return nil }}
	question := func(n *int) func(context.Context) error {
		return func(ctx context.Context) error {
			a.mu.Lock()
			*n++
			a.open++
			a.most = max(a.most, a.open)
			answer := a.answer
			a.mu.Unlock()
			defer a.set(func() { a.open-- })
			return answer(ctx)
		}
	}
	a.confirmation = &confirmation{
		lead:    func() (bool, bool) { a.mu.Lock(); defer a.mu.Unlock(); return a.known, a.here },
		changed: func() <-chan struct{} { a.mu.Lock(); defer a.mu.Unlock(); return a.changed },
		applied: func() uint64 { a.mu.Lock(); defer a.mu.Unlock(); return a.index },
		read:    question(&a.reads),
		write: func(ctx context.Context) error {
			err := question(&a.writes)(ctx)
			if err == nil {
				a.set(func() { a.index++ })
			}
			return err
		},
		news:     func() { a.set(func() { a.news++ }) },
		patience: confirmedFor,
		grown:    time.Now(),
	}
	return a
}

// set changes what the member answers.
func (a *asked) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// stalls does not answer before the context ends, like etcd when its loop hangs.
func stalls(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// after lets the member ask for a time, and stops it.
func (a *asked) after(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { a.run(ctx); close(done) }()
	time.Sleep(d - time.Millisecond)
	synctest.Wait()
	cancel()
	before := time.Now()
	<-done
	if took := time.Since(before); took != 0 {
		t.Errorf("it ended after %s, want at once", took)
	}
	if a.most > 1 {
		t.Errorf("%d questions at the same time, want 1", a.most)
	}
}

// A member is stalled if it gets no answer for 5 s although a leader is known, however seldom it asked before.
func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		a.known = false
		ctx, cancel := context.WithCancel(t.Context())
		go a.run(ctx)
		defer cancel()
		after := func(d time.Duration, want bool, when string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := a.stalled(); got != want {
				t.Errorf("%s: got %v, want %v", when, got, want)
			}
		}
		after(10500*time.Millisecond, false, "no leader is known")
		a.set(func() { a.known, a.answer = true, stalls })
		after(5*time.Second, false, "it has asked for less than 5 s")
		after(time.Second, true, "it has asked for more than 5 s")
		a.set(func() { a.known = false })
		after(0, false, "the leader is gone")
		after(10*time.Second, false, "without a leader")
		a.set(func() { a.known = true })
		after(3*time.Second, false, "there is one again")
		a.set(func() { a.answer = func(context.Context) error { return nil } })
		after(10*time.Second, false, "it was answered")
		if !a.sure() {
			t.Error("not confirmed")
		}
	})
}

// News is sent at once: a tick of the receivers could come up to a second later.
func TestConfirmationTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		ready := make(chan struct{})
		a.ready = ready
		ctx, cancel := context.WithCancel(t.Context())
		go a.run(ctx)
		defer cancel()
		told := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if a.set(func() {}); a.news != want {
				t.Errorf("%s: told %d times, want %d", when, a.news, want)
			}
		}
		told(1, "the first answer")
		time.Sleep(20 * askEvery)
		told(1, "the same again")
		close(ready)
		told(2, "clients are served")
		a.set(func() { close(a.changed); a.changed = make(chan struct{}) })
		told(3, "another leader")
	})
}

func (a *asked) sure() bool { _, ok := a.confirmed(); return ok }

func TestConfirmedFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		if at, ok := a.confirmed(); ok || !at.IsZero() {
			t.Error("confirmed before anything was asked")
		}
		a.after(t, 60*time.Second)
		if !a.sure() || a.reads != 60 || a.writes != 0 {
			t.Errorf("got %v, %d reads, %d writes, want a read a second and no write", a.sure(), a.reads, a.writes)
		}
		time.Sleep(confirmedFor)
		if a.sure() {
			t.Error("an answer was good for longer than 5 s")
		}
	})
}

// When answers stop, the member is confirmed for 5 s from the last answered question, whether the next ones hang or
// fail.
func TestConfirmedEnds(t *testing.T) {
	for name, broken := range map[string]func(context.Context) error{
		"hangs": stalls, "fails": func(context.Context) error { return errors.New("leader changed") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsked()
				a.after(t, 10*time.Second)
				last, _ := a.confirmed()
				a.answer = broken
				for range 2 {
					a.after(t, 2*time.Second)
				}
				if !a.sure() {
					t.Error("not confirmed within 5 s of an answer")
				}
				a.after(t, 2*time.Second)
				if now, ok := a.confirmed(); ok || now != last {
					t.Errorf("confirmed %v at %s, want the answer before, and too old", ok, now)
				}
				a.set(func() { a.answer = func(context.Context) error { return nil } })
				a.after(t, time.Second)
				if !a.sure() {
					t.Error("not confirmed after an answer")
				}
			})
		})
	}
}

// A late answer proves a leader at the time of the question, not of the answer.
func TestConfirmedSinceAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, begun := newAsked(), time.Now()
		a.answer = func(ctx context.Context) error {
			select {
			case <-time.After(3 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		a.after(t, 3*time.Second+2*time.Millisecond)
		if at, ok := a.confirmed(); !ok || at != begun {
			t.Errorf("got %v since %s, want true since %s", ok, at, begun)
		}
	})
}

func TestConfirmedWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		a.known = false
		a.after(t, time.Minute)
		if a.sure() || a.reads+a.writes != 0 {
			t.Errorf("got %v after %d questions, want none: no leader is known", a.sure(), a.reads+a.writes)
		}
	})
}

// A new leader asks at once. Until it gets an answer, its answers as a follower do not confirm it.
func TestConfirmedNewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		ctx, cancel := context.WithCancel(t.Context())
		go a.run(ctx)
		defer cancel()
		time.Sleep(2500 * time.Millisecond)
		a.set(func() { a.here = true })
		if a.sure() {
			t.Error("a leader is confirmed by what it was answered before it led")
		}
		a.set(func() { close(a.changed); a.changed = make(chan struct{}) })
		synctest.Wait()
		if !a.sure() {
			t.Error("a new leader did not ask at once")
		}
		a.set(func() { a.here = false })
		if !a.sure() {
			t.Error("a leader that has just been answered has no leader")
		}
	})
}

// An idle leader commits an entry about every 5 s; one that applies other entries commits none.
func TestConfirmedLeaderWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		a.here = true
		a.after(t, 60*time.Second)
		if !a.sure() || a.writes < 9 || a.writes > 12 {
			t.Errorf("got %v after %d writes in a minute, want about one in 5 s", a.sure(), a.writes)
		}
		idle := a.writes
		a.confirmation.read = func(context.Context) error { a.set(func() { a.index++ }); return nil } // clients also write
		a.after(t, time.Minute)
		if a.writes > idle+1 {
			t.Errorf("%d writes beside those of clients, want none", a.writes-idle)
		}
	})
}

// A stalled disk gets one entry, however long it stalls.
func TestConfirmedStalledLeaderWritesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		a.here, a.answer = true, stalls
		start := a.progress()
		ctx, cancel := context.WithCancel(t.Context())
		go a.run(ctx)
		defer cancel()
		time.Sleep(time.Hour)
		synctest.Wait()
		if a.sure() || a.writes != 1 || a.progress() != start {
			t.Errorf("got %v, %d writes, progress after %s; want one write, though a read waits, and no progress", a.sure(), a.writes, a.progress().Sub(start))
		}
		a.set(func() { a.answer = func(context.Context) error { return nil } })
		time.Sleep(time.Minute)
		synctest.Wait()
		if !a.sure() || a.writes < 9 {
			t.Errorf("got %v after %d writes, want it to write again", a.sure(), a.writes)
		}
	})
}

// In a real cluster all members are confirmed. An idle one still applies entries and keeps its revision, and a member
// alone is no longer confirmed.
func TestConfirmed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for an idle leader's entry")
	}
	nodes := found(t, "a", "b", "c")
	for _, n := range nodes {
		await(t, n.spec.Slot+" is confirmed", func() bool { return n.Status().Confirmed })
	}
	before := nodes[0].Status()
	await(t, "an idle cluster applies an entry", func() bool { return nodes[0].Status().Applied > before.Applied })
	after := nodes[0].Status()
	if after.Revision != before.Revision || !after.Progress.After(before.Progress) {
		t.Errorf("revision %d, then %d; progress %s later; want the same revision and progress",
			before.Revision, after.Revision, after.Progress.Sub(before.Progress))
	}
	nodes[1].Kill()
	nodes[2].Kill()
	await(t, "a alone is not confirmed", func() bool { return !nodes[0].Status().Confirmed })
	if err := nodes[0].Stop(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
