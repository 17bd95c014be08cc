package snapshot

import "time"

// Status is the status of a Keeper.
type Status struct {
	// Leading is whether this node leads, so that the schedule runs here.
	Leading bool
	// Holdings are what the main store has, as far as this node knows. Every node reads the store once a minute.
	Holdings
	// Most is the backup of this cluster that held most, by generation and revision, of all that this process has seen in
	// the store. If the store no longer has it, Doubt says so. Its Name is empty before one was seen.
	Most Meta
	// Asked is when the store last provided all this, or zero. StoreError is why it did not answer the last time, or "".
	Asked      time.Time
	StoreError string
	// Due is when the next attempt is made, or zero if the schedule is off or runs on another node. If an attempt is due
	// at once or in progress, Due is not in the future.
	Due time.Time
	// Overdue says that this node leads, and that the last verified backup is older than two intervals.
	Overdue bool
	// Saving is since when this node has been saving a backup, or zero.
	Saving time.Time
	// Spooled are the backups in this node's spool that are newer than Newest: they wait to be uploaded.
	Spooled []string

	// LastError is the error of the last attempt, "" if it succeeded.
	LastError string
	// Failures counts the failed attempts since the last success, while this node leads.
	Failures int

	Drill DrillStatus
	// Prune is the last pruning since this node leads.
	Prune PruneStatus
}

// DrillStatus is the part of a Status about restore drills.
type DrillStatus struct {
	// Last is the last drill of the newest backup that this node knows of, with an empty Name if it knows none. While the
	// node does not lead, it may be outdated.
	Last Drill
	// Running is the backup that is being drilled, or "".
	Running string
	// Due is when the next drill is made, or zero if none is planned or there is nothing to drill yet.
	Due time.Time
	// Off says why the schedule makes no drills, or is "".
	Off string
	// Error says why the last drill could not be tried, or its result not be stored, or is "". The result is in Last.
	Error string
}

// PruneStatus is the part of a Status about pruning.
type PruneStatus struct {
	// Last is when this node last pruned the store, or zero.
	Last time.Time
	// Refused is how many backups the store failed to delete the last time. Kept has a few of them: the reasons by name.
	Refused int
	Kept    map[string]string
	// Error is the store's error of the last time, or "".
	Error string
}

// Status returns the status of the keeper.
func (k *Keeper) Status() Status {
	leads, id := k.source.Leader(), k.source.Identity() // the loop only asks once a second
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	st := s.told
	st.Leading = leads
	st.Drill = k.drills.status()
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
	if !s.leads(id) {
		leading = now
	}
	best := *s
	best.known = true // the loop asks the store before it acts; until then the last answer is the best information
	if st.Due = best.due(k.schedule, id, now); st.Due.IsZero() {
		st.Due = leading
	}
	made := s.made(id)
	since := made.Created
	if !s.known || made.Name == "" { // then the time since this node leads counts
		since = leading
	}
	st.Overdue = k.schedule.overdue(since, now)
	if prune := k.pruner.account(); !prune.Last.Before(leading) { // otherwise others have pruned since
		st.Prune = prune
	}
	return st
}
