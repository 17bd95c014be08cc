package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// sentinel protects this node's generation: it asks the store, objects to proposals that would end a serving
// generation, and commits consents.
type sentinel struct {
	env
	history     *history
	bugs        *bugs
	status      *status
	observer    *observer
	generations *generations
}

// watch asks the store what it knows, until ctx ends. A store that hangs counts as not answering. It is not asked again
// before it has answered, and nobody waits for it.
func (s *sentinel) watch(ctx context.Context) {
	answers := make(chan plan.Store, 1)
	var began time.Time
	asked := false
	for {
		if !asked {
			asked, began = true, time.Now()
			go func() { answers <- s.generations.read(ctx) }()
		}
		wait := storeAge
		select {
		case <-ctx.Done():
			return
		case store := <-answers:
			asked = false
			s.generations.stored(store, began)
			s.object(ctx, nil)
			if m, _ := s.world.Etcd.State(); store.Unknown != "" {
				wait = tick
			} else if !m.Running || !m.HasLead {
				wait = pollAlone
			}
		case <-time.After(storeAge + tick):
			s.generations.stored(plan.Store{Unknown: "no answer within " + storeAge.String()}, began)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-s.generations.asked:
		case <-time.After(wait):
		}
	}
}

// guard checks, while this member leads, for a proposal to end its generation, and objects. It is separate from the
// loop, which an action may delay, and from the look at the whole store, which takes longer.
func (s *sentinel) guard(ctx context.Context) {
	for every(ctx, watchProposals) {
		o := s.status.get().Observation
		mine, store := o.Disk.Ledger.Record, o.Store
		if mine == nil || store.Record == nil || store.Record.ID != mine.ID {
			continue
		}
		if !s.world.Etcd.Leads() {
			continue
		}
		if store.Restore != nil && store.Unknown == "" { // an earlier abort may have failed
			s.object(ctx, nil)
			continue
		}
		began := time.Now()
		bound, cancel := context.WithTimeout(ctx, sentinelTime)
		p, err := s.world.Store.Proposal(bound, mine.Generation+1, store.Attempts+1)
		cancel()
		if err == nil && p == nil {
			s.generations.unproposed(began)
		}
		if err == nil && p != nil {
			s.generations.ask()
			s.object(ctx, p)
		}
	}
}

// object aborts a proposal that is wrong about this member; nil stands for the proposal that is known to be open.
func (s *sentinel) object(ctx context.Context, p *plan.Restore) {
	o, _ := s.observer.observe()
	if p != nil {
		o.Store.Unknown, o.Store.Restore = "", p
	}
	var why string
	var ok bool
	if s.bugs.guard("object", func() { why, ok = plan.Object(o) }) != "" || !ok {
		return
	}
	r := *o.Store.Restore
	if s.generations.objected(r.ID) {
		return // the next look at the store shows it
	}
	s.world.Step("before-abort")
	ctx, cancel := context.WithTimeout(ctx, abortTime)
	defer cancel()
	record, err := s.world.Store.Abort(ctx, r, plan.Abort{ID: r.ID, Why: why, By: new(s.stand(o))})
	if err == nil {
		s.generations.ask() // only on success: otherwise a store that refuses at once would be asked without a pause
	}
	switch {
	case err != nil:
		s.generations.object(r.ID, false)
		s.lg.Error("could not abort the "+r.Title(), zap.String("proposed by", r.By), zap.String("why", why), zap.Error(err))
	case record != nil:
		s.lg.Error("was too late to abort the "+r.Title(), zap.String("why", why), zap.String("record", record.Token()))
	default:
		s.generations.object(r.ID, true)
		s.lg.Warn("aborted the "+r.Title(), zap.String("proposed by", r.By), zap.String("why", why))
		s.history.remember(Entry{Kind: "object",
			Why: fmt.Sprintf("aborted the %s that %s proposed: %s", r.Title(), r.By, why), Outcome: Done})
	}
}

// show makes the leader show in the store that it is live, from its election on, for people and commands on other
// machines. No decision depends on this beacon. The leader also signs again what began its generation, if the
// signatures in the store no longer count, or will soon expire. Otherwise a disk of an older generation would find
// nothing proven.
func (s *sentinel) show(ctx context.Context) {
	var last time.Time
	for every(ctx, time.Second) {
		o := s.status.get().Observation
		r := leads(o)
		switch {
		case r == nil:
			last = time.Time{}
			continue
		case time.Since(last) < BeaconEvery:
			continue
		}
		last = time.Now()
		bound, cancel := context.WithTimeout(ctx, storeAge)
		err := errors.Join(s.world.Store.Shine(bound, Beacon{Record: r.ID, Generation: r.Generation, Stand: s.stand(o)}),
			s.world.Store.Attest(bound, *r))
		cancel()
		if err != nil {
			s.lg.Debug("could not show the generation in the store", zap.Error(err))
		}
	}
}

// leads returns the record of the generation that this member leads, if the store has the same record; else nil.
func leads(o plan.Observation) *plan.Record {
	r, known := o.Disk.Ledger.Record, o.Store.Record
	if r == nil || !o.Member.Leader || !o.Member.Led() || o.Store.Unknown != "" || known == nil || known.ID != r.ID {
		return nil
	}
	return r
}

// Beacon is what a generation's leader last wrote into the store about itself.
type Beacon struct {
	Record     string `json:"record"`
	Generation uint64 `json:"generation"`
	plan.Stand
}

// stand is this member's [plan.Stand].
func (e env) stand(o plan.Observation) plan.Stand {
	return plan.Stand{Node: e.cfg.Node, Slot: o.Claim.Slot, Disk: o.Claim.Disk, Address: e.cfg.Address.String(),
		Revision: o.Member.Revision, Leader: o.Member.Led()}
}

// forgetKeys makes the leader delete holdfast's own keys of earlier generations. They no longer count, but clients see
// them, and a version that does not know their generation would heed them. They are deleted through raft, not while the
// data is built, so that the members' databases are equal whichever version builds them.
func (s *sentinel) forgetKeys(ctx context.Context) {
	for every(ctx, forgetEvery) {
		o := s.status.get().Observation
		r := o.Disk.Ledger.Record
		if r == nil || !o.Member.Running || !o.Member.Leader || !o.Member.Confirmed {
			continue
		}
		for _, name := range []string{plan.KeySlots, plan.KeyLock, plan.KeyPaused, plan.KeyConsent} {
			if err := s.forgetKey(ctx, name, *r); err != nil && ctx.Err() == nil {
				s.lg.Debug("could not delete a key of an earlier generation", zap.String("key", name), zap.Error(err))
			}
		}
		for _, id := range o.Withdrawn() {
			if err := s.withdraw(ctx, plan.Consent{Record: r.ID, Proposal: id}); err != nil && ctx.Err() == nil {
				s.lg.Warn("could not withdraw the consent to an aborted proposal", zap.String("proposal", id), zap.Error(err))
			}
		}
	}
}

// withdraw withdraws the consent to an aborted proposal through raft, so that it counts on no disk: somebody may delete
// the abort in the store, and not every disk remembers it.
func (s *sentinel) withdraw(ctx context.Context, of plan.Consent) error {
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	value, version, err := s.world.Etcd.Key(plan.KeyConsent)
	var c plan.Consent
	if version != 0 && json.Unmarshal(value, &c) == nil && c.Record == of.Record && c.Proposal == of.Proposal {
		if err = s.world.Etcd.PutKey(ctx, plan.KeyConsent, nil, version); errors.Is(err, plan.ErrConflict) {
			err = nil // it is another one by now
		}
	}
	if err := errors.Join(err, s.world.Etcd.Unmark(ctx, plan.Mark(of.Record, of.Proposal))); err != nil {
		return err
	}
	s.lg.Warn("withdrew the consent to an aborted proposal", zap.String("proposal", of.Proposal))
	s.history.remember(Entry{Kind: "consent", Why: fmt.Sprintf("withdrew the consent to proposal %s, which was aborted",
		of.Proposal), Outcome: Done})
	return nil
}

func (s *sentinel) forgetKey(ctx context.Context, name string, r plan.Record) error {
	value, version, err := s.world.Etcd.Key(name)
	if err != nil || version == 0 || !outlived(name, value, r) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	if name == plan.KeyLock { // by its value: a lock's version starts at 1 again each time
		err = s.world.Etcd.Unlock(ctx, value)
	} else {
		err = s.world.Etcd.PutKey(ctx, name, nil, version)
	}
	if errors.Is(err, plan.ErrConflict) {
		return nil // another value is there by now
	} else if err != nil {
		return err
	}
	s.lg.Info("deleted a key of an earlier generation", zap.String("key", name), zap.ByteString("value", value))
	return nil
}

// outlived reports whether a key is of a generation before the one that begins with r, and does not count any more. A
// key that names no generation, or cannot be read, is kept.
func outlived(name string, value []byte, r plan.Record) bool {
	var of struct {
		Record string `json:"record"`
	}
	if json.Unmarshal(value, &of) != nil || of.Record == "" {
		return false
	}
	if name == plan.KeyPaused {
		return !plan.Pause{Record: of.Record}.Holds(&r)
	}
	return of.Record != r.ID
}

// askToConsent begins a question that asks a member with a leader to commit a consent; the consent follows.
const askToConsent = "consent "

// ErrUnled is wrapped by Confirm if no member can commit a consent.
var ErrUnled = errors.New("no member that has a leader answers")

// Confirm makes the cluster consent to the open proposal with this ID (R16). An operator must order it on a node of the
// cluster. The consent is committed to the keyspace. If an alarm refuses writes, it is committed as a mark, which is an
// alarm itself.
func (c *Coordinator) Confirm(ctx context.Context, id, by string) (plan.Restore, error) {
	began := time.Now()
	c.generations.stored(c.generations.read(ctx), began)
	o, _ := c.observer.observe()
	p, mine := o.Store.Restore, o.Disk.Ledger.Record
	switch {
	case o.Store.Unknown != "":
		return plan.Restore{}, fmt.Errorf("the backup store does not answer here: %s", o.Store.Unknown)
	case p == nil:
		return plan.Restore{}, errors.New("no restore is proposed: see `holdfast status`")
	case id != "" && p.ID != id:
		return *p, fmt.Errorf("the open proposal is %s, the %s by %s, and not %s", p.ID, p.Title(), p.By, id)
	case p.Led == nil:
		return *p, errors.New("the proposal says that the cluster has no leader: no one can consent to it; a leader aborts " +
			"it, and without one it is carried out")
	}
	if why := o.Hopeless(p); why != "" {
		return *p, fmt.Errorf("%s: abort it, and run `holdfast restore %s` on a node, which knows all slots", why, p.Backup)
	}
	word := plan.Consent{Record: p.Parent(), Proposal: p.ID, By: by}
	if mine != nil && mine.ID == p.Parent() && o.Member.Led() {
		return *p, c.sentinel.consent(ctx, word)
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

// consent commits a consent to the end of this member's generation.
func (s *sentinel) consent(ctx context.Context, word plan.Consent) error {
	o, _ := s.observer.observe()
	if r := o.Disk.Ledger.Record; r == nil || r.ID != word.Record || !o.Member.Running {
		return fmt.Errorf("node %s runs no member of the generation that would end", s.cfg.Node)
	}
	if slices.Contains(o.Disk.Ledger.Aborted, word.Proposal) {
		return fmt.Errorf("the proposal %s was aborted, as the disk of node %s remembers: propose it again; and find out "+
			"who has deleted the abort in the backup store", word.Proposal, s.cfg.Node)
	}
	data, err := json.Marshal(word)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, raftTimeout)
	defer cancel()
	_, version, err := s.world.Etcd.Key(plan.KeyConsent)
	if err == nil {
		err = s.world.Etcd.PutKey(ctx, plan.KeyConsent, data, version)
	}
	if errors.Is(err, plan.ErrReadOnly) {
		err = s.world.Etcd.Mark(ctx, plan.Mark(word.Record, word.Proposal))
	}
	if err != nil {
		return fmt.Errorf("commit the consent: %w", err)
	}
	s.lg.Warn("consented to the end of this generation", zap.String("proposal", word.Proposal),
		zap.String("confirmed by", word.By))
	s.history.remember(Entry{Kind: "consent", Why: fmt.Sprintf("%s confirmed proposal %s", word.By, word.Proposal),
		Outcome: Done})
	s.look()
	return nil
}

// answer commits a consent that an operator has confirmed on another node.
func (s *sentinel) answer(ctx context.Context, data []byte) ([]byte, error) {
	var word plan.Consent
	if err := json.Unmarshal(data, &word); err != nil {
		return nil, fmt.Errorf("decode a consent: %w", err)
	}
	began := time.Now()
	s.generations.stored(s.generations.read(ctx), began)
	o, _ := s.observer.observe()
	if p := o.Store.Restore; p == nil || p.ID != word.Proposal || p.Led == nil || p.Parent() != word.Record {
		return nil, fmt.Errorf("node %s finds no such open proposal in its backup store: %s", s.cfg.Node, word.Proposal)
	}
	return nil, s.consent(ctx, word)
}
