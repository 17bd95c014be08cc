package coordinator

import (
	"slices"
	"time"

	"holdfast/embedded/plan"
)

// How a generation ends, on this node: proposals are objected to, waited for, and consented to (R16 to R18 of
// docs/protocol.md).

const (
	// watchProposals is how often a leader checks the store for a proposal to end its generation, and sentinelTime bounds
	// one check; abortTime bounds an abort.
	watchProposals = 2 * time.Second
	sentinelTime   = 3 * time.Second
	abortTime      = 5 * time.Second
	// LeaderWait is how long a leaderless proposal waits. By then, a living leader that reaches the store has read and
	// aborted it, even if the check before the proposal took as long as it may.
	LeaderWait = 2*(watchProposals+sentinelTime) + abortTime
	// pollAlone is how often a node without a leader asks the store.
	pollAlone = 2 * time.Second
	// storeWait is how long a new process waits for the store before its member resumes without it.
	storeWait = 30 * time.Second
	// BeaconEvery is how often the leader writes the beacon.
	BeaconEvery = 10 * time.Second
	// forgetEvery is how often the leader checks for keys of earlier generations.
	forgetEvery = 10 * time.Second
)

// ending is what this process knows about proposals to end its generation, besides what the store says now. Times are
// monotonic, so they start over with a restart.
type ending struct {
	answered bool            // the store has answered this process
	believed bool            // and if the disk is in a generation, its answer was proven to the disk
	read     time.Time       // when the last successful look at the store began, for its next proposal or for all of it
	whole    time.Time       // the same for all of it
	open     string          // ID of the leaderless proposal that was read
	since    time.Time       // since when that proposal has been open and there is no leader
	led      time.Time       // since when this member has had a leader, zero if it has none
	none     time.Time       // since when no node has reported a leader, zero while one is known
	blind    map[string]bool // by ID of a concluded proposal: this node could not have prevented it
	nonces   map[string]string
	heard    map[string]time.Time // by nonce that was not found in the store: since when it is known
	objected string               // ID of the last proposal that this node aborted
	aborted  time.Time            // when it did
}

// looked notes the result of a look at the store that began at began. The caller holds the lock.
func (e *ending) looked(began time.Time, s plan.Store, nonces map[string]string) {
	if s.Unknown != "" {
		return
	}
	// A proposal that waited as long as it must was already in the store at the previous look, if that was less than
	// LeaderWait ago. If this member had a leader then, it would have objected.
	guarded := e.answered && !e.led.IsZero() && !e.led.After(e.read) && began.Sub(e.read) < LeaderWait
	for _, r := range s.Concluded {
		if _, known := e.blind[r.ID]; !known {
			e.blind[r.ID] = !guarded
		}
	}
	if e.whole = began; e.read.Before(began) {
		e.read = began
	}
	e.answered, e.nonces = true, nonces
}

// tell completes an observation. The caller holds the lock.
func (e *ending) tell(o *plan.Observation, began time.Time, live map[string]string) {
	now := time.Now()
	if o.Store.Unknown == "" && o.Disk.Ledger.Record != nil {
		e.believed = true
	}
	o.Starting = !e.believed && (o.Disk.Ledger.Record != nil || !e.answered) && o.Store.Unknown != "" &&
		now.Sub(began) < storeWait
	heard := map[string]time.Time{}
	for node, nonce := range live {
		switch at, known := e.heard[nonce]; {
		case nonce == "":
		case e.nonces[nonce] != "":
			o.Store.Met = append(o.Store.Met, node)
		case !known:
			heard[nonce] = now
			o.Store.Late = append(o.Store.Late, node)
		default:
			if heard[nonce] = at; !at.Before(e.whole) {
				o.Store.Late = append(o.Store.Late, node)
			}
		}
	}
	e.heard = heard
	slices.Sort(o.Store.Met)
	slices.Sort(o.Store.Late)
	has := o.Member.Led()
	lasts(&e.led, has, now)
	known := o.Member.Running && o.Member.HasLead || slices.ContainsFunc(o.Peers,
		func(p plan.Peer) bool { return p.Live && p.Facts != nil && p.Facts.Leader })
	lasts(&e.none, !known, now)
	o.Leaderless = !known && now.Sub(e.none) >= LeaderWait
	p := o.Store.Restore
	if p == nil && o.Store.Unknown != "" {
		p = o.Orders.Alone
	}
	if o.Store.Unknown == "" || p != nil {
		switch {
		case p == nil || p.Led != nil || has:
			e.open = ""
		case e.open != p.ID:
			e.open, e.since = p.ID, now
		}
	}
	seen := now
	if o.Store.Unknown == "" { // a process that was suspended since the last look does not know of an abort
		seen = e.read
	}
	o.Alone = e.open != "" && seen.Sub(e.since) >= LeaderWait
	mine := o.Disk.Ledger.Record
	if mine == nil {
		return
	}
	var ids []string
	if p != nil {
		ids = append(ids, p.ID)
	}
	for _, r := range o.Store.Concluded {
		if r.Parent() == mine.ID {
			ids = append(ids, r.ID)
			o.Blind = e.blind[r.ID]
		}
	}
	for _, id := range ids { // a consent while puts are refused
		if o.Member.Marked(mine.ID, id) {
			o.Member.Consent = &plan.Consent{Record: mine.ID, Proposal: id}
		}
	}
}

// lasts notes since when something holds without a break; zero while it does not.
func lasts(since *time.Time, holds bool, now time.Time) {
	switch {
	case !holds:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// remaining is how much longer the open proposal waits here for an objection, 0 if it does not wait.
func (e *ending) remaining() time.Duration {
	if e.open == "" {
		return 0
	}
	return max(0, LeaderWait-time.Since(e.since))
}
