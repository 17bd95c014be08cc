package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// serving makes the leader of three voters, in a store that knows its generation.
func serving(t *testing.T) (*world, plan.Record) {
	w := newWorld(t)
	r := record("a", "b", "c")
	l := ledgerV1{Version: 1, Etcd: "3.7.3", Ledger: plan.Ledger{Record: &r, Role: plan.RoleFounder, Started: "disk-a"}}
	if err := l.write(w.dir); err != nil {
		t.Fatal(err)
	}
	w.data = plan.DataDir{WAL: true, Member: 1, ClusterID: 77, Log: plan.LogEnd{Term: 2, Index: 9}}
	w.member = plan.Member{Running: true, Ready: true, Status: plan.Status{HasLead: true, Confirmed: true, Leader: true, Revision: 40}, ID: 1,
		Members: []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b", Connected: true}, {ID: 3, Slot: "c", Connected: true}}}
	w.knows = plan.Store{Record: &r}
	return w, r
}

// lead gives the member a leader, or takes it away.
func (w *world) lead(has bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.member.HasLead, w.member.Confirmed, w.member.Leader = has, has, has
}

// proposed makes a proposal to continue from the disk of slot b: leaderless, or with b as the leader that was shown.
func proposed(of plan.Record, led bool, lost ...string) *plan.Restore {
	p := NewRecovery(of, 0, plan.Request{By: "root", Survivor: "b", Disk: "disk-b", Log: &plan.LogEnd{Term: 2, Index: 8}, Lost: lost}, 40, 100)
	if led {
		p.Led = &plan.Stand{Node: "n1", Leader: true}
	}
	return &p
}

func (w *world) abortedOnes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.aborted)
}

// A leader finds a proposal by its number, long before it looks at the whole store, and aborts it if it calls the
// leader lost, or the generation leaderless.
func TestLeaderAbortsWhatIsWrongAboutIt(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world, *plan.Restore)
		want   bool
	}{
		"leaderless":                    {func(*world, *plan.Restore) {}, true},
		"led":                           {func(_ *world, p *plan.Restore) { p.Led = &plan.Stand{Node: "n1", Leader: true} }, false},
		"led, and we are lost":          {func(_ *world, p *plan.Restore) { p.Led, p.Lost = &plan.Stand{Node: "n1"}, []string{"a"} }, true},
		"of another generation":         {func(_ *world, p *plan.Restore) { p.Line = []string{"other"} }, false},
		"raft remembers a leader":       {func(w *world, _ *plan.Restore) { w.member.Confirmed = false }, false},
		"no leader, for it is not lost": {func(w *world, _ *plan.Restore) { w.member.HasLead, w.member.Leader = false, false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := serving(t)
				c := w.coordinator("a", "b", "c")
				stop := live(t, c)
				time.Sleep(watchProposals + time.Second)
				p := proposed(r, false, "c")
				w.mu.Lock()
				tc.change(w, p)
				w.proposed = p
				w.mu.Unlock()
				time.Sleep(watchProposals)
				if got := slices.Contains(w.abortedOnes(), p.ID); got != tc.want {
					t.Errorf("aborted within %s: got %v, want %v", watchProposals, got, tc.want)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestFullLookObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := serving(t)
		c := w.coordinator("a", "b", "c")
		stop := live(t, c)
		time.Sleep(3 * time.Second)
		w.lead(false) // so the sentinel does not look for proposals by number
		p := proposed(r, false, "a", "c")
		w.mu.Lock()
		w.knows.Restore, w.knows.Attempts = p, 1
		w.mu.Unlock()
		c.generations.ask()
		time.Sleep(time.Second)
		if !slices.Contains(w.abortedOnes(), p.ID) {
			t.Errorf("a voter that runs was called lost: aborted %q, want %q (%s)", w.abortedOnes(), p.ID, c.Now().Action.Text())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A proposal that was aborted and is open again is aborted again whenever a look shows it. Its consent is withdrawn, as
// a key and as a mark.
func TestAbortIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := serving(t)
		p := proposed(r, true)
		w.kept = map[string][]byte{}
		c := w.coordinator("a", "b", "c")
		stop := live(t, c)
		open := func() {
			w.mu.Lock()
			w.knows.Restore, w.knows.Attempts = p, 1
			w.mu.Unlock()
			time.Sleep(storeAge + tick)
		}
		open()
		if _, err := c.Confirm(t.Context(), p.ID, "root"); err != nil {
			t.Fatal(err)
		}
		w.set(func() {
			w.marked = []uint64{7, plan.Mark(r.ID, p.ID)}
			w.mark()
			w.knows.Restore, w.knows.Aborted = nil, []plan.Abort{{ID: p.ID, Why: "no"}}
		})
		time.Sleep(storeAge + forgetEvery + tick)
		w.set(func() {
			if w.member.Consent != nil || w.kept[plan.KeyConsent] != nil || !slices.Equal(w.marked, []uint64{7}) {
				t.Errorf("after the abort: consent %+v, key %s, marks %x", w.member.Consent, w.kept[plan.KeyConsent], w.marked)
			}
			w.knows.Aborted = nil
		})
		for i := range 3 {
			open()
			if got := len(w.abortedOnes()); got != i+1 {
				t.Errorf("aborted %d times, and it was open again %d times", got, i+1)
			}
		}
		w.set(func() { w.knows.Restore = p })
		if _, err := c.Confirm(t.Context(), p.ID, "root"); err == nil || !strings.Contains(err.Error(), "was aborted") {
			t.Errorf("a consent to what was aborted: %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A leaderless proposal waits here for a leader, from when it was read, and again after a leader was seen. It has
// waited when a look at the store shows it as still open: a process that was suspended meanwhile has missed an abort.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record("a", "b", "c")
		e := ending{blind: map[string]bool{}}
		first, second := proposed(r, false, "c"), proposed(r, false, "c")
		suspended := false
		alone := func(p *plan.Restore, change func(*plan.Observation)) bool {
			o := plan.Observation{Store: plan.Store{Record: &r, Restore: p}, Disk: plan.Disk{Ledger: plan.Ledger{Record: &r}}}
			if change != nil {
				change(&o)
			}
			if !suspended {
				e.looked(time.Now(), o.Store, nil)
			}
			e.tell(&o, time.Now(), nil)
			return o.Alone
		}
		serves := func(o *plan.Observation) {
			o.Member = plan.Member{Running: true, Status: plan.Status{HasLead: true, Confirmed: true}}
		}
		remembers := func(o *plan.Observation) { o.Member = plan.Member{Running: true, Status: plan.Status{HasLead: true}} }
		unknown := func(o *plan.Observation) { o.Store = plan.Store{Unknown: "timeout"} }
		ordered := func(o *plan.Observation) { unknown(o); o.Orders.Alone = second }
		sleeps := func(*plan.Observation) { suspended = true }
		for i, s := range []struct {
			wait   time.Duration
			p      *plan.Restore
			change func(*plan.Observation)
			want   bool
		}{
			{0, first, nil, false},
			{LeaderWait - 1, first, remembers, false},
			{1, first, nil, true},
			{0, first, unknown, true},
			{0, first, serves, false},
			{0, first, nil, false}, // the wait begins again
			{LeaderWait, first, sleeps, false},
			{0, first, func(*plan.Observation) { suspended = false }, true},
			{0, second, nil, false},
			{LeaderWait, proposed(r, true), nil, false},
			{LeaderWait, proposed(r, true), nil, false},
			{0, nil, ordered, false},
			{LeaderWait, nil, ordered, true},
			{0, nil, nil, false},
		} {
			time.Sleep(s.wait)
			if got := alone(s.p, s.change); got != s.want {
				t.Errorf("step %d: alone %v, want %v", i, got, s.want)
			}
		}
	})
}

// A disk of a generation waits for the store until its contents are proven to the disk; a blank disk believes them.
func TestStartingOnADoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record("a", "b", "c")
		began, doubted := time.Now(), plan.Store{Record: &r, Unproven: 2, Doubt: "it is not signed"}
		e := ending{blind: map[string]bool{}}
		starting := func(s plan.Store, own *plan.Record) bool {
			e.looked(time.Now(), s, nil)
			o := plan.Observation{Store: proven(s, own), Disk: plan.Disk{Ledger: plan.Ledger{Record: own}}}
			e.tell(&o, began, nil)
			return o.Starting
		}
		if starting(doubted, nil) {
			t.Error("a blank disk waits")
		}
		if !starting(doubted, &r) {
			t.Error("a disk that doubts does not wait")
		}
		if starting(plan.Store{Record: &r}, &r) || starting(doubted, &r) {
			t.Error("it waits although the store has answered")
		}
		e.believed = false
		if time.Sleep(storeWait); starting(doubted, &r) {
			t.Error("it waits forever")
		}
	})
}

// Only the leader of the store's generation attests what began it.
func TestLeaderAttests(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world, plan.Record)
		want   bool
	}{
		"a leader":               {func(*world, plan.Record) {}, true},
		"a follower":             {func(w *world, _ plan.Record) { w.member.Leader = false }, false},
		"one that is remembered": {func(w *world, _ plan.Record) { w.member.Confirmed = false }, false},
		"of another generation": {func(w *world, r plan.Record) {
			r.Generation, r.ID, r.Line = 2, "other", []string{r.ID}
			w.knows.Record = &r
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, r := serving(t)
			tc.change(w, r)
			stop := live(t, w.coordinator("a", "b", "c"))
			time.Sleep(3 * storeAge)
			w.set(func() {
				if got := slices.Contains(w.attested, r.ID); got != tc.want {
					t.Errorf("%s: attested %v, want %v", name, got, tc.want)
				}
			})
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The nonce of a process that has just begun may not have been read yet: until it could have been, its store is not
// another one.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, began := ending{}, time.Now()
		says := func(what string, met, late []string) {
			t.Helper()
			var o plan.Observation
			e.tell(&o, began, map[string]string{"n2": "w", "n3": ""})
			if !slices.Equal(o.Store.Met, met) || !slices.Equal(o.Store.Late, late) {
				t.Errorf("%s: met %q, late %q; want %q and %q", what, o.Store.Met, o.Store.Late, met, late)
			}
		}
		read := func(began time.Time, nonces map[string]string) { e.looked(began, plan.Store{ID: "S"}, nonces) }
		read(began, map[string]string{"v": "n2"})
		says("it was heard of just now", nil, []string{"n2"})
		time.Sleep(time.Second)
		read(began, map[string]string{"v": "n2"})
		says("the look began before", nil, []string{"n2"})
		read(time.Now(), map[string]string{"v": "n2"})
		says("it is not there", nil, nil)
		read(time.Now(), map[string]string{"w": "n2"})
		says("it is there", []string{"n2"}, nil)
	})
}

// For long, neither this member nor any node that it hears reports a leader.
func TestLeaderless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ending{blind: map[string]bool{}}
		follows := plan.Observation{Member: plan.Member{Running: true, Status: plan.Status{HasLead: true}}}
		hears := plan.Observation{Peers: []plan.Peer{{Live: true, Facts: &plan.Facts{Leader: true}}}}
		lost := plan.Observation{Peers: []plan.Peer{{Facts: &plan.Facts{Leader: true}}}}
		for i, s := range []struct {
			wait time.Duration
			o    plan.Observation
			want bool
		}{
			{0, lost, false}, {LeaderWait - 1, lost, false}, {1, lost, true},
			{0, hears, false}, {LeaderWait, plan.Observation{}, false}, {LeaderWait, plan.Observation{}, true},
			{0, follows, false}, {LeaderWait, follows, false}, {0, plan.Observation{}, false},
		} {
			time.Sleep(s.wait)
			if e.tell(&s.o, time.Now(), nil); s.o.Leaderless != s.want {
				t.Errorf("step %d: leaderless %v, want %v", i, s.o.Leaderless, s.want)
			}
		}
	})
}

// A node is blind if it could not have prevented a conclusion: it did not have a leader and the store together for as
// long as a proposal waits.
func TestBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record("a", "b", "c")
		p := proposed(r, false, "c")
		child := plan.Record{Generation: 2, ID: p.ID, Line: p.Line, Restore: p}
		now := time.Now()
		at := func(d time.Duration) time.Time { return now.Add(d) }
		none, concluded := plan.Store{Record: &r}, plan.Store{Record: &child, Concluded: []plan.Record{child}}
		for name, tc := range map[string]struct {
			before ending
			looks  map[time.Duration]plan.Store
			want   bool
		}{
			"the first look":                {ending{}, map[time.Duration]plan.Store{1: concluded}, true},
			"guarded":                       {ending{led: now}, map[time.Duration]plan.Store{1: none, LeaderWait: concluded}, false},
			"no leader":                     {ending{}, map[time.Duration]plan.Store{1: none, LeaderWait: concluded}, true},
			"a leader since the look":       {ending{led: at(2)}, map[time.Duration]plan.Store{1: none, LeaderWait: concluded}, true},
			"no look for too long":          {ending{led: now}, map[time.Duration]plan.Store{1: none, LeaderWait + 1: concluded}, true},
			"the look between had no reply": {ending{led: now}, map[time.Duration]plan.Store{1: none, LeaderWait: {Unknown: "timeout"}, LeaderWait + 1: concluded}, true},
			"what was found stays":          {ending{led: now}, map[time.Duration]plan.Store{1: concluded, 2: concluded}, true},
		} {
			e := tc.before
			e.blind = map[string]bool{}
			var times []time.Duration
			for d := range tc.looks {
				times = append(times, d)
			}
			slices.Sort(times)
			for _, d := range times {
				e.looked(at(d), tc.looks[d], nil)
			}
			o := plan.Observation{Store: concluded, Disk: plan.Disk{Ledger: plan.Ledger{Record: &r}}}
			if e.tell(&o, now, nil); o.Blind != tc.want {
				t.Errorf("%s: blind %v, want %v", name, o.Blind, tc.want)
			}
		}
	})
}

func TestConfirm(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world, *plan.Restore)
		id     string
		want   string // of the error
	}{
		"by a key":            {func(*world, *plan.Restore) {}, "", ""},
		"by a mark":           {func(w *world, _ *plan.Restore) { w.readOnly = true }, "", ""},
		"another ID":          {func(*world, *plan.Restore) {}, "other", "and not other"},
		"nothing is proposed": {func(w *world, _ *plan.Restore) { w.knows.Restore = nil }, "", "no restore is proposed"},
		"it is leaderless":    {func(_ *world, p *plan.Restore) { p.Led = nil }, "", "no one can consent"},
		"it leaves voters out": {func(w *world, p *plan.Restore) {
			*p = NewRestore(*w.knows.Record, 0, Backup{Name: "b1", Digest: strings.Repeat("0f", 32)}, 40, 100)
			p.By, p.Led = "root", &plan.Stand{Node: "n1", Leader: true}
			w.member.Members = append(w.member.Members, plan.MemberInfo{ID: 4, Slot: "d"}, plan.MemberInfo{ID: 5, Slot: "e"})
		}, "", "continue with the slots a,b,c, and slots d, e have members as well"},
		"nobody has a leader":   {func(w *world, _ *plan.Restore) { w.member = plan.Member{} }, "", ErrUnled.Error()},
		"a remembered leader":   {func(w *world, _ *plan.Restore) { w.member.Confirmed = false }, "", ErrUnled.Error()},
		"of another generation": {func(_ *world, p *plan.Restore) { p.Line = []string{"other"} }, "", "does not answer here"}, // it is invalid
	} {
		t.Run(name, func(t *testing.T) {
			w, r := serving(t)
			p := proposed(r, true)
			w.knows.Restore, w.knows.Attempts = p, 1
			tc.change(w, p)
			c := w.holding()
			_, err := c.Confirm(t.Context(), tc.id, "root")
			o := look(t, c)
			got := o.Member.Consent
			switch {
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || got != nil || w.marked != nil):
				t.Errorf("got %v, consent %v, marks %x; want the error %q", err, got, w.marked, tc.want)
			case tc.want == "" && (err != nil || got == nil || got.Record != r.ID || got.Proposal != p.ID || w.readOnly != (len(w.marked) == 1)):
				t.Errorf("got %v, consent %+v, marks %x", err, got, w.marked)
			}
		})
	}
}

// A node without a member asks one that has a leader to commit the consent, and that one checks that it is for its
// generation.
func TestConfirmForwards(t *testing.T) {
	w, r := serving(t)
	p := proposed(r, true)
	w.knows.Restore, w.knows.Attempts = p, 1
	w.member = plan.Member{}
	state, err := json.Marshal(plan.Facts{Version: 1, Slot: "b", Disk: "disk-b", Epoch: 1, Phase: plan.PhaseData, Record: &r, Member: 2, CID: 77, Running: true, Confirmed: true})
	if err != nil {
		t.Fatal(err)
	}
	w.nodes, w.answer = []Node{{Name: "n2", Live: true, State: state, Stamp: [2]uint64{1, 1}}}, []byte("{}")
	if _, err := w.holding().Confirm(t.Context(), p.ID, "root"); err != nil {
		t.Fatal(err)
	}
	question, ok := strings.CutPrefix(strings.Join(w.asked, ";"), "n2 ")
	if !ok || !strings.HasPrefix(question, askToConsent) {
		t.Fatalf("asked %q", w.asked)
	}
	there, _ := serving(t)
	there.knows.Restore, there.knows.Attempts = p, 1
	c := there.holding()
	if _, ok, err := c.Answer(t.Context(), []byte(question)); !ok || err != nil {
		t.Errorf("the member asked: %v, %v", ok, err)
	}
	if got := look(t, c).Member.Consent; got == nil || got.Proposal != p.ID || got.By != "root" {
		t.Errorf("the member asked has consented to %+v", got)
	}
	there.member.Consent = nil
	if _, ok, err := c.Answer(t.Context(), []byte(askToConsent+`{"record":"other","proposal":"p"}`)); !ok || err == nil || there.member.Consent != nil {
		t.Errorf("of another generation: %v, %v, consent %v", ok, err, there.member.Consent)
	}
	if _, ok, err := c.Answer(t.Context(), []byte("consents")); ok || err != nil {
		t.Errorf("a question that nobody knows: %v, %v", ok, err)
	}
}

func TestDepart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := serving(t)
		p := proposed(r, false, "c")
		c := w.coordinator("a", "b", "c")
		w.lead(false)
		w.knows.Restore, w.knows.Attempts = p, 1
		stop := live(t, c)
		left := func() *plan.Left {
			l, _, err := readLedger(w.dir)
			if err != nil {
				t.Fatal(err)
			}
			return l.Left
		}
		time.Sleep(LeaderWait - 2*time.Second)
		if l := left(); l != nil {
			t.Errorf("before a leader could have objected: %+v", l)
		}
		if d := c.Now().Objecting; d <= 0 || d > 3*time.Second {
			t.Errorf("shows that it waits for another %s", d)
		}
		time.Sleep(5 * time.Second)
		if l := left(); l == nil || l.Proposal != p.ID || len(l.Members) != 3 || w.member.Running {
			t.Errorf("after that: noted %+v, runs %v (%s)", l, w.member.Running, c.Now().Action.Text())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestDepartNotWithALeader(t *testing.T) {
	w, r := serving(t)
	p := proposed(r, false, "c")
	c := w.holding()
	c.generations.stored(plan.Store{ID: "store", Record: &r, Restore: p, Attempts: 1}, time.Now())
	if err := c.loop.actor.depart(t.Context(), plan.Action{Kind: plan.Leave, Left: &plan.Left{Proposal: p.ID}}); !errors.Is(err, errNotYet) {
		t.Errorf("got %v, want not yet", err)
	}
	if l, _, err := readLedger(w.dir); err != nil || l.Left != nil || len(w.left) != 0 {
		t.Errorf("noted %+v, stopped %d times, %v", l.Left, len(w.left), err)
	}
}

// Where no shared store proves a later generation, its heirs are asked before this disk's data is set aside, even if a
// store answers here: without snapshot.store each node has its own.
func TestConfirmedAsksTheHeirs(t *testing.T) {
	_, r := serving(t)
	next := r
	next.ID, next.Generation, next.Line = "next", 2, []string{r.ID}
	heir := plan.Facts{Version: 1, Slot: "b", Disk: "disk-b", Epoch: 1, Phase: plan.PhaseData, Record: &next, Member: 2,
		CID: 77}
	for name, tc := range map[string]struct {
		store plan.Store
		asks  bool
	}{
		"a store of its own": {plan.Store{ID: "own"}, true},
		"a store that hangs": {plan.Store{Unknown: "timeout"}, true},
		"a shared store":     {plan.Store{ID: "shared", Record: &next}, false},
	} {
		w, _ := serving(t) // n2 does not answer
		c := w.holding()
		a := plan.Action{Kind: plan.SetAside, Record: &next}
		c.loop.decider.plan = func(o plan.Observation) plan.Action {
			if !o.Peers[0].Live {
				return plan.Action{Kind: plan.Wait}
			}
			return a
		}
		o := plan.Observation{Disk: plan.Disk{Ledger: plan.Ledger{Record: &r}}, Store: tc.store,
			Peers: []plan.Peer{{Node: "n2", Live: true, Facts: &heir}}}
		if err := c.loop.actor.confirmed(t.Context(), o, a); (err != nil) != tc.asks || len(w.asked) > 0 != tc.asks {
			t.Errorf("%s: got %v, asked %q", name, err, w.asked)
		}
	}
}

// What the gossip says in a leader's name is asked again directly, and counts only if a quorum has just confirmed the
// leader.
func TestConfirmedAsksTheLeader(t *testing.T) {
	_, r := serving(t)
	facts := plan.Facts{Version: 1, Slot: "b", Disk: "disk-b", Epoch: 1, Phase: plan.PhaseData, Record: &r, Member: 2, CID: 77, Running: true, Leader: true, Removed: []uint64{1}}
	confirmed, other := facts, facts
	confirmed.Confirmed = true
	other.Confirmed, other.Removed = true, nil
	for name, tc := range map[string]struct {
		answer *plan.Facts
		want   bool
	}{"confirmed": {&confirmed, true}, "not confirmed": {&facts, false}, "says otherwise": {&other, false}, "answers not": {nil, false}} {
		w, _ := serving(t)
		if tc.answer != nil {
			w.answer, _ = json.Marshal(tc.answer)
		}
		c := w.holding()
		a := plan.Action{Kind: plan.SetAside, Record: &r, Node: "n2"}
		c.loop.decider.plan = func(o plan.Observation) plan.Action {
			if p := o.Peers[0]; p.Live && slices.Contains(p.Facts.Removed, 1) {
				return a
			}
			return plan.Action{Kind: plan.Wait}
		}
		err := c.loop.actor.confirmed(t.Context(), plan.Observation{Disk: plan.Disk{Ledger: plan.Ledger{Record: &r}}, Peers: []plan.Peer{{Node: "n2", Live: true, Facts: &facts}}}, a)
		if (err == nil) != tc.want || !slices.Equal(w.asked, []string{"n2 " + askForFacts}) {
			t.Errorf("%s: got %v, asked %q", name, err, w.asked)
		}
	}
}

func TestBeacon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := serving(t)
		c := w.coordinator("a", "b", "c")
		stop := live(t, c)
		for _, s := range []struct {
			confirmed, leader bool
			want              int
		}{{true, true, 4}, {false, true, 0}, {true, false, 0}} {
			w.mu.Lock()
			w.member.Confirmed, w.member.Leader = s.confirmed, s.leader
			before := len(w.shone)
			w.mu.Unlock()
			time.Sleep(3*BeaconEvery + 2*time.Second) // once at its election, then every BeaconEvery
			w.mu.Lock()
			if n := len(w.shone) - before; n != s.want {
				t.Errorf("confirmed %v, leader %v: the beacon was written %d times, want %d", s.confirmed, s.leader, n, s.want)
			}
			w.mu.Unlock()
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestRejoinAndContinue(t *testing.T) {
	w, r := serving(t)
	c := w.holding()
	c.generations.stored(w.knows, time.Now())
	if err := c.Rejoin(true); !errors.Is(err, ErrNotApart) {
		t.Errorf("rejoin a cluster that serves: got %v", err)
	}
	if _, err := c.Continue(nil, 0, true); !errors.Is(err, ErrNotApart) {
		t.Errorf("continue beside a cluster that serves: got %v", err)
	}
	p := proposed(r, false, "a", "c")
	child := plan.Record{Cluster: r.Cluster, Generation: 2, ID: p.ID, Line: p.Line, Cause: plan.Recovered, Restore: p, Charter: r.Charter}
	child.Charter.Generation, child.Charter.Seats = 2, []plan.Seat{{Slot: "a", Member: 1}, {Slot: "b", Disk: "disk-b", Epoch: 1, Member: 2}, {Slot: "c", Member: 3}}
	w.member = plan.Member{}
	c.generations.stored(plan.Store{ID: "store", Record: &child, Concluded: []plan.Record{child}}, time.Now())
	if _, err := c.Continue([]string{"b"}, 90, false); err == nil || !strings.Contains(err.Error(), "begin it with --lost a,b,c") {
		t.Errorf("continue although voters may be elsewhere: got %v", err)
	}
	if _, err := c.Continue([]string{"b"}, 90, true); err != nil { // the leader knows its voters
		t.Errorf("continue with the consent of a leader: got %v", err)
	}
	w.company(t, func(f *plan.Facts) {
		f.Running, f.Log = false, &plan.LogEnd{Term: w.data.Log.Term, Index: w.data.Log.Index + 1}
	})
	if _, err := c.Continue([]string{"a", "b", "c"}, 90, true); err == nil || !strings.Contains(err.Error(),
		"slot b on n2 has a more advanced log") {
		t.Errorf("continue although another disk here holds more: got %v", err)
	}
	w.set(func() { w.nodes = nil })
	next, err := c.Continue([]string{"a", "b", "c"}, 90, false)
	if err != nil || next.Parent() != child.ID || next.Disk != "disk-a" || next.Survivor != "a" || next.Log == nil || next.Revision+next.Bump < max(90, child.Floor()) {
		t.Errorf("continue: got %+v, %v", next, err)
	}
	next.By = "somebody else"
	c.generations.stored(plan.Store{ID: "store", Record: &child, Concluded: []plan.Record{child}, Restore: &next,
		Attempts: 1}, time.Now())
	if p, err := c.Continue([]string{"a", "b", "c"}, 90, false); err == nil || !strings.Contains(err.Error(),
		"a recovery from slot a is under way, proposed by somebody else") {
		t.Errorf("continue beside an open proposal: got attempt %d, %v", p.Attempt, err)
	}
	c.generations.stored(plan.Store{ID: "store", Record: &child, Concluded: []plan.Record{child}}, time.Now())
	if err := c.Rejoin(true); err != nil || look(t, c).Orders.Join {
		t.Errorf("dry: got %v, orders %+v", err, c.generations.orders)
	}
	c.status.looked(look(t, c))
	if err := c.Rejoin(false); err != nil || !look(t, c).Orders.Join {
		t.Errorf("got %v, orders %+v", err, c.generations.orders)
	}
	c.generations.stored(plan.Store{ID: "store", Unknown: "timeout"}, time.Now())
	if _, err := c.Continue(nil, 0, true); err == nil {
		t.Error("continue although the store does not answer: no error")
	}
}

// A look at the store that took long does not undo what a newer look has found, unless it found no answer.
func TestLooksOvertakeEachOther(t *testing.T) {
	w, r := serving(t)
	c := w.holding()
	p := proposed(r, false, "a", "c")
	began := time.Now()
	c.generations.stored(plan.Store{ID: "store", Record: &r, Restore: p}, began.Add(time.Second))
	c.generations.stored(plan.Store{ID: "store", Record: &r}, began)
	if o := look(t, c); o.Store.Restore == nil {
		t.Error("an older look hides the open proposal")
	}
	c.generations.stored(plan.Store{Unknown: "timeout"}, began)
	if o := look(t, c); o.Store.Unknown == "" {
		t.Error("the store counts as known although an older look has no answer")
	}
	c.generations.stored(plan.Store{ID: "store", Record: &r}, began.Add(2*time.Second))
	if o := look(t, c); o.Store.Unknown != "" || o.Store.Restore != nil {
		t.Errorf("after a newer look: got %+v", o.Store)
	}
}

// A leader looks for the next proposal every two seconds, and a slow store takes longer to show the whole. What that
// shows counts all the same. It is also what tells whether another node's store is ours.
func TestLeaderOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := serving(t)
		w.store = func(context.Context) (string, error) {
			time.Sleep(watchProposals + time.Second)
			return "store", nil
		}
		c := w.coordinator("a", "b", "c")
		stop := live(t, c)
		time.Sleep(storeAge)
		state, err := json.Marshal(plan.Facts{Version: 1, Slot: "b", Disk: "disk-b", Epoch: 1, Phase: plan.PhaseData,
			Record: &r, Member: 2, CID: 77, Running: true, Store: "store", Nonce: "new"})
		if err != nil {
			t.Fatal(err)
		}
		w.set(func() {
			w.knows.Requests = []plan.Request{{Command: "c1", Backup: "b1", By: "etcd-manager"}}
			w.nodes = []Node{{Name: "n2", Live: true, State: state, Stamp: [2]uint64{1, 1}}}
			w.nonces = map[string]string{"new": "n2"}
		})
		for range 2 * storeAge / tick {
			time.Sleep(tick)
			if got := c.Now().Conflicts; len(got) > 0 {
				t.Fatalf("while the store is read again: %q", got)
			}
		}
		if got := c.Now().Observation.Store.Requests; len(got) != 1 {
			t.Errorf("after two looks: got the commands %+v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestRecoverAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := serving(t)
		c := w.holding()
		look(t, c)
		w.lead(false)
		time.Sleep(leaderless)
		refused := func(says string, lost ...string) {
			t.Helper()
			if _, err := c.RecoverAlone(lost, "root", false); err == nil || !strings.Contains(err.Error(), says) || c.generations.orders.Alone != nil {
				t.Errorf("got %v, want %q", err, says)
			}
		}
		c.generations.stored(plan.Store{ID: "store", Record: &r}, time.Now())
		refused("the backup store answers", "b", "c")
		c.generations.stored(plan.Store{ID: "store", Unknown: "timeout"}, time.Now())
		refused("slot c is not here", "b")
		w.lead(true)
		refused("or did until a moment ago", "b", "c")
		w.lead(false)
		time.Sleep(leaderless)
		if p, err := c.RecoverAlone([]string{"b", "c"}, "root", true); err != nil || p.Disk != "disk-a" || c.generations.orders.Alone != nil {
			t.Errorf("dry: %+v, %v, orders %+v", p, err, c.generations.orders)
		}
		c.generations.stored(plan.Store{ID: "store", Unknown: "it is invalid", Unread: true}, time.Now())
		if _, err := c.RecoverAlone([]string{"b", "c"}, "root", true); err != nil {
			t.Errorf("a store that holds what cannot be read: %v", err)
		}
		c.status.looked(look(t, c))
		p, err := c.RecoverAlone([]string{"b", "c"}, "root", false)
		if got := look(t, c).Orders.Alone; err != nil || got == nil || got.ID != p.ID {
			t.Errorf("got %+v, %v, orders %+v", p, err, got)
		}
		c.generations.stored(plan.Store{ID: "store", Record: &r}, time.Now())
		look(t, c)
		c.generations.stored(plan.Store{ID: "store", Unknown: "timeout"}, time.Now())
		if got := look(t, c).Orders.Alone; got != nil {
			t.Errorf("the order holds again when the store is away again: %+v", got)
		}
	})
}

// If a live node was not found in the store, the next look asks for all live ones by name. Otherwise it asks for none.
func TestUnmetNodesAreExpected(t *testing.T) {
	w := newWorld(t)
	at := netip.MustParseAddr
	w.nodes = []Node{{Name: "n2", Address: at("10.0.0.2"), Live: true}, {Name: "n3", Address: at("10.0.0.3")},
		{Name: "n1", Address: at("10.0.0.1"), Live: true}}
	g := newGenerations(env{cfg: &Config{Node: "n1", Address: at("10.0.0.1")}, world: &World{Mesh: w, Store: stores{w}}})
	for live, want := range map[string][]string{"": nil, "x": {"n2 at 10.0.0.2"}} {
		g.ending.tell(new(plan.Observation), time.Now(), map[string]string{"n2": live})
		if g.read(t.Context()); !slices.Equal(w.expected, want) {
			t.Errorf("nonce %q: expected %q, want %q", live, w.expected, want)
		}
	}
}
