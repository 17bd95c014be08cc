package coordinator

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// restoring is what this node knows of restores and recoveries beside the ledger and the store. The coordinator's mu guards it.
type restoring struct {
	built     string // ID of the proposal whose directory lies on the volume
	unable    unable
	refused   map[string]refusal // requests that could not be carried out
	dismissed []dismissal
	heard     map[string]bool   // what others spoke of, and the store was asked for
	unsaved   string            // why no backup was made before the last change
	retry     time.Time         // when a backup is tried again before a change
	open      *plan.Restore     // the proposal that was open when the store answered last
	newest    *plan.BackupStand // the newest backup, while there is no leader; nil: it is not known
}

// unable is why a proposal could not be prepared here.
type unable struct{ id, why string }

// refusal is why a request could not be carried out, and when it is tried again.
type refusal struct {
	why   string
	until time.Time
	wait  time.Duration
	over  bool // it is not tried again
}

// dismissal is a command that was deleted, and is shown for a while.
type dismissal struct {
	command, text string
	at            time.Time
}

const (
	firstRefusal = time.Minute
	maxRefusal   = time.Hour
	// showDismissed is how long a status tells of a command that was deleted; the history tells longer.
	showDismissed = time.Hour
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
	c.restoring.refused[key] = refusal{err.Error(), time.Now().Add(wait), wait, errors.Is(err, ErrUseless)}
}

// dismiss deletes a command that will never be carried out.
func (c *Coordinator) dismiss(ctx context.Context, a plan.Action) error {
	defer c.AskStore()
	q := *a.Request
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := c.world.Store.Dismiss(ctx, q.Command); err != nil {
		return fmt.Errorf("delete a command that is not carried out any more: %w", err)
	}
	c.lg.Warn("deleted a command that is not carried out any more", zap.String("command", q.Command), zap.String("backup", q.Backup), zap.String("why", q.Problem))
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.restoring.refused, q.Command+" "+q.Backup)
	c.restoring.dismissed = append(c.restoring.dismissed, dismissal{q.Command,
		fmt.Sprintf("the restore of %s that %s asked for was not carried out, and the command was deleted: %s", q.Backup, q.By, q.Problem), time.Now()})
	return nil
}

// told are the dismissals that are still shown. The caller holds the lock.
func (r *restoring) told() (all []string) {
	r.dismissed = slices.DeleteFunc(r.dismissed, func(d dismissal) bool { return time.Since(d.at) > showDismissed })
	for _, d := range r.dismissed {
		all = append(all, d.text)
	}
	return all
}

// known completes what the store says with what is known here. The caller holds the lock.
func (r *restoring) known(o *plan.Observation) {
	p, l := o.Store.Restore, o.Disk.Ledger
	entered := l.Record != nil && l.Role == plan.RoleFounder && l.Started == "" // and has to prepare, or to join instead
	if r.unable.id != "" && (p != nil && r.unable.id == p.ID || entered && r.unable.id == l.Record.ID) {
		o.Unable = r.unable.why
	}
	o.Disk.Built = r.built
	o.Store.Newest = r.newest
	o.Store.Requests = slices.DeleteFunc(slices.Clone(o.Store.Requests), func(q plan.Request) bool { // the last look may be older
		return slices.ContainsFunc(r.dismissed, func(d dismissal) bool { return d.command == q.Command })
	})
	for i, q := range o.Store.Requests {
		f, ok := r.refused[q.Command+" "+q.Backup]
		switch at := &o.Store.Requests[i]; {
		case !ok:
		case q.Over:
			at.Problem += "; when it was tried last: " + f.why
		case q.Problem == "" && (f.over || time.Now().Before(f.until)):
			at.Problem, at.Over = f.why, f.over
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
		if p.Live && !slices.Contains(o.Store.Met, p.Node) {
			theirs = append(theirs, p.Facts.Nonce)
		}
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
func (c *Coordinator) overtaken(o plan.Observation, doing plan.Action) bool {
	var a plan.Action
	bug := c.guard(theDecision, func() { a = c.plan(o) })
	switch {
	case bug != "": // nothing was decided
		return false
	case a.Kind == plan.Wait && o.Store.Unknown != "":
		return false
	case doing.Kind == plan.Prepare:
		return a.Kind != plan.Prepare || a.Restore.ID != doing.Restore.ID
	case doing.Kind == plan.Propose:
		return a.Kind != plan.Propose || !reflect.DeepEqual(a.Request, doing.Request)
	}
	return false
}

// Restoring tells how far this node is with a restore, nil when none is under way.
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
	case !done && s.Busy && s.Action.Kind == plan.Prepare:
		st.State, st.Phase, st.Done, st.Total = health.RestorePreparing, s.Progress.Phase, s.Progress.Done, s.Progress.Total
	case !done && o.Unable != "":
		st.State, st.Error = health.RestoreUnable, o.Unable
	case entered:
		st.State = health.RestoreSwapping
	case !done && unconfirmed(o, *r):
		st.State = health.RestoreUnconfirmed
	}
	return st
}

// unconfirmed reports whether a proposal waits for an operator's word, as far as this node has heard (R16).
func unconfirmed(o plan.Observation, r plan.Restore) bool {
	heard := func(p plan.Peer) bool { return p.Live && p.Facts != nil && p.Facts.Consent == r.ID }
	c := o.Member.Consent
	return r.Led != nil && (c == nil || c.Proposal != r.ID) && !slices.ContainsFunc(o.Peers, heard)
}

// Findings are what is wrong with restores, recoveries and the backups before them, and what contradicts the generation
// that this node is in, beside the action.
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
			"the backup store does not answer (%s), and when it last did, a %s as generation %d, proposed by %s, was under way: it continues as soon as the store is back, unless `holdfast restore --abort` comes first",
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
