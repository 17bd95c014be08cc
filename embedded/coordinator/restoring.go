package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// restoring is what this node knows about restores and recoveries, besides the ledger and the store.
type restoring struct {
	mu        sync.Mutex
	unable    unable
	refused   map[string]refusal // requests that could not be carried out
	dismissed []dismissal
}

// unable is why a proposal could not be prepared here.
type unable struct{ id, why string }

// refusal is why a request could not be carried out, and when it will be tried again.
type refusal struct {
	why   string
	until time.Time
	wait  time.Duration
	over  bool // it will never be tried again
}

// dismissal is a deleted command, which is shown for a while.
type dismissal struct {
	command, text string
	at            time.Time
}

const (
	firstRefusal = time.Minute
	maxRefusal   = time.Hour
	// showDismissed is how long a status shows a deleted command; the history shows it for longer.
	showDismissed = time.Hour
)

// refuse remembers that a request could not be carried out.
func (r *restoring) refuse(q plan.Request, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := q.Command + " " + q.Backup
	wait := firstRefusal
	if old, ok := r.refused[key]; ok {
		wait = min(2*old.wait, maxRefusal)
	}
	r.refused[key] = refusal{err.Error(), time.Now().Add(wait), wait, errors.Is(err, ErrUseless)}
}

// dismiss notes that the command of a request was deleted.
func (r *restoring) dismiss(q plan.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.refused, q.Command+" "+q.Backup)
	r.dismissed = append(r.dismissed, dismissal{q.Command,
		fmt.Sprintf("the restore of %s that %s asked for was not carried out, and the command was deleted: %s", q.Backup,
			q.By, q.Problem), time.Now()})
}

// prepared notes whether a proposal could be prepared.
func (r *restoring) prepared(id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unable = unable{}
	if err != nil {
		r.unable = unable{id, err.Error()}
	}
}

// recentlyDismissed returns the dismissals that are still shown.
func (r *restoring) recentlyDismissed() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dismissed = slices.DeleteFunc(r.dismissed, func(d dismissal) bool { return time.Since(d.at) > showDismissed })
	for _, d := range r.dismissed {
		all = append(all, d.text)
	}
	return all
}

// tell completes the store's answer with what is known here.
func (r *restoring) tell(o *plan.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, l := o.Store.Restore, o.Disk.Ledger
	entered := l.Record != nil && l.Role == plan.RoleFounder && l.Started == "" // and has to prepare, or to join instead
	if r.unable.id != "" && (p != nil && r.unable.id == p.ID || entered && r.unable.id == l.Record.ID) {
		o.Unable = r.unable.why
	}
	// The last look at the store may be older than a dismissal.
	o.Store.Requests = slices.DeleteFunc(slices.Clone(o.Store.Requests), func(q plan.Request) bool {
		return slices.ContainsFunc(r.dismissed, func(d dismissal) bool { return d.command == q.Command })
	})
	for i, q := range o.Store.Requests {
		f, ok := r.refused[q.Command+" "+q.Backup]
		switch at := &o.Store.Requests[i]; {
		case !ok:
		case q.Over:
			at.Problem += "; at the last attempt: " + f.why
		case q.Problem == "" && (f.over || time.Now().Before(f.until)):
			at.Problem, at.Over = f.why, f.over
		}
	}
}

// Restoring returns how far this node is with a restore, nil if none is in progress.
func (s Situation) Restoring() *health.RestoreStatus {
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
	st := &health.RestoreStatus{ID: r.ID, Title: r.Title(), Backup: r.Backup, Generation: r.Generation, Attempt: r.Attempt,
		By: r.By, State: health.RestoreWaiting}
	if l.Left != nil && l.Left.Proposal == r.ID {
		st.Left = true
	} else if o.Store.Restore != nil {
		st.Objecting, st.Leaves = s.Objecting.Seconds(), s.Objecting > 0 && o.Disk.WAL
	}
	entered := l.Record != nil && l.Record.ID == r.ID
	switch done := prepared != nil && prepared.ID == r.ID; {
	case done && !entered:
		st.State = health.RestorePrepared
	case !done && o.Unable != "":
		st.State, st.Error = health.RestoreUnable, o.Unable
	case !done && s.preparing():
		st.State = health.RestorePreparing
	case entered:
		st.State = health.RestoreSwapping
	case !done && unconfirmed(o, *r):
		st.State = health.RestoreUnconfirmed
	}
	if s.preparing() {
		st.Phase, st.Done, st.Total = s.Progress.Phase, s.Progress.Done, s.Progress.Total
	}
	return st
}

// preparing reports whether the node is preparing a restore or a recovery.
func (s Situation) preparing() bool { return s.Busy && s.Action.Kind == plan.Prepare }

// unconfirmed reports whether a proposal waits for an operator's confirmation, as far as this node knows (R16).
func unconfirmed(o plan.Observation, r plan.Restore) bool {
	heard := func(p plan.Peer) bool { return p.Live && p.Facts != nil && p.Facts.Consent == r.ID }
	c := o.Member.Consent
	return r.Led != nil && (c == nil || c.Proposal != r.ID) && !slices.ContainsFunc(o.Peers, heard)
}

// Findings are the problems with restores, recoveries and the backups before them, and what contradicts this node's
// generation, besides the action.
func (s Situation) Findings() []health.Finding {
	var all []health.Finding
	add := func(code health.Code, format string, args ...any) {
		all = append(all, health.New(code, "", format, args...))
	}
	for _, text := range s.Bugs {
		add(health.Bug, "%s", text)
	}
	if s.Unsaved != "" {
		add(health.BackupUnmade, "%s", s.Unsaved)
	}
	o := s.Observation
	if o.Store.Unread {
		add(health.StoreUnread, "what the backup store says of generations does not count: %s", o.Store.Unknown)
	}
	for _, p := range o.Peers {
		if p.Live && p.Unread != "" {
			add(health.PeerUnread, "what node %s says does not count here, and nothing is taken for granted of it: %s", p.Node,
				p.Unread)
		}
	}
	for _, text := range s.Conflicts {
		add(health.Conflict, "%s", text)
	}
	if p, r := s.Open, o.Disk.Ledger.Record; p != nil && o.Store.Unknown != "" &&
		(r == nil || r.Generation < p.Generation) {
		add(health.RestoreOpen,
			"the backup store does not answer (%s), and when it last did, a %s as generation %d, proposed by %s, was under "+
				"way: it continues as soon as the store is back, unless `holdfast restore --abort` comes first",
			o.Store.Unknown, p.Title(), p.Generation, p.By)
	}
	if o.Member.Leader || !o.Member.Running {
		for _, q := range o.Store.Requests {
			if why := o.Refusal(q); why.Text != "" {
				add(health.RestoreRefused, "the restore that %s asks for is not carried out: %s", q.By, why)
			}
		}
	}
	for _, text := range s.Dismissed {
		add(health.RestoreRefused, "%s", text)
	}
	return all
}
