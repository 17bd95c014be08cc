package plan

import "time"

const (
	// verdictBeats after the last heartbeat, raft's own timers have elected a leader in any case: two election timeouts.
	verdictBeats = 17
	// Up to mostAlarms, each false alarm in a row multiplies the calm time by alarmFactor.
	alarmFactor = 16
	mostAlarms  = 2
	longestCalm = calmBeats * alarmFactor * alarmFactor
)

// FalseAlarms counts false alarms: leaders that were replaced because they were silent, and were back before raft's own
// timers would have elected for certain. Where leaders only pause, fewer of them are deposed early. It reads no clock.
type FalseAlarms struct {
	Count int // false alarms in a row

	lead, term uint64    // the leader that raft showed last
	quiet      time.Time // its last heartbeat; zero while heartbeats come
	last       time.Time // the last false alarm
	deposed    uint64    // a leader that awaits the verdict, or 0
	since      uint64    // the term in which it was replaced
	due        time.Time // when to judge
}

// Watch notes which leader raft shows now, and whether its heartbeats are late. A leader knows nothing of its own.
func (a *FalseAlarms) Watch(s Standing, now time.Time) {
	if now.Sub(a.last) >= 2*longestCalm*s.Beat {
		a.Count = 0
	}
	switch {
	case s.Lead == 0: // an election
	case s.Lead != a.lead || s.Term != a.term:
		if due := a.quiet.Add(verdictBeats * s.Beat); now.Before(due) {
			a.deposed, a.since, a.due = a.lead, s.Term, due
		}
		a.lead, a.term, a.quiet = s.Lead, s.Term, time.Time{}
	case s.Lead != s.ID && s.Late():
		a.quiet = now.Add(-s.Silence)
	default:
		a.quiet = time.Time{}
	}
}

// Hear takes over what another voter says, if that is more.
func (a *FalseAlarms) Hear(count int, now time.Time) {
	if count > a.Count {
		a.Count, a.last = count, now
	}
}

// Due returns the deposed leader to ask now, or 0.
func (a *FalseAlarms) Due(now time.Time) uint64 {
	if now.Before(a.due) {
		return 0
	}
	return a.deposed
}

// Judge takes the deposed leader's answer, nil if there was none. It is back if its disk has written what the next
// leader began with.
func (a *FalseAlarms) Judge(answer *Standing, now time.Time) {
	a.deposed = 0
	if answer == nil || answer.End.Term < a.since {
		a.Count = 0
		return
	}
	a.Count, a.last = a.Count+1, now
}

// calm is how many beats after an election no leader is deposed for what may be a pause.
func (s Standing) calm() time.Duration {
	beats := time.Duration(calmBeats)
	for range min(s.FalseAlarms, mostAlarms) {
		beats *= alarmFactor
	}
	return beats
}
