package coordinator

import (
	"slices"
	"time"

	"holdfast/embedded/plan"
)

// How a generation ends, on this node: proposals are objected to, waited for, consented to (R16 to R18 of
// docs/protocol.md).

const (
	// watchProposals is how often a leader looks whether a proposal to end its generation lies in the store, and
	// sentinelTime how long one look may take; abortTime bounds an abort.
	watchProposals = 2 * time.Second
	sentinelTime   = 3 * time.Second
	abortTime      = 5 * time.Second
	// LeaderWait is how long a leaderless proposal waits: a living leader in reach of the store has read it by then and
	// aborted it, even if a look that began before it was put took as long as it may.
	LeaderWait = 2*(watchProposals+sentinelTime) + abortTime
	// pollAlone is how often a node without a leader asks the store.
	pollAlone = 2 * time.Second
	// storeWait is how long a process that has begun waits for the store before its member resumes without.
	storeWait = 30 * time.Second
	// BeaconEvery is how often the leader says in the store that it lives.
	BeaconEvery = 10 * time.Second
	// forgetEvery is how often the leader looks for keys that its generation has outlived.
	forgetEvery = 10 * time.Second
)

// ending is what this process knows of proposals to end its generation beside what the store says now.
// Times are of the monotonic clock, so that they begin again with a restart.
type ending struct {
	answered bool            // the store has answered this process
	believed bool            // and what it said is proven to the disk, if that is in a generation
	read     time.Time       // when the last look at the store began that succeeded
	open     string          // ID of the leaderless proposal that was read
	since    time.Time       // since when there is no leader, and it has been open
	led      time.Time       // since when this member has had a leader, zero while it has none
	none     time.Time       // since when nobody has told of a leader, zero while one is known
	blind    map[string]bool // by ID of a concluded proposal: it could not be prevented from here
	nonces   map[string]string
	heard    map[string]time.Time // by nonce that was not read in the store: since when it is known
	objected string               // ID of the proposal that was aborted from here last
	aborted  time.Time            // when that was done
}

// looked notes what one look at the store that began at a time has told. The caller holds the lock.
func (e *ending) looked(began time.Time, s plan.Store, nonces map[string]string) {
	if s.Unknown != "" {
		return
	}
	// A proposal that waited as it must lay in the store at the look before, if that was less than LeaderWait ago. Had
	// this member a leader then, it would have objected.
	guarded := e.answered && !e.led.IsZero() && !e.led.After(e.read) && began.Sub(e.read) < LeaderWait
	for _, r := range s.Concluded {
		if _, known := e.blind[r.ID]; !known {
			e.blind[r.ID] = !guarded
		}
	}
	e.answered, e.read, e.nonces = true, began, nonces
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
			if heard[nonce] = at; !at.Before(e.read) {
				o.Store.Late = append(o.Store.Late, node)
			}
		}
	}
	e.heard = heard
	slices.Sort(o.Store.Met)
	slices.Sort(o.Store.Late)
	has := o.Member.Led()
	switch {
	case !has:
		e.led = time.Time{}
	case e.led.IsZero():
		e.led = now
	}
	known := o.Member.Running && o.Member.HasLead || slices.ContainsFunc(o.Peers,
		func(p plan.Peer) bool { return p.Live && p.Facts != nil && p.Facts.Leader })
	switch {
	case known:
		e.none = time.Time{}
	case e.none.IsZero():
		e.none = now
	}
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
	o.Alone = e.open != "" && now.Sub(e.since) >= LeaderWait
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
	for _, id := range ids { // given where puts are refused
		if o.Member.Marked(mine.ID, id) {
			o.Member.Consent = &plan.Consent{Record: mine.ID, Proposal: id}
		}
	}
}

// remaining is how long the open proposal waits here for an objection, 0 if it does not.
func (e *ending) remaining() time.Duration {
	if e.open == "" {
		return 0
	}
	return max(0, LeaderWait-time.Since(e.since))
}
