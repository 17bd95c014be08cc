package coordinator

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

const (
	// compacted is how long after a compaction newly deleted data waits for the next one. Meanwhile the members may
	// defragment, even if the deletions continue.
	compacted = 2 * time.Second
	// failedRest is the pause after a failed defragmentation; it doubles up to an hour.
	failedRest = time.Minute
	// doneRest is the pause after a successful one: if clients write and delete fast, the file would be half free again
	// and again.
	doneRest = time.Hour
)

// upkeep is what a member remembers about the upkeep of its database.
type upkeep struct {
	defragging atomic.Bool
	asking     atomic.Bool // for permission to defragment, or has it

	mu sync.Mutex

	judged    plan.Judgement
	short     bool      // less than the reserve is free on the volume
	spaceless bool      // NOSPACE is raised
	tried     bool      // defragmented since it was raised
	compacted time.Time // since it was raised, zero if not
	history   int64     // the revision up to which the history is compacted

	until  time.Time // rests until then, after a defragmentation
	failed int       // defragmentations, in a row

	growth growth
	done   health.UpkeepStatus
}

// tell adds what is remembered to an observation. It is called for each observation.
func (u *upkeep) tell(o *plan.Observation, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := &o.Member
	if !m.Running {
		u.judged, u.short = plan.Judgement{}, false
		return
	}
	u.short = o.Claim.Room.Short(u.short)
	o.Claim.Short = u.short
	if m.Compacted != u.history {
		u.history, u.compacted = m.Compacted, now
	}
	if m.Alarmed(plan.NoSpace) != u.spaceless { // earlier failures say nothing about what is possible now
		u.spaceless, u.tried, u.compacted, u.until, u.failed = m.Alarmed(plan.NoSpace), false, time.Time{}, time.Time{}, 0
	}
	u.judged = o.Config.Upkeep.Judge(u.judged, *m, u.tried)
	u.growth.add(now, m.Space.InUse)
	m.Judgement, m.Defragging = u.judged, u.defragging.Load()
	o.Compacted = now.Sub(u.compacted) < compacted
	if now.Before(u.until) {
		o.Resting = "the last one is less than an hour ago"
		if u.failed > 0 {
			o.Resting = "the last attempt failed, and the next one is made later"
		}
	}
}

// status is the current account of the upkeep.
func (u *upkeep) status() health.UpkeepStatus {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.done
	s.Judgement, s.Growth = u.judged, u.growth.perDay()
	return s
}

// asks reports whether this member asks for permission to defragment, or has it, or defragments.
func (u *upkeep) asks() bool { return u.asking.Load() || u.defragging.Load() }

// compact notes that the history was dropped.
func (u *upkeep) compact() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.compacted = time.Now()
}

// cure notes that NOSPACE was disarmed.
func (u *upkeep) cure() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done.Cures++
}

// defragmented records the result of a defragmentation of a database that had the size before. If as much could be
// gained as before, it has failed: it must not be repeated again and again.
func (u *upkeep) defragmented(m plan.Member, rules plan.Upkeep, before int64, took time.Duration, err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	last := health.DefragStatus{Time: time.Now(), Seconds: took.Seconds(), Before: before, After: m.Space.Size}
	if err == nil {
		u.tried = true
		u.judged = rules.Judge(plan.Judgement{}, m, true)
		// While NOSPACE is raised, more may have been deleted meanwhile.
		if u.judged.Fragmented && (!u.spaceless || last.After >= before) {
			err = fmt.Errorf("the database was defragmented and is as fragmented as before: %d MiB of %d MiB are in use",
				m.Space.InUse>>20, m.Space.Size>>20)
		}
	}
	if err != nil {
		u.done.Failures++
		again := last.Time.Add(min(failedRest<<min(u.failed, 6), time.Hour))
		u.until, u.failed = again, u.failed+1
		last.Error, last.Again = err.Error(), &again
	} else {
		u.done.Defrags++
		u.failed = 0
		if u.until = last.Time; !u.spaceless { // all clients wait for the end of NOSPACE
			u.until = last.Time.Add(doneRest)
		}
	}
	u.done.Last = &last
	return err
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

// perDay is the growth in bytes per day, nil until an hour is known.
func (g *growth) perDay() *int64 {
	if len(g.sizes) == 0 {
		return nil
	}
	first, last := g.sizes[0], g.sizes[len(g.sizes)-1]
	took := last.at.Sub(first.at)
	if took < time.Hour {
		return nil
	}
	return new(int64(float64(last.bytes-first.bytes) * float64(24*time.Hour) / float64(took)))
}
