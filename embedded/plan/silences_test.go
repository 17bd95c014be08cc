package plan

import (
	"testing"
	"time"
)

// TestSilences follows one voter, whose beat is a second, through a pause or a change of its leader. The voter
// remembers a pause of three beats.
func TestSilences(t *testing.T) {
	type look struct {
		after, silence time.Duration // in beats
		lead, term     uint64
	}
	changes := func(looks ...look) []look { return append([]look{{lead: 1, term: 5}}, looks...) }
	deposes := changes(look{6, 6, 1, 5}, look{1, 0, 0, 6}, look{1, 0, 3, 6})
	back := &Standing{End: LogEnd{6, 1}}
	for _, c := range []struct {
		name   string
		looks  []look
		answer *Standing
		asks   bool
		want   time.Duration // in beats
	}{
		{"it pauses", changes(look{6, 6, 1, 5}, look{1, 0, 1, 5}), nil, false, 6},
		{"it pauses for a shorter time", changes(look{2, 2, 1, 5}, look{1, 0, 1, 5}), nil, false, 3},
		{"it pauses, and hands over later", changes(look{6, 6, 1, 5}, look{1, 0, 1, 5}, look{1, 0, 3, 6}), nil, false, 6},
		{"it hands over", changes(look{1, 1, 1, 5}, look{1, 0, 0, 6}, look{1, 0, 3, 6}), nil, false, 3},
		{"it is deposed, and back", deposes, back, true, 6},
		{"it is deposed, and lost", deposes, nil, true, 3},
		{"it is deposed, and its disk hangs", deposes, &Standing{End: LogEnd{5, 1}}, true, 3},
		{"it is elected again", changes(look{6, 6, 1, 5}, look{1, 0, 1, 6}), back, true, 6},
		{"raft's own timer deposes it", changes(look{6, 6, 1, 5}, look{11, 0, 3, 6}), back, true, 6},
		{"this voter's own disk hangs", changes(look{0, 0, 2, 6}, look{6, 6, 2, 6}, look{1, 0, 2, 6}), nil, false, 3},
		{"the pause was long ago", changes(look{30000, 0, 1, 5}), nil, false, 0},
	} {
		now, p := time.Unix(0, 0), Silences{Longest: 3 * time.Second, at: time.Unix(0, 0)}
		for _, l := range c.looks {
			now = now.Add(l.after * time.Second)
			p.Watch(Standing{ID: 2, Lead: l.lead, Term: l.term, Silence: l.silence * time.Second, Beat: time.Second}, now)
		}
		if id := p.Due(time.Unix(16, 0)); id != 0 {
			t.Errorf("silences: %s: asks %d too early", c.name, id)
		}
		if id := p.Due(time.Unix(17, 0)); (id == 1) != c.asks {
			t.Errorf("silences: %s: asks %d", c.name, id)
		}
		if c.asks {
			p.Judge(c.answer, now)
		}
		if p.Longest != c.want*time.Second || p.Due(time.Unix(18, 0)) != 0 {
			t.Errorf("silences: %s: the longest is %s, want %d s", c.name, p.Longest, c.want)
		}
	}
}

// In an hour in which leaders pause all the time, for less than raft's own timers allow, few are deposed. A leader that
// is lost is replaced later than without pauses. After a long calm, the next is deposed as early as the first.
func TestSilencesOfAnHour(t *testing.T) {
	w := &pausing{now: time.Unix(0, 0), lead: 1, term: 5}
	w.show(0)
	deposes := func(calm, length time.Duration, returns, want bool) {
		t.Helper()
		if got := w.pause(calm, length, returns); got != want {
			t.Errorf("silences: of %s after %s: deposed %t, want %t; %+v", length, calm, got, want, w.voters)
		}
	}
	const calm, early = 84 * time.Second / 10, 600 * time.Millisecond
	deposes(calm, early, false, true)
	deposes(calm, early/2-5*time.Millisecond, true, false)
	deposes(calm, early, true, true)
	for begin := w.now; w.now.Sub(begin) < time.Hour-time.Minute; {
		deposes(calm, early, true, false)
	}
	deposes(calm, 2*early+10*time.Millisecond, false, true)
	deposes(2*time.Hour, early, true, true)
}

// pausing is three voters whose leaders pause. The beat is 100 ms.
type pausing struct {
	now, elected time.Time
	lead, term   uint64
	voters       [3]Silences
}

// show lets all voters look at a leader that has been silent.
func (w *pausing) show(silence time.Duration) (standings [3]Standing) {
	for i := range w.voters {
		p := &w.voters[i]
		s := Standing{Running: true, Voter: true, Able: true, ID: uint64(i + 1), Term: w.term, Lead: w.lead, Settled: true,
			Voters: []uint64{1, 2, 3}, Near: []uint64{1, 2, 3}, Silence: silence, Beat: 100 * time.Millisecond}
		if !w.elected.IsZero() {
			s.Elected = w.now.Sub(w.elected)
		}
		p.Watch(s, w.now)
		if id := p.Due(w.now); id != 0 {
			p.Judge(&Standing{End: LogEnd{Term: w.term}}, w.now)
		}
		s.Longest = p.Longest
		standings[i] = s
	}
	return standings
}

// pause lets the leader pause after some time, and reports whether the others depose it. If it does not return, its
// process starts again later, and has forgotten all pauses.
func (w *pausing) pause(after, length time.Duration, returns bool) (deposed bool) {
	w.now = w.now.Add(after)
	saw := w.show(length)
	old := w.lead
	heir, other := saw[old%3], saw[(old+1)%3]
	c := Candidacy{Standing: heir, Suspect: old, Mute: muteTries, Since: time.Second,
		Rivals: []Rival{{ID: other.ID, Said: &other}}}
	if c.Ballot() != LeaderGone {
		w.show(0)
		return false
	}
	w.now = w.now.Add(10 * time.Millisecond)
	w.lead, w.term, w.elected = heir.ID, w.term+1, w.now
	w.show(0)
	w.now = w.now.Add(2 * time.Second)
	if returns {
		w.show(0)
		return true
	}
	for i := range w.voters {
		p := &w.voters[i]
		if uint64(i+1) == old {
			*p = Silences{}
		} else if p.Due(w.now) == old {
			p.Judge(nil, w.now)
		}
	}
	w.show(0)
	return true
}
