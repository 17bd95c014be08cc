package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// doomed is a voter that has just lost its leader: it campaigns, unless a test changes something.
func doomed() Candidacy {
	return Candidacy{
		Standing: Standing{Running: true, Voter: true, Able: true, ID: 2, Term: 5, Lead: 1, End: LogEnd{5, 100}, Settled: true,
			Voters: []uint64{1, 2, 3}, Near: []uint64{3}, Silence: 50 * time.Millisecond, Beat: 100 * time.Millisecond},
		Rivals:  []Rival{{ID: 3, Live: true, Said: said(3, LogEnd{5, 100})}},
		Suspect: 1, Refused: true, Since: time.Second,
	}
}

// said is another voter that has lost the same leader.
func said(id uint64, end LogEnd) *Standing {
	return &Standing{Running: true, Voter: true, Able: true, ID: id, Term: 5, Lead: 1, End: end,
		Voters: []uint64{1, 2, 3}, Beat: 100 * time.Millisecond}
}

func TestBallot(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(c *Candidacy)
		want   Reason
	}{
		{"the leader refuses", func(*Candidacy) {}, LeaderRefused},
		{"raft has given the leader up", func(c *Candidacy) { c.Lead = 0 }, LeaderRefused},
		{"does not run", func(c *Candidacy) { c.Running = false }, ""},
		{"learner", func(c *Candidacy) { c.Voter = false }, ""},
		{"leads", func(c *Candidacy) { c.Lead, c.Suspect = 2, 2 }, ""},
		{"drains", func(c *Candidacy) { c.Departing = true }, ""},
		{"has left", func(c *Candidacy) { c.Ending = true }, ""},
		{"not refused", func(c *Candidacy) { c.Refused = false }, ""},
		{"a stream stands", func(c *Candidacy) { c.Near = []uint64{1, 3} }, ""},
		{"another one leads", func(c *Candidacy) { c.Lead = 3 }, ""},
		{"heard by another", func(c *Candidacy) { c.Rivals[0].Said.Near = []uint64{1} }, ""},
		{"connected to another, and silent there", func(c *Candidacy) {
			c.Rivals[0].Said.Near, c.Rivals[0].Said.Silence = []uint64{1}, time.Second
		}, LeaderRefused},
		{"another one leads and says so", func(c *Candidacy) { c.Rivals[0].Said.Lead = 3 }, ""},
		{"once a term", func(c *Candidacy) { c.Campaigned, c.Ago = 5, time.Hour }, ""},
		{"in the next term", func(c *Candidacy) { c.Campaigned, c.Ago, c.Fruitless = 4, time.Hour, 1 }, LeaderRefused},
		{"too soon again", func(c *Candidacy) { c.Campaigned, c.Ago, c.Fruitless = 4, 99*time.Millisecond, 1 }, ""},
		{"back off longer", func(c *Candidacy) { c.Campaigned, c.Ago, c.Fruitless = 4, 399*time.Millisecond, 3 }, ""},
		{"back off no longer than", func(c *Candidacy) { c.Campaigned, c.Ago, c.Fruitless = 4, 1600*time.Millisecond, 99 }, LeaderRefused},
		{"no quorum", func(c *Candidacy) { c.Near = nil }, ""},
		{"a log reaches further", func(c *Candidacy) { c.Rivals[0].Said.End.Index++ }, ""},
		{"a log of a later term", func(c *Candidacy) { c.Rivals[0].Said.End = LogEnd{6, 1} }, ""},
		{"a log reaches further, of a node that is lost", func(c *Candidacy) {
			c.Rivals[0].Said.End.Index++
			c.Rivals[0].Live = false
		}, LeaderRefused},
		{"settles", func(c *Candidacy) { c.Since = 9 * time.Millisecond }, ""},
		{"settled", func(c *Candidacy) { c.Since = 10 * time.Millisecond }, LeaderRefused},
		{"second by ID", func(c *Candidacy) { third(c); c.Since = 129 * time.Millisecond }, ""},
		{"second by ID in its turn", func(c *Candidacy) { third(c); c.Since = 130 * time.Millisecond }, LeaderRefused},
		{"second to one that does not answer", func(c *Candidacy) {
			paused(c)
			five(c)
			c.ID, c.Rivals[1].ID, c.Near, c.Silence = 4, 2, []uint64{2, 3, 5}, 749*time.Millisecond
		}, ""},
		{"heard by one that does not run", func(c *Candidacy) { c.Rivals[0].Said.Near, c.Rivals[0].Said.Running = []uint64{1}, false }, LeaderRefused},
		{"applies what is committed", func(c *Candidacy) { c.Settled = false }, LeaderRefused},
		{"no quorum but with the leader", func(c *Candidacy) { paused(c); c.Near = []uint64{1} }, ""},
		{"first, for the other does not run", func(c *Candidacy) { third(c); c.Rivals[0].Said.Running = false; c.Since = 10 * time.Millisecond }, LeaderRefused},
		{"first, for the other has no vote", func(c *Candidacy) { third(c); c.Rivals[0].Said.Voter = false; c.Since = 10 * time.Millisecond }, LeaderRefused},
		{"another does not answer, and heartbeats come", func(c *Candidacy) { c.Rivals[0].Said = nil }, ""},
		{"another program runs the other, and heartbeats come", func(c *Candidacy) { c.Rivals[0].Said, c.Rivals[0].Live = nil, false }, ""},
		{"another does not answer, and no heartbeats come", func(c *Candidacy) { c.Rivals[0].Said, c.Silence = nil, 500*time.Millisecond }, ""},
		{"cut off from all", func(c *Candidacy) { paused(c); c.Rivals[0].Said, c.Rivals[0].Live = nil, false }, ""},
		{"restarted beside one that does not answer", func(c *Candidacy) {
			restarted(c)
			c.Rivals = append(c.Rivals, Rival{ID: 1, Live: true})
		}, ""},
		{"restarted beside one that is connected and does not answer", func(c *Candidacy) {
			restarted(c)
			c.Near = []uint64{1, 3}
			c.Rivals = append(c.Rivals, Rival{ID: 1})
		}, ""},
		{"first, for the other may not", func(c *Candidacy) { third(c); c.Rivals[0].Said.Able = false; c.Since = 10 * time.Millisecond }, LeaderRefused},
		{"first by its log", func(c *Candidacy) { third(c); c.Rivals[0].Said.End.Index--; c.Since = 10 * time.Millisecond }, LeaderRefused},
		{"paused", func(c *Candidacy) { paused(c) }, LeaderGone},
		{"paused, and it answers", func(c *Candidacy) { paused(c); c.Mute, c.Answer = 0, said(1, LogEnd{5, 100}) }, ""},
		{"mute twice", func(c *Candidacy) { paused(c); c.Mute = 2 }, ""},
		{"mute, and heard", func(c *Candidacy) { paused(c); c.Silence = 499 * time.Millisecond }, ""},
		{"paused, and settles", func(c *Candidacy) { paused(c); c.Silence = 509 * time.Millisecond }, ""},
		{"paused, and another hears it", func(c *Candidacy) {
			paused(c)
			c.Rivals[0].Said.Near, c.Rivals[0].Said.Silence = []uint64{1}, 499*time.Millisecond
		}, ""},
		{"paused, and another has heard it lately", func(c *Candidacy) { paused(c); c.Rivals[0].Said.Silence = 499 * time.Millisecond }, ""},
		{"paused, and another knows no leader", func(c *Candidacy) { paused(c); c.Rivals[0].Said.Lead = 0 }, ""},
		{"paused, and a learner misses it", func(c *Candidacy) { paused(c); c.Rivals[0].Said.Voter = false }, ""},
		{"paused, on one witness's word", func(c *Candidacy) { paused(c); five(c); c.Rivals[2].Said = nil }, ""},
		{"paused, on two witnesses' word", func(c *Candidacy) { paused(c); five(c) }, LeaderGone},
		{"paused, second by ID", second(629*time.Millisecond, 0), ""},
		{"paused, second by ID, and the first is more patient", second(929*time.Millisecond, 400*time.Millisecond), ""},
		{"paused, second by ID, and both have waited", second(930*time.Millisecond, 400*time.Millisecond), LeaderGone},
		{"paused, soon after an election", func(c *Candidacy) { paused(c); c.Elected = 8399 * time.Millisecond }, ""},
		{"paused, long after an election", func(c *Candidacy) { paused(c); c.Elected = 8400 * time.Millisecond }, LeaderGone},
		{"paused, soon after an election that another saw", func(c *Candidacy) { paused(c); c.Rivals[0].Said.Elected = time.Second }, ""},
		{"paused, like others before", lasting(809 * time.Millisecond), ""},
		{"paused, for longer than others before", lasting(810 * time.Millisecond), LeaderGone},
		{"paused, like others that another saw", func(c *Candidacy) {
			paused(c)
			c.Rivals[0].Said.Longest, c.Rivals[0].Said.Silence = 400*time.Millisecond, 799*time.Millisecond
		}, ""},
		{"stalled, like others before", func(c *Candidacy) { stalls(c); c.Longest = time.Minute }, ""},
		{"refused, after a long pause", func(c *Candidacy) { c.Longest = time.Minute }, LeaderRefused},
		{"stalled, soon after an election", func(c *Candidacy) { stalls(c); c.Elected = time.Second }, ""},
		{"refused, soon after an election", func(c *Candidacy) { c.Elected = time.Second }, LeaderRefused},
		{"stalled", func(c *Candidacy) { stalls(c) }, LeaderStalled},
		{"stalled for a moment", func(c *Candidacy) { stalls(c); c.Answer.Silence = 299 * time.Millisecond }, ""},
		{"stalled, and heard", func(c *Candidacy) { stalls(c); c.Silence = 499 * time.Millisecond }, ""},
		{"stalled as a follower", func(c *Candidacy) { stalls(c); c.Answer.Lead = 3 }, ""},
		{"stalled, and another has heard it lately", func(c *Candidacy) { stalls(c); c.Rivals[0].Said.Silence = 0 }, ""},
		{"founds", func(c *Candidacy) { founds(c) }, FirstFounder},
		{"founds, started again", func(c *Candidacy) { founds(c); c.Term = 2 }, ""},
		{"founds, not first", func(c *Candidacy) { founds(c); c.First = false }, ""},
		{"founds alone", func(c *Candidacy) { founds(c); c.Near = nil }, ""},
		{"founds, and applies the first entries", func(c *Candidacy) { founds(c); c.Settled = false }, ""},
		{"restarted", func(c *Candidacy) { restarted(c) }, NoLeader},
		{"restarted, and the others are silent", func(c *Candidacy) { restarted(c); c.Rivals[0].Said = nil }, ""},
		{"restarted beside a leader", func(c *Candidacy) { restarted(c); c.Rivals[0].Said.Lead, c.Rivals[0].Said.Near = 1, []uint64{1} }, ""},
	} {
		now := doomed()
		c.change(&now)
		if got := now.Ballot(); got != c.want {
			t.Errorf("ballot: %s: got %q, want %q", c.name, got, c.want)
		}
	}
	// Heartbeats come, so there is no evidence, even if the evidence would be too young to act on.
	for name, change := range map[string]func(*Candidacy){"paused": paused, "stalls": stalls} {
		now := doomed()
		change(&now)
		now.Silence = 499 * time.Millisecond
		if got := now.Evidence(); got != "" {
			t.Errorf("ballot: %s, and heard: got the evidence %q", name, got)
		}
	}
}

// A leader may be silent for a part of the time that raft's own timer allows.
func TestBeat(t *testing.T) {
	for _, c := range []struct{ heartbeat, election, want int }{
		{100, 1000, 120}, {100, 5000, 600}, {500, 2500, 500},
	} {
		ms := time.Millisecond
		if got := Beat(time.Duration(c.heartbeat)*ms, time.Duration(c.election)*ms); got != time.Duration(c.want)*ms {
			t.Errorf("beat: of %d and %d ms: got %s, want %d ms", c.heartbeat, c.election, got, c.want)
		}
	}
}

func third(c *Candidacy) {
	c.ID, c.Near, c.Rivals = 3, []uint64{2}, []Rival{{ID: 2, Live: true, Said: said(2, LogEnd{5, 100})}}
}

func paused(c *Candidacy) {
	c.Near, c.Refused, c.Mute, c.Silence = []uint64{1, 3}, false, 3, 510*time.Millisecond
	c.Rivals[0].Said.Silence = 500 * time.Millisecond
}

// lasting is a pause of this length, where a leader has paused for 400 ms before.
func lasting(silence time.Duration) func(*Candidacy) {
	return func(c *Candidacy) {
		paused(c)
		c.Longest, c.Silence = 400*time.Millisecond, silence
	}
}

// second is a pause of this length for the second voter by ID. The first remembers a silence.
func second(silence, longest time.Duration) func(*Candidacy) {
	return func(c *Candidacy) {
		third(c)
		paused(c)
		c.Near, c.Silence = []uint64{1, 2}, silence
		c.Rivals[0].Said.Silence, c.Rivals[0].Said.Longest = time.Second, longest
	}
}

func stalls(c *Candidacy) {
	paused(c)
	c.Mute, c.Answer = 0, said(1, LogEnd{5, 99})
	c.Answer.Silence = 300 * time.Millisecond
}

// five adds two voters, one of which misses the leader as well.
func five(c *Candidacy) {
	c.Voters, c.Near = []uint64{1, 2, 3, 4, 5}, []uint64{1, 3, 4, 5}
	missing := said(5, LogEnd{5, 100})
	missing.Silence = 500 * time.Millisecond
	c.Rivals = append(c.Rivals, Rival{ID: 4, Live: true}, Rival{ID: 5, Live: true, Said: missing})
}

func founds(c *Candidacy) {
	c.Lead, c.Suspect, c.First, c.Refused, c.Since, c.Rivals, c.Term = 0, 0, true, false, 0, []Rival{{ID: 3}}, 1
}

func restarted(c *Candidacy) {
	c.Lead, c.Suspect, c.Refused = 0, 0, false
	c.Rivals[0].Said.Lead = 0
}

func TestCandidate(t *testing.T) {
	charter := Charter{Cluster: "c", Generation: 1, Seats: []Seat{{Slot: "a", Disk: "d"}, {Slot: "b", Disk: "e"}}}
	r := FoundingRecord(charter)
	whole := func() Observation {
		return Observation{Claim: Claim{Held: true, Slot: "a", Disk: "d"}, Member: Member{Running: true, ID: 1},
			Disk: Disk{Fresh: true, WAL: true, Ledger: Ledger{Record: &r, Role: RoleFounder, Started: "d"}}}
	}
	for _, c := range []struct {
		name                     string
		change                   func(o *Observation)
		departing, ending, first bool
	}{
		{"the first founder", func(*Observation) {}, false, false, true},
		{"the second", func(o *Observation) { o.Claim.Slot = "b" }, false, false, false},
		{"after a restart", func(o *Observation) { o.Disk.Fresh = false }, false, false, false},
		{"as a replacement", func(o *Observation) { o.Disk.Ledger.Role = RoleReplacement }, false, false, false},
		{"stopping", func(o *Observation) { o.Stopping = true }, true, false, true},
		{"drained", func(o *Observation) { o.Drained = true }, true, false, true},
		{"defragmenting", func(o *Observation) { o.Member.Defragging = true }, true, false, true},
		{"has the lock", func(o *Observation) { o.Member.Lock = &Lock{Slot: "a"} }, true, false, true},
		{"another has the lock", func(o *Observation) { o.Member.Lock = &Lock{Slot: "b"} }, false, false, true},
		{"has left", func(o *Observation) { o.Disk.Ledger.Left = new(Left) }, false, true, true},
		{"prepares the next", func(o *Observation) { o.Disk.Ledger.Prepared = new(Restore) }, false, true, true},
		{"an end is proposed", func(o *Observation) {
			o.Store.Record, o.Store.Restore = &r, &Restore{ID: "p", Line: []string{r.ID}}
		}, false, true, true},
		{"has entered the next", func(o *Observation) {
			next := r
			next.Cause, next.Restore = Restored, new(Restore)
			o.Disk.Ledger.Record, o.Disk.Ledger.Started = &next, ""
		}, false, true, false},
		{"without a record", func(o *Observation) { o.Disk.Ledger = Ledger{} }, false, true, false},
	} {
		o := whole()
		c.change(&o)
		got := o.Candidate()
		if got.Departing != c.departing || got.Ending != c.ending || got.First != c.first {
			t.Errorf("candidate: %s: got departing %v, ending %v, first %v", c.name, got.Departing, got.Ending, got.First)
		}
	}
}

// TestBallotProperties checks with random candidacies what every campaign must have.
func TestBallotProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 23))
	campaigns := map[Reason]int{}
	for range 200_000 {
		c := randomCandidacy(rng)
		reason := c.Ballot()
		if reason == "" {
			continue
		}
		campaigns[reason]++
		refused := c.Refused && !slices.Contains(c.Near, c.Suspect)
		stuck := c.Answer != nil && c.Answer.Lead == c.Answer.ID && c.Answer.Silence >= 3*c.Beat
		silent := c.Silence >= 5*c.Beat && (c.Mute >= 3 || stuck)
		missed := 1
		for _, r := range c.Rivals {
			if r.Said != nil && r.Said.Voter && r.Said.Lead == c.Suspect && r.Said.Silence >= 5*c.Beat {
				missed++
			}
		}
		for what, wrong := range map[string]bool{
			"without a vote": !c.Running || !c.Voter, "as the leader": c.Lead == c.ID,
			"on the way out": c.Departing, "at the end of its generation": c.Ending,
			"again in its term":       c.Campaigned != 0 && c.Campaigned >= c.Term,
			"at once again":           c.Fruitless > 0 && c.Ago < 100*time.Millisecond,
			"beside who says nothing": reason == LeaderRefused && slices.ContainsFunc(c.Rivals, func(r Rival) bool { return r.Said == nil && slices.Contains(c.Near, r.ID) }),
			"soon after an election":  (reason == LeaderGone || reason == LeaderStalled) && c.Elected > 0 && c.Elected < 8400*time.Millisecond,
			"beside another leader":   c.Lead != 0 && c.Lead != c.Suspect,
			"on no evidence":          c.Suspect != 0 && !refused && !silent,
			"on too few words":        (reason == LeaderGone || reason == LeaderStalled) && missed <= len(c.Voters)/2,
			"with a shorter log":      slices.ContainsFunc(c.Rivals, func(r Rival) bool { return r.Live && r.Said != nil && r.Said.End.after(c.End) }),
			"beside who hears it":     slices.ContainsFunc(c.Rivals, func(r Rival) bool { return r.Said != nil && r.Said.hears() }),
			"without any connection":  len(c.Voters) > 2 && len(c.Near) == 0,
		} {
			if wrong {
				t.Errorf("ballot: %s campaigns %s: %+v", reason, what, c)
			}
		}
	}
	for _, r := range Reasons() {
		if campaigns[r] < 50 {
			t.Errorf("only %d campaigns for %s: the properties say nothing", campaigns[r], r)
		}
	}
}

func randomCandidacy(rng *rand.Rand) Candidacy {
	rare := func() bool { return rng.IntN(8) == 0 }
	half := func() bool { return rng.IntN(2) == 0 }
	n := uint64(1 + rng.IntN(5))
	id := func() uint64 { return uint64(rng.IntN(int(n + 1))) }
	standing := func(self uint64) Standing {
		s := Standing{Running: !rare(), Voter: !rare(), Able: !rare(), ID: self, Term: uint64(4 + rng.IntN(3)), Settled: !rare(),
			End: LogEnd{5, uint64(100 + rng.IntN(2))}, Silence: time.Duration(rng.IntN(800)) * time.Millisecond, Beat: 100 * time.Millisecond}
		if half() {
			s.Lead = id()
		}
		if rare() {
			s.Elected = time.Duration(rng.IntN(20)) * time.Second
		}
		for v := uint64(1); v <= n; v++ {
			if s.Voters = append(s.Voters, v); v != self && half() {
				s.Near = append(s.Near, v)
			}
		}
		return s
	}
	c := Candidacy{Standing: standing(1 + uint64(rng.IntN(int(n)))), Departing: rare(), Ending: rare(), Suspect: id(),
		Refused: half(), Mute: rng.IntN(6), First: half(), Since: time.Duration(rng.IntN(600)) * time.Millisecond,
		Campaigned: uint64(rng.IntN(7)), Ago: time.Duration(rng.IntN(2000)) * time.Millisecond, Fruitless: rng.IntN(3)}
	if half() {
		c.Suspect = c.Lead
	}
	if s := standing(c.Suspect); half() {
		s.Lead = c.Suspect
		c.Answer, c.Mute = &s, 0
	}
	for v := uint64(1); v <= n; v++ {
		if v == c.ID || v == c.Suspect {
			continue
		}
		r := Rival{ID: v, Live: half()}
		if half() {
			s := standing(v)
			if half() {
				s.Lead = 0
			}
			r.Said = &s
		}
		c.Rivals = append(c.Rivals, r)
	}
	if half() { // nobody has led yet
		c.Term = 1
	}
	return c
}

func (c Candidacy) String() string {
	return fmt.Sprintf("%+v lead %d suspect %d refused %v mute %d", c.Standing, c.Lead, c.Suspect, c.Refused, c.Mute)
}
