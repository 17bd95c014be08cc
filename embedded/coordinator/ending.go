package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

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
	read     time.Time       // when the last look at the store began that succeeded
	open     string          // ID of the leaderless proposal that was read
	since    time.Time       // since when there is no leader, and it has been open
	led      time.Time       // since when this member has had a leader, zero while it has none
	none     time.Time       // since when nobody has told of a leader, zero while one is known
	blind    map[string]bool // by ID of a concluded proposal: it could not be prevented from here
	nonces   map[string]string
	objected string // ID of the proposal that was aborted from here last
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
	o.Starting = !e.answered && o.Store.Unknown != "" && now.Sub(began) < storeWait
	for node, nonce := range live {
		if nonce != "" && e.nonces[nonce] != "" {
			o.Store.Met = append(o.Store.Met, node)
		}
	}
	slices.Sort(o.Store.Met)
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
		if slices.Contains(o.Member.Marks, plan.Mark(mine.ID, id)) {
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

// guardGeneration looks, while this member leads, for a proposal to end its generation, and objects. It is apart from the loop,
// which an action may hold up, and from the look at the whole store, which takes longer.
func (c *Coordinator) guardGeneration(ctx context.Context) {
	for every(ctx, watchProposals) {
		c.mu.Lock()
		o := c.now.Observation
		c.mu.Unlock()
		mine, s := o.Disk.Ledger.Record, o.Store
		if m, _ := c.world.Etcd.State(); mine == nil || !m.Leader || s.Record == nil || s.Record.ID != mine.ID {
			continue
		}
		if s.Restore != nil && s.Unknown == "" { // an abort may have failed
			c.object(ctx, nil)
			continue
		}
		began := time.Now()
		bound, cancel := context.WithTimeout(ctx, sentinelTime)
		p, err := c.world.Store.Proposal(bound, mine.Generation+1, s.Attempts+1)
		cancel()
		c.mu.Lock()
		if err == nil && p == nil && c.ending.answered {
			c.ending.read = began
		}
		c.mu.Unlock()
		if err == nil && p != nil {
			c.AskStore()
			c.object(ctx, p)
		}
	}
}

// object aborts a proposal that is wrong about this member. nil: the one that is known to be open.
func (c *Coordinator) object(ctx context.Context, p *plan.Restore) {
	o, _ := c.observe()
	if p != nil {
		o.Store.Unknown, o.Store.Restore = "", p
	}
	var why string
	var ok bool
	if c.guard("object", func() { why, ok = plan.Object(o) }) != "" || !ok {
		return
	}
	r := *o.Store.Restore
	c.mu.Lock()
	again := c.ending.objected == r.ID
	c.mu.Unlock()
	if again {
		return // the next look at the store shows it
	}
	c.world.Step("before-abort")
	ctx, cancel := context.WithTimeout(ctx, abortTime)
	defer cancel()
	record, err := c.world.Store.Abort(ctx, r, plan.Abort{ID: r.ID, Why: why, By: new(c.stand(o))})
	if err == nil {
		c.AskStore() // else at the next look: a store that refuses at once would be asked without a pause
	}
	switch {
	case err != nil:
		c.mu.Lock()
		c.ending.blind[r.ID] = true // if it is concluded, it could not be prevented from here
		c.mu.Unlock()
		c.lg.Error("could not abort the "+r.Title(), zap.String("proposed by", r.By), zap.String("why", why), zap.Error(err))
	case record != nil:
		c.lg.Error("it was too late to abort the "+r.Title(), zap.String("why", why), zap.String("record", record.Token()))
	default:
		c.mu.Lock()
		c.ending.objected = r.ID
		c.mu.Unlock()
		c.lg.Warn("aborted the "+r.Title(), zap.String("proposed by", r.By), zap.String("why", why))
		c.Remember(Entry{Kind: "object", Why: fmt.Sprintf("aborted the %s that %s proposed: %s", r.Title(), r.By, why), Outcome: Done})
	}
}

// stand is where the member here stands.
func (c *Coordinator) stand(o plan.Observation) plan.Stand {
	return plan.Stand{Node: c.cfg.Node, Slot: o.Claim.Slot, Disk: o.Claim.Disk, Address: c.cfg.Address.String(),
		Revision: o.Member.Revision, Leader: o.Member.Led()}
}

// Confirm has the cluster consent to the open proposal with this ID (R16). The word is an operator's, given on a node of the
// cluster. It is committed to the keyspace, or where that takes no writes as a mark among the alarms, which it does take.
func (c *Coordinator) Confirm(ctx context.Context, id, by string) (plan.Restore, error) {
	began := time.Now()
	c.stored(c.askStore(ctx), began)
	o, _ := c.observe()
	p, mine := o.Store.Restore, o.Disk.Ledger.Record
	switch {
	case o.Store.Unknown != "":
		return plan.Restore{}, fmt.Errorf("the backup store does not answer here: %s", o.Store.Unknown)
	case p == nil:
		return plan.Restore{}, errors.New("no restore is proposed: see `holdfast status`")
	case id != "" && p.ID != id:
		return *p, fmt.Errorf("the open proposal is %s, the %s by %s, and not %s", p.ID, p.Title(), p.By, id)
	case p.Led == nil:
		return *p, errors.New("the proposal says that the cluster has no leader: no one can consent to it; a leader aborts it, and without one it is carried out")
	}
	word := plan.Consent{Record: p.Parent(), Proposal: p.ID, By: by}
	if mine != nil && mine.ID == p.Parent() && o.Member.Led() {
		return *p, c.consent(ctx, word)
	}
	data, err := json.Marshal(word)
	if err != nil {
		return *p, err
	}
	for _, peer := range o.Peers {
		if f := peer.Facts; peer.Live && f != nil && f.Confirmed && f.Record != nil && f.Record.ID == p.Parent() {
			ctx, cancel := context.WithTimeout(ctx, raftTimeout)
			defer cancel()
			_, err := c.world.Mesh.Ask(ctx, peer.Node, append([]byte(askToConsent), data...))
			return *p, err
		}
	}
	return *p, fmt.Errorf("%w; see `holdfast status`", ErrUnled)
}

// consent commits the word that a proposal may end this member's generation.
func (c *Coordinator) consent(ctx context.Context, word plan.Consent) error {
	o, _ := c.observe()
	if r := o.Disk.Ledger.Record; r == nil || r.ID != word.Record || !o.Member.Running {
		return fmt.Errorf("node %s runs no member of the generation that would end", c.cfg.Node)
	}
	data, err := json.Marshal(word)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	_, version, err := c.world.Etcd.Key(KeyConsent)
	if err == nil {
		err = c.world.Etcd.PutKey(ctx, KeyConsent, data, version)
	}
	if errors.Is(err, ErrReadOnly) {
		err = c.world.Etcd.Mark(ctx, plan.Mark(word.Record, word.Proposal))
	}
	if err != nil {
		return fmt.Errorf("commit the consent: %w", err)
	}
	c.lg.Warn("consented to the end of this generation", zap.String("proposal", word.Proposal), zap.String("confirmed by", word.By))
	c.Remember(Entry{Kind: "consent", Why: fmt.Sprintf("%s confirmed proposal %s", word.By, word.Proposal), Outcome: Done})
	c.Look()
	return nil
}

// answerConsent commits a consent for another node, on which an operator has confirmed it.
func (c *Coordinator) answerConsent(ctx context.Context, question []byte) (ok bool, err error) {
	data, ok := strings.CutPrefix(string(question), askToConsent)
	if !ok {
		return false, nil
	}
	var word plan.Consent
	if err := json.Unmarshal([]byte(data), &word); err != nil {
		return true, fmt.Errorf("decode a consent: %w", err)
	}
	began := time.Now()
	c.stored(c.askStore(ctx), began)
	o, _ := c.observe()
	if p := o.Store.Restore; p == nil || p.ID != word.Proposal || p.Led == nil || p.Parent() != word.Record {
		return true, fmt.Errorf("node %s finds no such open proposal in its backup store: %s", c.cfg.Node, word.Proposal)
	}
	return true, c.consent(ctx, word)
}

// depart stops the member for good and notes that it has left its generation. Right before, it looks whether that is still to do.
func (c *Coordinator) depart(ctx context.Context, a plan.Action) error {
	if o, _ := c.observe(); c.next(o).Kind != plan.Leave {
		return errNotYet
	}
	c.world.Step("before-leave-stop")
	if err := c.world.Etcd.Leave(ctx, 0); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	c.world.Step("after-leave-stop")
	if left := *a.Left; len(left.Members) == 0 {
		var err error
		if left.Members, err = c.world.Etcd.MemberList(filepath.Join(c.root(), EtcdDir)); err != nil { // then it counts only as far as its slot is named lost
			c.lg.Error("left without knowing the members of the generation", zap.Error(err))
		}
		a.Left = &left
	}
	return c.record(a)
}

// confirmed asks the nodes whose word an action rests on directly: a leader that says that a member was removed, or the heirs of a
// later generation that no store proves.
func (c *Coordinator) confirmed(ctx context.Context, o plan.Observation, a plan.Action) error {
	if a.Node == "" && o.Store.Unknown == "" || a.Record == nil {
		return nil
	}
	mine := o.Disk.Ledger.Record
	if a.Node == "" && (mine == nil || a.Record.ID == mine.ID) {
		return nil
	}
	o.Peers = slices.Clone(o.Peers)
	asked := false
	for i, p := range o.Peers {
		if !p.Live || p.Facts == nil || p.Facts.Record == nil || p.Node != a.Node && p.Facts.Record.ID != a.Record.ID {
			continue
		}
		asked = true
		f, err := c.askFacts(ctx, p.Node)
		if err != nil || f.Leader && !f.Confirmed {
			o.Peers[i].Live = false
			continue
		}
		o.Peers[i].Facts = &f
	}
	if !asked {
		return nil
	}
	if a.Reason == plan.RolledBack { // the disk is read after the answer: all it had acknowledged by then is on it, even while etcd still ends here
		now, _ := c.observe()
		o.Disk, o.Member = now.Disk, now.Member
	}
	if again := c.next(o); again.Kind != a.Kind || again.Reason != a.Reason || again.Record == nil || again.Record.ID != a.Record.ID {
		return errNotYet
	}
	return nil
}

// timely asks the leader directly whether the disk here went back in time, right before its member resumes: what the gossip
// tells of how far it had come may be some seconds old, or not there yet. Where no leader is heard, or none answers, the member
// starts: if a leader counts on what is not on the disk, etcd ends the process, and the next one asks again.
func (c *Coordinator) timely(ctx context.Context, o plan.Observation) bool {
	o.Peers = slices.Clone(o.Peers)
	for i, p := range o.Peers {
		if r := o.Disk.Ledger.Record; !p.Live || p.Facts == nil || !p.Facts.Leader || p.Facts.Record == nil || p.Facts.Record.ID != r.ID {
			continue
		}
		if f, err := c.askFacts(ctx, p.Node); err == nil {
			o.Peers[i].Facts = &f
		}
	}
	return c.next(o).Kind == plan.Start
}

// keepBeacon has the leader say in the store that it lives, from when it is elected, for people and commands on other machines.
// Nothing rests on it.
func (c *Coordinator) keepBeacon(ctx context.Context) {
	var lit time.Time
	for every(ctx, time.Second) {
		o := c.Now().Observation
		r := o.Disk.Ledger.Record
		switch leads := r != nil && o.Member.Leader && o.Member.Confirmed && o.Store.Unknown == "" && o.Store.Record != nil && o.Store.Record.ID == r.ID; {
		case !leads:
			lit = time.Time{}
			continue
		case time.Since(lit) < BeaconEvery:
			continue
		}
		lit = time.Now()
		bound, cancel := context.WithTimeout(ctx, storeAge)
		err := c.world.Store.Shine(bound, Beacon{Record: r.ID, Generation: r.Generation, Stand: c.stand(o)})
		cancel()
		if err != nil {
			c.lg.Debug("the beacon could not be written", zap.Error(err))
		}
	}
}

// Rejoin is an operator's choice for a disk whose data the cluster continued without: it is set aside for the newest generation.
// With dry it only says whether that would be refused.
func (c *Coordinator) Rejoin(dry bool) error {
	o, _ := c.observe()
	if !o.Apart() {
		return ErrNotApart
	}
	return c.give(plan.Orders{Join: true}, dry)
}

// Continue makes the proposal to continue from this disk instead of the generation that began without it (R19), as the one after
// that. The revision is raised beyond both. lost are the slots of the voters of that generation that are gone, last
// its revision as far as it is known; led says that a leader of it will consent.
func (c *Coordinator) Continue(lost []string, last int64, led bool) (plan.Restore, error) {
	o, _ := c.observe()
	s := o.Store
	if !o.Apart() || s.Record == nil || s.Unknown != "" {
		return plan.Restore{}, fmt.Errorf("%w, so there is nothing to choose between; it says: %s", ErrNotApart, c.Now().Action.Text())
	}
	own := o.Member.Revision
	if l := o.Disk.Ledger.Left; l != nil {
		own = max(own, l.Revision)
	}
	q := plan.Request{Survivor: o.Claim.Slot, Disk: o.Claim.Disk, Log: o.Disk.Log, Lost: lost}
	p := newContinuation(*s.Record, s.Attempts, q, o.Disk.Ledger.Record.ID, own, last, c.cfg.RevisionBump)
	if why := o.Hopeless(&p); why != "" && !led {
		return plan.Restore{}, errors.New(why)
	}
	return p, nil
}

// RecoverAlone orders a recovery where majority and store are lost together (R16): from this disk, with every other voter named
// lost. The order ends with the process.
func (c *Coordinator) RecoverAlone(lost []string, by string, dry bool) (plan.Restore, error) {
	o, _ := c.observe()
	mine := o.Disk.Ledger.Record
	chosen, refusal := o.Survey().ChooseAlone(lost, o.Claim.Slot)
	switch {
	case o.Store.Unknown == "":
		return plan.Restore{}, errors.New("the backup store answers: run `holdfast recover` without --without-store, which is safer, for everyone sees it there")
	case mine == nil:
		return plan.Restore{}, errors.New("the disk of this node knows no generation of the cluster")
	case refusal != "":
		return plan.Restore{}, errors.New(refusal)
	}
	r := NewRecovery(*mine, 0, plan.Request{By: by, Survivor: chosen.Slot, Disk: chosen.Disk, Log: chosen.Log, Lost: lost}, o.Member.Revision, c.cfg.RevisionBump)
	return r, c.give(plan.Orders{Alone: &r}, dry)
}

// give notes orders that hold for what is on the disk now.
func (c *Coordinator) give(orders plan.Orders, dry bool) error {
	if dry {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders, c.ordered = orders, occasion(c.now.Observation)
	c.Look()
	return nil
}
