package plan

import (
	"testing"
	"time"
)

// TestAlarms follows one voter, whose beat is a second, through a change of leader.
func TestAlarms(t *testing.T) {
	type look struct {
		after, silence time.Duration // in beats
		lead, term     uint64
	}
	changes := func(looks ...look) []look { return append([]look{{lead: 1, term: 5}}, looks...) }
	deposes := changes(look{6, 6, 1, 5}, look{1, 0, 0, 6}, look{1, 0, 3, 6})
	for _, c := range []struct {
		name   string
		looks  []look
		answer *Standing
		asks   bool
		want   int // 1 before
	}{
		{"it was pausing", deposes, &Standing{End: LogEnd{6, 1}}, true, 2},
		{"it is lost", deposes, nil, true, 0},
		{"its disk hangs", deposes, &Standing{End: LogEnd{5, 1}}, true, 0},
		{"it is elected again", changes(look{6, 6, 1, 5}, look{1, 0, 1, 6}), &Standing{End: LogEnd{6, 1}}, true, 2},
		{"it hands over", changes(look{1, 1, 1, 5}, look{1, 0, 0, 6}, look{1, 0, 3, 6}), nil, false, 1},
		{"it is heard again, and hands over", changes(look{6, 6, 1, 5}, look{1, 0, 1, 5}, look{1, 0, 3, 6}), nil, false, 1},
		{"raft's own timer deposes it", changes(look{6, 6, 1, 5}, look{11, 0, 3, 6}), nil, false, 1},
		{"this voter's own disk hangs", changes(look{0, 0, 2, 6}, look{6, 6, 2, 6}, look{1, 0, 3, 7}), nil, false, 1},
	} {
		now, a := time.Unix(0, 0), FalseAlarms{Count: 1, last: time.Unix(0, 0)}
		for _, l := range c.looks {
			now = now.Add(l.after * time.Second)
			a.Watch(Standing{ID: 2, Lead: l.lead, Term: l.term, Silence: l.silence * time.Second, Beat: time.Second}, now)
		}
		if id := a.Due(time.Unix(16, 0)); id != 0 {
			t.Errorf("alarms: %s: asks %d too early", c.name, id)
		}
		if id := a.Due(time.Unix(17, 0)); (id == 1) != c.asks {
			t.Errorf("alarms: %s: asks %d", c.name, id)
		}
		if c.asks {
			a.Judge(c.answer, now)
		}
		if a.Count != c.want || a.Due(time.Unix(18, 0)) != 0 {
			t.Errorf("alarms: %s: counts %d, want %d", c.name, a.Count, c.want)
		}
	}
}

// In an hour in which leaders pause all the time, for less than raft's own timers allow, few are deposed. After one was
// lost, or after a long calm, the next is deposed as early as the first.
func TestAlarmsOfAnHour(t *testing.T) {
	w := &pausing{now: time.Unix(0, 0), lead: 1, term: 5, voters: [3]FalseAlarms{}}
	w.show(0)
	deposes := func(calm time.Duration, returns, want bool) {
		t.Helper()
		if got := w.pause(calm, returns); got != want {
			t.Errorf("alarms: after %s: deposed %t, want %t; %+v", calm, got, want, w.voters)
		}
	}
	const calm, longer = 84 * time.Second / 10, 16 * 84 * time.Second / 10
	deposes(calm, true, true)
	deposes(calm, true, false)
	deposes(longer-calm, false, true)
	deposes(calm, true, true)
	count := 0
	for begin := w.now; w.now.Sub(begin) < time.Hour; {
		if w.pause(5*time.Second, true) {
			count++
		}
	}
	if count != 2 {
		t.Errorf("alarms: an hour of pauses deposed %d leaders, want 2", count)
	}
	deposes(2*time.Hour, true, true)
	deposes(longer, true, true)
}

// pausing is three voters whose leaders pause for less than raft's own timers allow. The beat is 100 ms.
type pausing struct {
	now, elected time.Time
	lead, term   uint64
	voters       [3]FalseAlarms
}

// show lets all voters look at a leader that has been silent.
func (w *pausing) show(silence time.Duration) (standings [3]Standing) {
	for i := range w.voters {
		a := &w.voters[i]
		s := Standing{Running: true, Voter: true, Able: true, ID: uint64(i + 1), Term: w.term, Lead: w.lead, Settled: true,
			Voters: []uint64{1, 2, 3}, Near: []uint64{1, 2, 3}, Silence: silence, Beat: 100 * time.Millisecond}
		if !w.elected.IsZero() {
			s.Elected = w.now.Sub(w.elected)
		}
		a.Watch(s, w.now)
		if id := a.Due(w.now); id != 0 {
			a.Judge(&Standing{End: LogEnd{Term: w.term}}, w.now)
		}
		s.FalseAlarms = a.Count
		standings[i] = s
	}
	return standings
}

// pause lets the leader pause after some time, and reports whether the others depose it. If it does not return, its
// process starts again later, and has forgotten its alarms.
func (w *pausing) pause(after time.Duration, returns bool) (deposed bool) {
	w.now = w.now.Add(after)
	saw := w.show(600 * time.Millisecond)
	old := w.lead
	heir, other := saw[old%3], saw[(old+1)%3]
	for _, s := range []*Standing{&heir, &other} { // each hears of the other's alarms
		w.voters[s.ID-1].Hear(max(heir.FalseAlarms, other.FalseAlarms), w.now)
	}
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
		a := &w.voters[i]
		if uint64(i+1) == old {
			*a = FalseAlarms{}
		} else if a.Due(w.now) == old {
			a.Judge(nil, w.now)
		}
	}
	w.show(0)
	return true
}
