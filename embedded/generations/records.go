package generations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// Records keeps a cluster's generations in the backup store, below holdfast/<cluster>/:
//
//	record-000002.json      the record of generation 2
//	restore-000002-01.json  the first proposal to begin it
//	outcome-000002-01.json  the outcome of that proposal: the record, or why it was aborted
//	aside-000001-<id>.json  the record of a cluster that was given up, or given back
//	returned-<id>.json      the cluster was given back; deleted if it is kept after all
//	beside.json             a cluster may be founded although etcd-manager keeps one in the store
//
// These objects are overwritten, and arbitrate nothing:
//
//	beacon.json             the state of the newest generation's leader, every ten seconds
//	proof-000002.json       the texts that began generation 2, signed again because signatures do not last
//	here/<hash>.json        a random number of each node's process, put every hour: a node that finds it shares the
//	                        store, and has no copy of it
//
// All others are put on the condition that they do not exist, and are never written again. So when two writers
// disagree, one is refused. What is known of an object is fetched once.
type Records struct {
	objects
	ages
	encounters

	probed atomic.Bool // the store was shown to honour conditional puts
}

// New returns the records of a cluster in a store. cluster is cluster.name. signer signs what is put, and distinguishes
// the cluster's objects from those of anyone else who can write the store; nil if TLS is off.
func New(store snapshot.Store, cluster string, signer Signer) *Records {
	return &Records{
		objects: objects{names: names{cluster}, Store: store, Signer: signer,
			cache: cache{known: map[snapshot.Version][]byte{}}},
		ages: ages{first: map[string]time.Time{}, asked: map[string]bool{}},
	}
}

// ID returns the store's ID. It also checks, once, that the store can arbitrate; otherwise its objects are no evidence.
func (r *Records) ID(ctx context.Context) (string, error) {
	if !r.probed.Load() {
		err := snapshot.Probe(ctx, r.Store)
		if errors.Is(err, snapshot.ErrUnconditional) { // a finding shows this error
			return "", fmt.Errorf("%w: %w", coordinator.ErrUnread, err)
		}
		if err != nil {
			return "", err
		}
		r.probed.Store(true)
	}
	return snapshot.StoreID(ctx, r.Store)
}

// Current returns the newest record and the open proposal, each nil if the store has none. Unlike Known it changes
// nothing.
func (r *Records) Current(ctx context.Context) (*plan.Record, *plan.Restore, error) {
	_, s, _, err := r.look(ctx, false)
	return s.Record, s.Restore, err
}

// Known returns everything that the store knows except its ID: the newest record, the open proposal, and the waiting
// commands. The nodes in expect, named as in [Records.Meet], are looked for by name.
func (r *Records) Known(ctx context.Context, expect ...string) (plan.Store, error) {
	l, s, since, err := r.look(ctx, true, expect...)
	if err == nil { // even before there is a record, because a takeover must know what etcd-manager is about to do
		s.Requests, err = r.requests(ctx, l, s, since)
	}
	if err == nil {
		s.Returned, err = r.gaveBack(ctx, l, s.Record)
	}
	if err == nil && s.Record == nil && !l.beside {
		s.Managed, err = snapshot.Managed(ctx, r.Store)
	}
	if err != nil {
		return plan.Store{}, err
	}
	r.learn(l)
	r.ages.ended()
	return s, nil
}

// look lists the cluster's objects and returns their state, see [Records.state]. If an object was put while it listed,
// look lists again. If the second listing lacks the object too, the listing is outdated, and look returns an error.
func (r *Records) look(ctx context.Context, completes bool, expect ...string) (l listing, s plan.Store,
	since time.Time, err error) {
	for again := range 2 {
		if l, err = r.list(ctx); err != nil {
			return l, plan.Store{}, since, err
		}
		if completes {
			r.meetAll(ctx, l, expect...)
		}
		if err = r.readAttestations(ctx, l); err != nil {
			return l, plan.Store{}, since, err
		}
		if s, since, err = r.state(ctx, l, completes); err != nil {
			return l, plan.Store{}, since, err
		}
		if err = r.behind(ctx, s); !errors.Is(err, errBehind) || again > 0 {
			break
		}
	}
	if err != nil {
		return l, plan.Store{}, since, err
	}
	return l, s, since, nil
}

// errBehind reports an object that is in the store but not in its listing.
var errBehind = errors.New("is in the store, and its listing does not show it: look for a cache in front of the " +
	"store, or a damaged index")

// behind returns an error if the store has the object that would follow those in the listing. An empty or outdated
// listing would hide that the cluster was founded, or that its generation has ended.
func (r *Records) behind(ctx context.Context, s plan.Store) error {
	next := r.recordName(1)
	switch {
	case s.Restore != nil:
		next = r.outcomeName(s.Restore.Generation, s.Restore.Attempt)
	case s.Record != nil:
		next = r.restoreName(s.Record.Generation+1, s.Attempts+1)
	}
	there, err := snapshot.Exists(ctx, r.Store, next)
	switch {
	case err != nil:
		return fmt.Errorf("look for %s in the store: %w", next, err)
	case there:
		return fmt.Errorf("%w: %s %w", coordinator.ErrUnread, next, errBehind)
	}
	return nil
}

// state returns what the store knows of generations, and since when it has known the newest. With completes, it also
// completes what a crash has left half done: a concluded proposal gets its record, and an expired one is aborted.
func (r *Records) state(ctx context.Context, l listing, completes bool) (s plan.Store, since time.Time, err error) {
	if len(l.records) == 0 {
		return s, since, nil
	}
	newest := l.records[len(l.records)-1]
	record, err := r.readRecord(ctx, newest.Object)
	if err != nil {
		return plan.Store{}, since, err
	}
	s.Record, since = &record.value, newest.Modified
	l.began(newest.generation, newest.Name, record.text, record.seal)
	if err = r.concludedBefore(ctx, l, &s); err != nil {
		return plan.Store{}, since, err
	}
	if !slices.ContainsFunc(s.Concluded, func(c plan.Record) bool { return reflect.DeepEqual(c, record.value) }) {
		doubt(&s, newest.generation, newest.Name, record.unproven) // otherwise the conclusion proves it, or is doubted
	}
	for {
		s.Attempts, s.Aborted = 0, nil
		p, done, err := r.proposal(ctx, l, &s)
		if err != nil {
			return plan.Store{}, since, err
		}
		if p == nil || done.value.Abort != nil {
			return s, since, nil
		}
		open, concluded := &p.value, done.value.Record
		// An unproven proposal gets no abort of ours.
		if concluded == nil && (!completes || p.unproven != nil || !r.expired(p, l)) {
			doubt(&s, open.Generation, r.restoreName(open.Generation, open.Attempt), p.unproven)
			s.Restore = open
			return s, since, nil
		}
		if concluded == nil { // it has expired; the conditional put decides between this abort and a conclusion
			why := plan.Abort{ID: open.ID, Why: fmt.Sprintf("it was open for longer than %s", open.Lasts)}
			if concluded, err = r.Abort(ctx, *open, why); err != nil {
				return s, since, err
			} else if concluded == nil {
				s.Aborted = append(s.Aborted, why)
				return s, since, nil
			}
		}
		if unproven := cmp.Or(done.unproven, p.unproven); unproven != nil { // our signature would make it proven
			doubt(&s, open.Generation, r.outcomeName(open.Generation, open.Attempt), unproven)
		} else if !completes {
			// A reader, which may not even be able to sign, leaves the record to the nodes.
		} else if err := r.Put(ctx, *concluded); err != nil && !errors.Is(err, ErrUnsigned) { // the nodes can sign it
			return plan.Store{}, since, fmt.Errorf("store the record of the "+open.Title()+", which was concluded: %w", err)
		}
		s.Record, since = concluded, done.when
		s.Concluded = append(s.Concluded, *concluded)
	}
}

// concludedBefore records the generations up to the newest record that a proposal and its outcome prove, in order.
func (r *Records) concludedBefore(ctx context.Context, l listing, s *plan.Store) error {
	newest := s.Record
	for _, o := range l.outcomes {
		if o.generation > newest.Generation {
			break
		}
		proposed, ok := o.of(l.restores)
		if !ok {
			continue
		}
		done, err := r.readOutcome(ctx, o.Object)
		if err != nil {
			return err
		}
		c := done.value.Record
		if whole := append(slices.Clone(newest.Line), newest.ID); c == nil || len(c.Line) >= len(whole) ||
			!slices.Equal(append(slices.Clone(c.Line), c.ID), whole[:len(c.Line)+1]) {
			continue // of another lineage, whatever it claims
		}
		p, err := r.readRestore(ctx, proposed.Object)
		if err != nil {
			return err
		}
		if err := belongs(o, c, &p.value); err != nil {
			return err
		}
		doubt(s, o.generation, proposed.Name, p.unproven)
		doubt(s, o.generation, o.Name, done.unproven)
		l.began(o.generation, proposed.Name, p.text, p.seal)
		l.began(o.generation, o.Name, done.text, done.seal)
		s.Concluded = append(s.Concluded, *c)
	}
	return nil
}

// belongs refuses a record that is not the outcome of its proposal. In that case somebody has put one of them there by
// hand.
func belongs(at numbered, c *plan.Record, p *plan.Restore) error {
	if c.ID == p.ID && c.Generation == at.generation && p.Generation == at.generation && c.Parent() == p.Parent() {
		return nil
	}
	return fmt.Errorf("%s in the store is of another proposal than the one beside it: find out who put it there", at.Name)
}

// expired reports whether a proposal has been open for longer than it may. It uses the store's own time: another object
// is that much newer. A process that has itself seen the proposal for as long also knows it. No two clocks are
// compared.
func (a *ages) expired(p *object[plan.Restore], l listing) bool {
	return p.value.Lasts > 0 && a.older(p.value.ID, p.when, p.value.Lasts, l.newest)
}

// proposal returns the last proposal for the generation after that of s, and its outcome, zero if the proposal is open.
// A proposal that continues from another record is of a cluster that was given up; it only uses up an attempt, because
// that is part of its name. Aborted proposals are recorded in s.
func (r *Records) proposal(ctx context.Context, l listing, s *plan.Store) (p *object[plan.Restore],
	done object[outcome], err error) {
	for _, o := range l.restores {
		if o.generation != s.Record.Generation+1 {
			continue
		}
		s.Attempts = o.attempt
		read, err := r.readRestore(ctx, o.Object)
		if err != nil {
			return nil, done, err
		}
		follows := read.value.Parent() == s.Record.ID
		end, ended := o.of(l.outcomes)
		var was object[outcome]
		if ended && (follows || read.unproven != nil) {
			if was, err = r.readOutcome(ctx, end.Object); err != nil {
				return nil, done, err
			}
		}
		if read.attested && !ended { // it was concluded when it was attested
			read.unproven = errors.New("an attestation says that it was concluded, and what became of it is gone")
		}
		if read.unproven != nil {
			if was.value.Abort != nil { // neither it nor its abort is the cluster's, so nothing of ours is hidden
				continue
			}
			doubt(s, o.generation, o.Name, read.unproven)
		}
		p, done = nil, object[outcome]{}
		if !follows {
			continue
		}
		p = &read
		if !ended {
			continue
		}
		if was.value.Record != nil {
			if err := belongs(end, was.value.Record, &read.value); err != nil {
				return nil, done, err
			}
		}
		if done = was; was.value.Abort != nil {
			a := *was.value.Abort
			if was.unproven == nil && r.Signer != nil && a.ID != p.value.ID { // somebody has copied it to this name
				was.unproven = fmt.Errorf("it is the abort of another proposal, %s", a.ID)
			}
			a.ID = p.value.ID
			doubt(s, o.generation, end.Name, was.unproven)
			s.Aborted = append(s.Aborted, a)
		}
	}
	return p, done, nil
}

// Proposal returns the proposal with this number, nil if there is none.
func (r *Records) Proposal(ctx context.Context, generation uint64, attempt int) (*plan.Restore, error) {
	p, err := r.readRestore(ctx, snapshot.Object{Name: r.restoreName(generation, attempt)})
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &p.value, nil
}

// Identity returns whose backups are ours, for when no node can be asked: those with the lineage of the store's newest
// record. A store without a record has backups of an etcd that holdfast does not run; then the newest backup decides.
func Identity(ctx context.Context, store snapshot.Store, cluster string) (snapshot.Identity, error) {
	id := snapshot.Identity{Cluster: cluster}
	record, _, err := New(store, cluster, nil).Current(ctx)
	if err != nil {
		return id, err
	}
	if record != nil {
		id.Lineage = record.Lineage()
		return id, nil
	}
	b, _, err := snapshot.Latest(ctx, store, id)
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		return id, err
	}
	id.Lineage = b.Lineage
	return id, nil
}
