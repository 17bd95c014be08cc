package coordinator

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// A leader whose heartbeats are late is asked three times at once, and then once a second. Its silence counts only if
// it is not caused by a delay in this process, and not if the question failed at once.
func TestInquireOfTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a").campaigner
		peer := func(node string, live bool, id uint64) plan.Peer {
			return plan.Peer{Node: node, Live: live, Facts: &plan.Facts{Member: id}}
		}
		sees := func(peers ...plan.Peer) { c.status.looked(plan.Observation{Peers: peers}) }
		voter, err := json.Marshal(plan.Standing{ID: 3})
		if err != nil {
			t.Fatal(err)
		}
		leader, err := json.Marshal(plan.Standing{ID: 2, Lead: 2})
		if err != nil {
			t.Fatal(err)
		}
		w.says = map[string][]byte{"n3": voter}
		sees(peer("n2", true, 2), peer("n3", true, 3))
		var s suspicion
		near, unheard := []uint64{3}, func() { time.Sleep(standingWait) }
		inquire := func(mute, asked int) plan.Candidacy {
			t.Helper()
			w.asked = nil
			now := plan.Candidacy{Suspect: 2, Mute: s.mute, Standing: plan.Standing{Running: true, ID: 1, Lead: 2, Voters: []uint64{1, 2, 3},
				Near: near, Silence: 200 * time.Millisecond, Beat: 100 * time.Millisecond}}
			c.inquire(t.Context(), &now, &s)
			if now.Mute != mute || len(w.asked) != asked || len(now.Rivals) != 1 || now.Rivals[0].Said == nil {
				t.Errorf("mute %d, asked %q, rivals %+v; want mute %d after %d questions", now.Mute, w.asked, now.Rivals, mute, asked)
			}
			return now
		}
		w.asking, w.refuses = unheard, true
		if now := inquire(1, 2); !now.Refused { // its port is dialed meanwhile
			t.Errorf("no stream, and it refuses: got %+v", now)
		}
		near = []uint64{2, 3}
		w.asking = nil
		inquire(1, 2) // it could not be asked
		w.asking = unheard
		inquire(2, 2)
		inquire(3, 2)
		inquire(3, 1) // not asked again
		time.Sleep(againAfter)
		inquire(4, 2)
		time.Sleep(againAfter)
		w.says["n2"] = leader
		if now := inquire(0, 2); now.Answer == nil || now.Answer.ID != 2 {
			t.Errorf("it answers: got %+v", now.Answer)
		}
		delete(w.says, "n2")
		w.asking = func() { time.Sleep(2 * standingWait) }
		inquire(0, 2) // this process itself is late
		w.asking = nil
		sees(peer("n2", false, 2), peer("n3", true, 3))
		inquire(1, 1) // the mesh has lost it
		sees(peer("n3", true, 3))
		inquire(1, 1) // another program runs it
	})
}

// A leader that was replaced while it was silent is asked, once, whether it is back. A member that is started again has
// forgotten all silences.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a").campaigner
		peer := func(node string, id uint64) plan.Peer {
			return plan.Peer{Node: node, Live: true, Facts: &plan.Facts{Member: id}}
		}
		c.status.looked(plan.Observation{Peers: []plan.Peer{peer("n2", 2), peer("n3", 3)}})
		back, err := json.Marshal(plan.Standing{ID: 2, End: plan.LogEnd{Term: 6}})
		if err != nil {
			t.Fatal(err)
		}
		w.says = map[string][]byte{"n2": back}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.run(ctx) })
		shows := func(s plan.Standing, wait, want time.Duration) {
			t.Helper()
			w.mu.Lock()
			w.standing, w.asked = s, nil
			w.mu.Unlock()
			time.Sleep(wait)
			synctest.Wait()
			if got := c.candidacy().Longest; got != want {
				t.Errorf("in term %d: the longest silence is %s, want %s", s.Term, got, want)
			}
		}
		follows := plan.Standing{Running: true, Voter: true, ID: 1, Term: 5, Lead: 2, Voters: []uint64{1, 2, 3},
			Near: []uint64{2, 3}, Beat: 100 * time.Millisecond}
		silent, next := follows, follows
		silent.Near, silent.Silence = []uint64{3}, 600*time.Millisecond
		next.Term, next.Lead = 6, 3
		shows(follows, time.Second, 0)
		shows(silent, 100*time.Millisecond, 0)
		shows(next, 900*time.Millisecond, 0)
		shows(next, 10*time.Second, 600*time.Millisecond)
		if len(w.asked) != 1 {
			t.Errorf("asked %q, want one question", w.asked)
		}
		shows(plan.Standing{}, time.Second, 0)
		cancel()
		running.Wait()
	})
}

// A follower looks once at each leader and term, and again when a doubt is over, because its evidence is void then. In
// doubt it looks often, and a leader looks all the time.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a").campaigner
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.run(ctx) })
		follows := plan.Standing{Running: true, Voter: true, ID: 1, Term: 5, Lead: 2, Voters: []uint64{1, 2, 3}, Near: []uint64{2, 3}}
		leads, alone, later, other := follows, follows, follows, follows
		leads.Lead, alone.Near, later.Term, other.Lead = 1, []uint64{3}, 6, 3
		for _, stage := range []struct {
			name        string
			shown       plan.Standing
			least, most int // in 10 s
		}{
			{"no member", plan.Standing{}, 0, 0},
			{"another leader", follows, 1, 1},
			{"the same", follows, 0, 0},
			{"no stream", alone, 20, 200},
			{"the stream is back", follows, 1, 1},
			{"another term", later, 1, 1},
			{"another leader", other, 1, 1},
			{"it leads", leads, 30, 50},
			{"it follows", follows, 1, 1},
			{"no member", plan.Standing{}, 1, 1},
		} {
			w.mu.Lock()
			w.standing, w.looks = stage.shown, 0
			w.mu.Unlock()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			w.mu.Lock()
			if w.looks < stage.least || w.looks > stage.most {
				t.Errorf("%s: it looked %d times, want %d to %d", stage.name, w.looks, stage.least, stage.most)
			}
			w.mu.Unlock()
		}
		cancel()
		running.Wait()
	})
}

// A follower that may rest glances when the rest is over.
func TestGlances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a").campaigner
		follows := plan.Standing{Running: true, Voter: true, ID: 1, Term: 5, Lead: 2, Voters: []uint64{1, 2, 3}, Near: []uint64{2, 3}}
		leads, alone := follows, follows
		leads.Lead, alone.Near = 1, []uint64{3}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.run(ctx) })
		glances := func() int {
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.glances
		}
		for _, stage := range []struct {
			name        string
			shown       plan.Standing
			rest        time.Duration
			least, most int // in 10 s
		}{
			{"no member", plan.Standing{}, 0, 499, 501},
			{"no rest", follows, 0, 499, 501},
			{"a rest", follows, 100 * time.Millisecond, 100, 102},
			{"in doubt", alone, 100 * time.Millisecond, 1950, 2001},
			{"it leads", leads, 0, 32, 35},
		} {
			w.mu.Lock()
			w.standing, w.rest = stage.shown, stage.rest
			w.mu.Unlock()
			before := glances()
			time.Sleep(10 * time.Second)
			if got := glances() - before; got < stage.least || got > stage.most {
				t.Errorf("%s: it glanced %d times, want %d to %d", stage.name, got, stage.least, stage.most)
			}
		}
		cancel()
		running.Wait()
	})
}
