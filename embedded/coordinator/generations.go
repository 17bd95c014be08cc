package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// generations is what this process knows about the cluster's generations, besides its disk: what the store says, the
// proposals that would end its generation, and an operator's orders about it. One lock guards everything, so that in an
// observation the store's answer and its age belong together.
type generations struct {
	env
	nonce string        // of this process; other nodes look for it in the store
	asked chan struct{} // ask the store again

	mu      sync.Mutex
	store   plan.Store
	failed  bool          // the store could not be read at the last attempt
	open    *plan.Restore // the proposal that was open when the store last answered
	ending  ending
	heard   map[string]bool // IDs that other nodes mentioned at the last look, and for which the store was asked
	orders  plan.Orders
	ordered string // what the ledger and the store said when the orders were given
}

func newGenerations(e env) *generations {
	return &generations{env: e, nonce: rand.Text(), asked: make(chan struct{}, 1),
		store: plan.Store{Unknown: plan.Unasked}, ending: ending{blind: map[string]bool{}}, heard: map[string]bool{}}
}

// tell completes an observation that has the disk and the peers. live are the nonces of the live nodes.
func (g *generations) tell(o *plan.Observation, began time.Time, live map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o.Store = proven(g.store, o.Disk.Ledger.Record)
	if g.orders.Alone != nil && o.Store.Unknown == "" {
		g.orders = plan.Orders{} // for good: it would be a surprise if it came back with the next failure of the store
	}
	if g.ordered == occasion(*o) {
		o.Orders = g.orders
	}
	before := g.ending.open
	g.ending.tell(o, began, live)
	if open := g.ending.open; open != "" && open != before {
		time.AfterFunc(LeaderWait, g.ask) // if it is still open then, it has waited for a leader long enough
	}
}

// proven is what a disk may believe of the store's contents: write access to the store alone must not end a generation
// that a disk knows. A blank disk believes what it finds.
func proven(s plan.Store, own *plan.Record) plan.Store {
	if own == nil || s.Unproven <= own.Generation {
		return s
	}
	unknown := fmt.Sprintf("%v: %s", ErrUnread, s.Doubt)
	return plan.Store{Unknown: unknown, Unread: true, Unproven: s.Unproven, Doubt: s.Doubt}
}

// order sets an operator's orders, which are valid for what was observed.
func (g *generations) order(orders plan.Orders, o plan.Observation) {
	g.mu.Lock()
	g.orders, g.ordered = orders, occasion(o)
	g.mu.Unlock()
	g.look()
}

// occasion identifies what an order was given for. If it has changed, the order is void.
func occasion(o plan.Observation) string {
	text := fmt.Sprint(len(o.Disk.Ledger.Promises), " ", o.Disk.Ledger.Role)
	for _, r := range []*plan.Record{o.Disk.Ledger.Record, o.Store.Record} {
		if r != nil {
			text += " " + r.ID
		}
	}
	return text
}

// renounced drops the orders, and what the store said before its record was moved aside.
func (g *generations) renounced() {
	g.mu.Lock()
	g.orders, g.store = plan.Orders{}, plan.Store{Unknown: "it is being asked again"}
	g.mu.Unlock()
	g.ask()
}

// proposed returns the proposal that was open when the store last answered, and how much longer it waits for an
// objection.
func (g *generations) proposed() (open *plan.Restore, objecting time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.ending.remaining()
}

// unproposed notes that a look that began at began has found no proposal to end this generation.
func (g *generations) unproposed(began time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ending.answered && g.ending.read.Before(began) {
		g.ending.read = began
	}
}

// objected reports whether this node aborted a proposal, and no later look shows it as open: somebody may have deleted
// the abort.
func (g *generations) objected(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ending.objected == id && !g.ending.whole.After(g.ending.aborted)
}

// object notes that this node has aborted a proposal, or could not. In the latter case, a conclusion of it could not be
// prevented from here.
func (g *generations) object(id string, aborted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if aborted {
		g.ending.objected, g.ending.aborted = id, time.Now()
	} else {
		g.ending.blind[id] = true
	}
}

// ask makes the sentinel ask the store at once instead of within ten seconds.
func (g *generations) ask() { wake(g.asked) }

// recheck asks the store at once when another node mentions a proposal or a record that the store has not shown us.
func (g *generations) recheck(o plan.Observation) {
	var ours []string
	if r := o.Store.Restore; r != nil {
		ours = append(ours, r.ID)
	}
	for _, r := range []*plan.Record{o.Store.Record, o.Disk.Ledger.Record} {
		if r != nil {
			ours = append(append(ours, r.ID), r.Line...)
		}
	}
	mentioned := map[string]bool{}
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
			if id != "" && !slices.Contains(ours, id) {
				mentioned[id] = true
			}
		}
	}
	if g.hear(mentioned) {
		g.ask()
	}
}

// hear remembers only what is mentioned now, because IDs come without end. It reports whether any of it is new.
func (g *generations) hear(mentioned map[string]bool) (news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range mentioned {
		news = news || !g.heard[id]
	}
	g.heard = mentioned
	return news
}

// stored notes the result of a look at the whole store that began at began. Looks of the watch and of an operator may
// overtake each other: what a newer one has found is not forgotten for what an older one found. A look for a proposal
// finds nothing else, and a leader's come more often than a slow store answers a whole one.
func (g *generations) stored(s plan.Store, began time.Time) {
	nonces := g.world.Store.Nonces()
	g.mu.Lock()
	if s.Unknown == "" && g.ending.answered && began.Before(g.ending.whole) {
		g.mu.Unlock()
		return
	}
	g.ending.looked(began, s, nonces)
	changed := !reflect.DeepEqual(s, g.store)
	g.store = s
	if s.Unknown == "" {
		g.open = s.Restore
	}
	g.mu.Unlock()
	if changed {
		g.look()
	}
}

// believed returns an error if the store's contents are invalid: then none of it counts, and nothing is taken to be
// absent.
func believed(s plan.Store) error {
	switch err := s.Valid(); {
	case errors.Is(err, plan.ErrUnsupported):
		return fmt.Errorf("%w: what it holds of the cluster is unsupported here: %w: run that version, or "+
			"a newer one, on this node", ErrUnread, err)
	case err != nil:
		return fmt.Errorf("%w: what it holds of the cluster is invalid: %w; bring the objects back from "+
			"another copy of the store", ErrUnread, err)
	}
	return nil
}

// presence names a node in the store.
func presence(node string, at netip.Addr) string { return node + " at " + at.String() }

// unmet returns the other live nodes if the nonce of one was not found in the store.
func (g *generations) unmet() (who []string) {
	g.mu.Lock()
	found := len(g.ending.heard) == 0
	g.mu.Unlock()
	if found {
		return nil
	}
	for _, n := range g.world.Mesh.Nodes(false) {
		if n.Live && n.Name != g.cfg.Node {
			who = append(who, presence(n.Name, n.Address))
		}
	}
	return who
}

func (g *generations) read(all context.Context) plan.Store {
	ctx, cancel := context.WithTimeout(all, storeAge)
	defer cancel()
	s := plan.Store{}
	id, err := g.world.Store.ID(ctx)
	if err == nil {
		err = g.world.Store.Meet(ctx, presence(g.cfg.Node, g.cfg.Address), g.nonce)
	}
	if err == nil {
		s, err = g.world.Store.Known(ctx, g.unmet()...)
		s.ID, s.Nonce = id, g.nonce
	}
	if err == nil {
		err = believed(s)
	}
	if err == nil && s.Record != nil {
		_, s.CID, err = g.world.Etcd.FounderIDs(*s.Record)
	}
	if all.Err() == nil { // otherwise the process ends
		g.said(err)
	}
	if err != nil {
		return plan.Store{Unknown: text(err), Unread: errors.Is(err, ErrUnread)}
	}
	return s
}

// said logs the first of several errors, with the ID of the request that AWS's support asks for and the status lacks.
func (g *generations) said(err error) {
	g.mu.Lock()
	first := err != nil && !g.failed
	g.failed = err != nil
	g.mu.Unlock()
	if first {
		g.lg.Warn("could not read the backup store", zap.Error(err))
	}
}
