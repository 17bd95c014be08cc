package snapshot

import "time"

// Status is a Keeper's account of itself.
type Status struct {
	// Leading is whether this node leads, so that the schedule runs here.
	Leading bool
	// Newest is the newest good backup in the main store this node knows of, by generation and revision, with an empty
	// Name if it knows none. Every node looks once a minute.
	Newest Meta
	// Count is how many good backups of the cluster the store holds.
	Count int
	// Failed are those that a verify or a drill has found to be bad, the last one made first; Skipped are those of them
	// that would be newer than Newest.
	Failed  []Backup
	Skipped []Backup
	// Asked is when the store told all that, zero if it never did, and StoreError why it did not when it was asked
	// last.
	Asked      time.Time
	StoreError string
	// Due is when the next attempt is made, zero if the schedule is off or runs elsewhere; an attempt that is due at once,
	// or under way, has a time that is not in the future.
	Due time.Time
	// Overdue says that this node leads, and that the verified backup that was made last is older than two intervals.
	Overdue bool
	// Saving is since when this node has been saving a backup, zero if it is not.
	Saving time.Time
	// Spooled are the backups in the spool of this node that are newer than Newest: they wait to be uploaded.
	Spooled []string

	// LastError is the error of the last attempt, "" if it succeeded.
	LastError string
	// Failures counts the attempts that failed since the last one that did not, while this node leads.
	Failures int

	Drill DrillStatus
	Prune PruneStatus
}

// DrillStatus is the part of a Status that tells of restore drills.
type DrillStatus struct {
	// Last is the last drill of the newest backup this node knows of, with an empty Name if it knows none. While it
	// does not lead, that may be an old one.
	Last Drill
	// Running is the backup that is being drilled, "" for none.
	Running string
	// Due is when the next one is made, zero if none is or there is nothing to drill yet.
	Due time.Time
	// Off says why none are made by the schedule, "" if they are.
	Off string
	// Error says why the last one could not be tried, or its result not be stored, "" if all was well. What a drill
	// found is in Last.
	Error string
}

// PruneStatus is the part of a Status that tells of pruning.
type PruneStatus struct {
	// Last is when this node last pruned the store, zero if it did not.
	Last time.Time
	// Kept are the backups the store did not let go the last time, with the reason by name.
	Kept map[string]string
	// Error is the store's of the last time, "" if there was none.
	Error string
}

// Status returns the keeper's account of itself.
func (k *Keeper) Status() Status {
	leads := k.source.Leader() // the loop looks once a second only
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	st := Status{
		Leading: leads,
		Newest:  s.holds.newest,
		Count:   s.holds.count,
		Failed:  s.holds.failed,
		Skipped: s.holds.skipped,
		Asked:   s.asked, StoreError: s.storeError,
		Saving:    s.saving,
		Spooled:   s.spooled,
		LastError: s.lastError,
		Failures:  s.failures,
		Drill:     k.drills.status(),
		Prune:     k.pruner.account(),
	}
	st.Drill.Off = k.cfg.NoDrill()
	if !st.Leading {
		return st
	}
	if at, ok := k.drillAt(now); ok {
		st.Drill.Due = at
	}
	if k.schedule.off() {
		return st
	}
	leading := s.leading
	if leading.IsZero() {
		leading = now
	}
	told := *s
	told.known = true // the loop asks the store before it acts; until then what was heard last is the best there is
	if st.Due = told.due(k.schedule, now); st.Due.IsZero() {
		st.Due = leading
	}
	since := s.holds.made.Created
	if !s.known || s.holds.made.Name == "" { // then the time since we lead is what counts against us
		since = leading
	}
	st.Overdue = k.schedule.overdue(since, now)
	return st
}
