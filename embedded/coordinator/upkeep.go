package coordinator

import (
	"slices"
	"time"

	"holdfast/embedded/plan"
)

const (
	// settled is how long after an election or a word it takes at most until the gossip tells who defragments: so long
	// does a leader wait with its first word, and so long does a word last.
	settled = 10 * time.Second
	// leastRest is the pause after a step against NOSPACE, doubled with each until mostRest, and begun anew when there
	// was none for an hour. failedRest is that after a failure, doubled until an hour.
	leastRest, mostRest = 2 * time.Second, time.Minute
	failedRest          = time.Minute
)

// upkeep is what a member remembers of the care for its database. The coordinator's mu guards it.
type upkeep struct {
	judged     plan.Judgement
	spaceless  bool      // NOSPACE is up
	tried      bool      // defragmented since it came up
	compacted  bool      // by us, since it came up
	leads      time.Time // since when, zero if it does not
	defragging bool
	turn       string // the slot that has our word
	given      time.Time

	rest   time.Duration // the last one
	until  time.Time
	why    string // of the rest
	failed int    // defragmentations, in a row

	growth growth
	done   UpkeepStatus
}

// UpkeepStatus is the account of a node's care for its database. Sizes are bytes.
type UpkeepStatus struct {
	Fragmented bool `json:"fragmented,omitempty"` // worth a defragmentation
	Full       bool `json:"full,omitempty"`       // at or above the watermark, upkeep.full-percent of the quota
	// Growth is by how much the live data grows in a day, as it did in the last day; nil until an hour is known.
	Growth   *int64        `json:"growth_per_day,omitempty"`
	Defrags  int           `json:"defragmentations,omitempty"` // since this process began
	Failures int           `json:"failures,omitempty"`         // that failed
	Last     *DefragStatus `json:"last,omitempty"`
	Cures    int           `json:"cures,omitempty"` // that NOSPACE was disarmed by this member
}

// DefragStatus is one defragmentation.
type DefragStatus struct {
	Time    time.Time  `json:"time"` // of its end
	Seconds float64    `json:"seconds"`
	Before  int64      `json:"before"`
	After   int64      `json:"after"`
	Error   string     `json:"error,omitempty"`
	Again   *time.Time `json:"again,omitempty"` // not before this time, after a failure
}

// known adds to an observation what is remembered. It is called with each observation.
func (u *upkeep) known(o *plan.Observation, now time.Time) {
	m := &o.Member
	if !m.Running {
		u.judged, u.leads, u.turn = plan.Judgement{}, time.Time{}, ""
		return
	}
	if spaceless := slices.Contains(m.Alarms, plan.NoSpace); spaceless != u.spaceless {
		u.spaceless, u.tried, u.compacted = spaceless, false, false
	}
	switch {
	case !m.Leader:
		u.leads, u.turn = time.Time{}, ""
	case u.leads.IsZero():
		u.leads = now
	}
	o.Turn = u.turn
	if now.Sub(u.given) >= settled || o.Served() {
		u.turn, o.Turn = "", ""
	}
	u.judged = o.Config.Upkeep.Judge(u.judged, *m, u.tried)
	u.growth.add(now, m.Space.InUse)
	m.Judgement, m.Defragging = u.judged, u.defragging
	o.Settled, o.Compacted = !u.leads.IsZero() && now.Sub(u.leads) >= settled, u.compacted
	if now.Before(u.until) {
		o.Resting = u.why
	}
}

// status is the account as of now.
func (u *upkeep) status() UpkeepStatus {
	s := u.done
	s.Fragmented, s.Full, s.Growth = u.judged.Fragmented, u.judged.Full, u.growth.perDay()
	return s
}

// pause makes the care rest after a step that went well. Most steps bring about what keeps them from being repeated;
// the pause is for those that do not.
func (u *upkeep) pause(now time.Time) {
	if now.Sub(u.until) > time.Hour {
		u.rest = 0
	}
	u.rest = min(max(2*u.rest, leastRest), mostRest)
	u.until, u.why = now.Add(u.rest), "a moment's rest after the last step"
}

// fail makes the care rest after a defragmentation that failed, or was of no use.
func (u *upkeep) fail(now time.Time) time.Time {
	u.failed++
	rest := min(failedRest<<min(u.failed-1, 6), time.Hour)
	u.until, u.why = now.Add(rest), "the last attempt failed, and the next one is made later"
	return u.until
}

// growth remembers the size of the live data for a day.
type growth struct {
	sizes []sized // the oldest first
}

type sized struct {
	at    time.Time
	bytes int64
}

const (
	sampleAge = 10 * time.Minute // between two samples
	sampled   = 24 * time.Hour
)

func (g *growth) add(now time.Time, bytes int64) {
	if n := len(g.sizes); n > 0 && now.Sub(g.sizes[n-1].at) < sampleAge {
		return
	}
	for len(g.sizes) > 0 && now.Sub(g.sizes[0].at) > sampled {
		g.sizes = g.sizes[1:]
	}
	g.sizes = append(slices.Clone(g.sizes), sized{now, bytes})
}

// perDay is nil until an hour is known.
func (g *growth) perDay() *int64 {
	if len(g.sizes) == 0 {
		return nil
	}
	first, last := g.sizes[0], g.sizes[len(g.sizes)-1]
	took := last.at.Sub(first.at)
	if took < time.Hour {
		return nil
	}
	n := int64(float64(last.bytes-first.bytes) * float64(24*time.Hour) / float64(took))
	return &n
}
