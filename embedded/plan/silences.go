package plan

import "time"

const (
	// verdictBeats after the last heartbeat, raft's own timers have elected a leader in any case: two election timeouts.
	verdictBeats = 17
	// patienceFactor times the longest pause so far is long enough to depose a leader.
	patienceFactor = 2
	// A pause is remembered for rememberBeats: an hour in defaults.
	rememberBeats = 30_000
)

// Silences remembers the longest time for which a leader was silent and came back. Where leaders pause, they are
// deposed later. It reads no clock.
type Silences struct {
	Longest time.Duration
	at      time.Time // when it was over

	lead, term uint64        // the leader that raft showed last
	silence    time.Duration // how long it has been silent, 0 while heartbeats come
	last       time.Time     // its last heartbeat, if it is silent
	deposed    uint64        // a leader that was silent when it was replaced, and awaits the verdict; or 0
	lasted     time.Duration // how long it was silent
	since      uint64        // the term in which it was replaced
	due        time.Time     // when to judge
}

// Watch notes which leader raft shows now, and for how long nothing has come from it. A leader knows nothing of its own
// pauses.
func (p *Silences) Watch(s Standing, now time.Time) {
	if now.Sub(p.at) >= rememberBeats*s.Beat {
		p.Longest = 0
	}
	switch {
	case s.Lead == 0: // an election
	case s.Lead != p.lead || s.Term != p.term:
		if p.silence > 0 {
			p.deposed, p.lasted, p.since, p.due = p.lead, p.silence, s.Term, p.last.Add(verdictBeats*s.Beat)
		}
		p.lead, p.term, p.silence = s.Lead, s.Term, 0
	case s.Lead != s.ID && s.Late():
		p.silence, p.last = s.Silence, now.Add(-s.Silence)
	case p.silence > 0:
		p.note(p.silence, now)
		p.silence = 0
	}
}

func (p *Silences) note(pause time.Duration, now time.Time) {
	if pause >= p.Longest {
		p.Longest, p.at = pause, now
	}
}

// Due returns the deposed leader to ask now, or 0.
func (p *Silences) Due(now time.Time) uint64 {
	if now.Before(p.due) {
		return 0
	}
	return p.deposed
}

// Judge takes the deposed leader's answer, nil if there was none. It has only paused if its disk has written what the
// next leader began with.
func (p *Silences) Judge(answer *Standing, now time.Time) {
	if p.deposed = 0; answer != nil && answer.End.Term >= p.since {
		p.note(p.lasted, now)
	}
}

// patience is how long a leader must be silent before it may be deposed.
func (s Standing) patience() time.Duration { return max(silentBeats*s.Beat, patienceFactor*s.Longest) }
