package coordinator

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"holdfast/embedded/plan"
)

// restoring is what this node knows of restores and recoveries beside the ledger and the store. The coordinator's mu guards it.
type restoring struct {
	built   string // ID of the proposal whose directory lies on the volume
	unable  unable
	refused map[string]refusal // requests that could not be carried out
	heard   map[string]bool    // what others spoke of, and the store was asked for
	unsaved string             // why no backup was made before the last change
	retry   time.Time          // when a backup is tried again before a change
	open    *plan.Restore      // the proposal that was open when the store answered last
}

// unable is why a proposal could not be prepared here.
type unable struct{ id, why string }

// refusal is why a request could not be carried out, and when it is tried again.
type refusal struct {
	why   string
	until time.Time
	wait  time.Duration
}

const (
	firstRefusal = time.Minute
	maxRefusal   = time.Hour
)

// refuse remembers that a request could not be carried out.
func (c *Coordinator) refuse(q plan.Request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := q.Command + " " + q.Backup
	wait := firstRefusal
	if old, ok := c.restoring.refused[key]; ok {
		wait = min(2*old.wait, maxRefusal)
	}
	c.restoring.refused[key] = refusal{err.Error(), time.Now().Add(wait), wait}
}

// known completes what the store says with what is known here. The caller holds the lock.
func (r *restoring) known(o *plan.Observation) {
	p, l := o.Store.Restore, o.Disk.Ledger
	entered := l.Record != nil && l.Role == plan.RoleFounder && l.Started == "" // and has to prepare, or to join instead
	if r.unable.id != "" && (p != nil && r.unable.id == p.ID || entered && r.unable.id == l.Record.ID) {
		o.Unable = r.unable.why
	}
	o.Disk.Built = r.built
	o.Store.Requests = slices.Clone(o.Store.Requests)
	for i, q := range o.Store.Requests {
		if f, ok := r.refused[q.Command+" "+q.Backup]; ok && q.Problem == "" && time.Now().Before(f.until) {
			o.Store.Requests[i].Problem = f.why
		}
	}
}

func (c *Coordinator) built(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restoring.built = id
}

// progress notes how far the action under way has come, for the status.
func (c *Coordinator) progress(p Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Progress = p
}

// AskStore has the store asked at once instead of within ten seconds.
func (c *Coordinator) AskStore() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// wonder has the store asked at once when another node knows of a proposal or a record that it has not told us of.
func (c *Coordinator) wonder(o plan.Observation) {
	var ours []string
	if r := o.Store.Restore; r != nil {
		ours = append(ours, r.ID)
	}
	for _, r := range []*plan.Record{o.Store.Record, o.Disk.Ledger.Record} {
		if r != nil {
			ours = append(append(ours, r.ID), r.Line...)
		}
	}
	for _, p := range o.Peers {
		if p.Facts == nil {
			continue
		}
		theirs := []string{p.Facts.Restore, p.Facts.Prepared}
		if p.Facts.Record != nil {
			theirs = append(theirs, p.Facts.Record.ID)
		}
		for _, id := range theirs {
			if id != "" && !slices.Contains(ours, id) && c.unheard(id) {
				c.AskStore()
			}
		}
	}
}

func (c *Coordinator) unheard(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.restoring.heard[id]
	c.restoring.heard[id] = true
	return first
}

// overtaken reports whether an action that takes long, with a backup, is no longer the one to do. A store that does
// not answer for the moment has not changed its mind.
func overtaken(o plan.Observation, doing plan.Action) bool {
	a := plan.Next(o)
	switch {
	case a.Kind == plan.Wait && o.Store.Unknown != "":
		return false
	case doing.Kind == plan.Prepare:
		return a.Kind != plan.Prepare || a.Restore.ID != doing.Restore.ID
	case doing.Kind == plan.Propose:
		return a.Kind != plan.Propose || !reflect.DeepEqual(a.Request, doing.Request)
	}
	return false
}

// RestoreStatus is how far a node is with a restore or a recovery that is under way.
type RestoreStatus struct {
	Title      string `json:"title"`            // restore of …, or recovery from …
	Backup     string `json:"backup,omitempty"` // of a restore
	Generation uint64 `json:"generation"`
	Attempt    int    `json:"attempt"`
	By         string `json:"by"`
	State      string `json:"state"`           // one of the states of a restore
	Phase      string `json:"phase,omitempty"` // while preparing
	Done       int64  `json:"done,omitempty"`  // bytes of the database, of Total
	Total      int64  `json:"total,omitempty"`
	Error      string `json:"error,omitempty"` // why it could not be prepared
}

// The states of a restore or a recovery on one node.
const (
	RestoreWaiting   = "waiting" // nothing has begun here
	RestorePreparing = "preparing"
	RestorePrepared  = "prepared"
	RestoreUnable    = "unable"   // to prepare it at present; it is tried again
	RestoreSwapping  = "swapping" // past the point of no return
)

// Restoring tells how far this node is with a restore, nil when none is under way.
func (s Situation) Restoring() *RestoreStatus {
	o := s.Observation
	l := o.Disk.Ledger
	r, prepared := o.Store.Restore, l.Prepared
	if r == nil {
		r = prepared
	}
	if r == nil && l.Record != nil && l.Role == plan.RoleFounder && l.Started == "" {
		r = l.Record.Restore
	}
	if r == nil {
		return nil
	}
	st := &RestoreStatus{Title: r.Title(), Backup: r.Backup, Generation: r.Generation, Attempt: r.Attempt, By: r.By, State: RestoreWaiting}
	entered := l.Record != nil && l.Record.ID == r.ID
	switch done := prepared != nil && prepared.ID == r.ID; {
	case done && !entered:
		st.State = RestorePrepared
	case !done && s.Busy && s.Action.Kind == plan.Prepare:
		st.State, st.Phase, st.Done, st.Total = RestorePreparing, s.Progress.Phase, s.Progress.Done, s.Progress.Total
	case !done && o.Unable != "":
		st.State, st.Error = RestoreUnable, o.Unable
	case entered:
		st.State = RestoreSwapping
	}
	return st
}

// text says it in a sentence.
func (r RestoreStatus) text() string {
	text := fmt.Sprintf("a %s as generation %d is under way: %s", r.Title, r.Generation, r.State)
	switch {
	case r.Phase != "" && r.Total > 0:
		text += fmt.Sprintf(", %s, %d %%", r.Phase, 100*r.Done/r.Total)
	case r.Error != "":
		text += ": " + r.Error
	}
	return text
}

// Problems are what is wrong with restores, recoveries and the backups before them, beside the action.
func (s Situation) Problems() []string {
	var all []string
	if s.Unsaved != "" {
		all = append(all, s.Unsaved)
	}
	o := s.Observation
	if p, r := s.Open, o.Disk.Ledger.Record; p != nil && o.Store.Unknown != "" && (r == nil || r.Generation < p.Generation) {
		all = append(all, fmt.Sprintf("the backup store does not answer (%s), and when it last did, a %s as generation %d, proposed by %s, was under way: it goes on as soon as the store is back, unless `holdfast restore --abort` comes first",
			o.Store.Unknown, p.Title(), p.Generation, p.By))
	}
	if o.Member.Leader || !o.Member.Running {
		for _, q := range o.Store.Requests {
			if q.Problem != "" {
				all = append(all, fmt.Sprintf("the restore that %s asks for is not carried out: %s", q.By, q.Problem))
			}
		}
	}
	return all
}
