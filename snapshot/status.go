package snapshot

import (
	"math"
	"time"
)

// Status is a Keeper's account of itself.
type Status struct {
	// Leading is whether the schedule runs here.
	Leading bool `json:"leading"`
	// Newest is the newest good backup in the main store this node knows of, by generation and revision, with an empty
	// Name if it knows none. Every node looks once a minute.
	Newest Meta `json:"newest"`
	// Count is how many good backups of the cluster the store holds.
	Count int `json:"count"`
	// Failed are those that a verify or a drill has found to be bad, the last one made first; Skipped are those of them
	// that would be newer than Newest.
	Failed  []Backup `json:"failed,omitempty"`
	Skipped []Backup `json:"skipped,omitempty"`
	// Asked is when the store told all that, zero if it never did, and StoreError why it did not when it was asked
	// last.
	Asked      time.Time `json:"asked,omitzero"`
	StoreError string    `json:"storeError,omitempty"`
	// Ratio is the size of Newest's database by what it takes in the store, 0 without one.
	Ratio float64 `json:"ratio,omitempty"`
	// RPOSeconds is what would be lost with the cluster: the age of the verified backup that was made last; 0, too, if
	// it knows none. That is Newest, unless a clock was wrong.
	RPOSeconds float64 `json:"rpoSeconds,omitempty"`
	// Due is when the next attempt is made, zero if none is or the store has not been asked yet.
	Due time.Time `json:"due,omitzero"`
	// Overdue says that this node leads, and that the verified backup that was made last is older than two intervals.
	Overdue bool `json:"overdue"`
	// Spooled are the backups in the spool of this node that are newer than Newest: they wait to be uploaded.
	Spooled []string `json:"spooled,omitempty"`

	// Attempted is the time of the last attempt, zero if there was none.
	Attempted time.Time `json:"attempted,omitzero"`
	// LastError is the error of the last attempt, "" if it succeeded, and Reason the kind of it.
	LastError string `json:"lastError"`
	Reason    string `json:"reason,omitempty"`
	// Failures counts the attempts that failed since the last one that did not, while this node leads.
	Failures int `json:"failures"`

	Drill DrillStatus `json:"drill"`
	Prune PruneStatus `json:"prune"`
}

// DrillStatus is the part of a Status that tells of restore drills.
type DrillStatus struct {
	// Last is the last drill of the newest backup this node knows of, with an empty Name if it knows none. While it
	// does not lead, that may be an old one.
	Last Drill `json:"last,omitzero"`
	// Running is the backup that is being drilled, "" for none.
	Running string `json:"running,omitempty"`
	// Due is when the next one is made, zero if none is or there is nothing to drill yet.
	Due time.Time `json:"due,omitzero"`
	// Off says why none are made by the schedule, "" if they are.
	Off string `json:"off,omitempty"`
	// Error says why the last one could not be tried, or its result not be stored, "" if all was well. What a drill
	// found is in Last.
	Error string `json:"error,omitempty"`
}

// PruneStatus is the part of a Status that tells of pruning.
type PruneStatus struct {
	// Last is when this node last pruned the store, zero if it did not.
	Last time.Time `json:"last,omitzero"`
	// Removed counts the backups it removed since it started.
	Removed int `json:"removed"`
	// Kept are the backups the store did not let go the last time, with the reason by name.
	Kept map[string]string `json:"kept,omitempty"`
	// Error is the store's of the last time, "" if there was none.
	Error string `json:"error,omitempty"`
}

// Status returns the keeper's account of itself.
func (k *Keeper) Status() Status {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	st := Status{
		Leading: !s.leading.IsZero(),
		Newest:  s.holds.newest,
		Count:   s.holds.count,
		Failed:  s.holds.failed,
		Skipped: s.holds.skipped,
		Asked:   s.asked, StoreError: s.storeError,
		Ratio:     ratio(s.holds.newest),
		Spooled:   s.spooled,
		Attempted: s.attempted,
		LastError: s.lastError,
		Reason:    s.reason,
		Failures:  s.failures,
		Drill:     k.drills.status(),
		Prune:     k.pruner.account(),
	}
	st.Drill.Off = k.cfg.NoDrill()
	if age := rpo(s.holds.made, now); !math.IsInf(age, 0) {
		st.RPOSeconds = age
	}
	if !st.Leading {
		return st
	}
	if at, ok := k.drillAt(now); ok {
		st.Drill.Due = at
	}
	if k.schedule.off() {
		return st
	}
	if s.known || s.failures > 0 {
		st.Due = s.due(k.schedule, now)
	}
	since := s.holds.made.Created
	if !s.known || s.holds.made.Name == "" { // then the time since we lead is what counts against us
		since = s.leading
	}
	st.Overdue = k.schedule.overdue(since, now)
	return st
}
