package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"holdfast/embedded/plan"
)

// generations is what this process knows of the cluster's generations beside its disk: what the store says, the
// proposals that would end the one it is in, and what an operator has ordered about it. One lock guards it all, so that
// what an observation says of the store and how long that has been so fit together.
type generations struct {
	env
	nonce string        // of this process, for others to find in the store that they share with it
	asked chan struct{} // ask the store again

	mu      sync.Mutex
	store   plan.Store
	open    *plan.Restore // the proposal that was open when the store answered last
	ending  ending
	heard   map[string]bool // what others spoke of, and the store was asked for
	orders  plan.Orders
	ordered string // what the ledger and the store said when the orders were given
}

func newGenerations(e env) *generations {
	return &generations{env: e, nonce: rand.Text(), asked: make(chan struct{}, 1),
		store: plan.Store{Unknown: plan.Unasked}, ending: ending{blind: map[string]bool{}}, heard: map[string]bool{}}
}

// tell completes an observation that has the disk and the peers. live are the nonces of the nodes that are heard.
func (g *generations) tell(o *plan.Observation, began time.Time, live map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o.Store = proven(g.store, o.Disk.Ledger.Record)
	if g.orders.Alone != nil && o.Store.Unknown == "" {
		g.orders = plan.Orders{} // for good: it would come as a surprise when the store is away again
	}
	if g.ordered == occasion(*o) {
		o.Orders = g.orders
	}
	before := g.ending.open
	g.ending.tell(o, began, live)
	if open := g.ending.open; open != "" && open != before {
		time.AfterFunc(LeaderWait, g.look) // it has waited for a leader long enough then
	}
}

// proven is what the store says as far as a disk may go by it: anyone who can only write the store ends no
// generation that a disk knows. A blank disk believes what it finds.
func proven(s plan.Store, own *plan.Record) plan.Store {
	if own == nil || s.Unproven <= own.Generation {
		return s
	}
	unknown := fmt.Sprintf("%v: %s", ErrUnread, s.Doubt)
	return plan.Store{Unknown: unknown, Unread: true, Unproven: s.Unproven, Doubt: s.Doubt}
}

// order takes up an operator's orders, which hold for what was observed.
func (g *generations) order(orders plan.Orders, o plan.Observation) {
	g.mu.Lock()
	g.orders, g.ordered = orders, occasion(o)
	g.mu.Unlock()
	g.look()
}

// occasion identifies what an order was given for. When it has changed, the order is void.
func occasion(o plan.Observation) string {
	text := fmt.Sprint(len(o.Disk.Ledger.Promises), " ", o.Disk.Ledger.Role)
	for _, r := range []*plan.Record{o.Disk.Ledger.Record, o.Store.Record} {
		if r != nil {
			text += " " + r.ID
		}
	}
	return text
}

// renounced forgets what was ordered, and what the store said before its record was moved aside.
func (g *generations) renounced() {
	g.mu.Lock()
	g.orders, g.store = plan.Orders{}, plan.Store{Unknown: "it is being asked again"}
	g.mu.Unlock()
	g.ask()
}

// proposed is the proposal that was open when the store answered last, and how long it waits here for an objection.
func (g *generations) proposed() (open *plan.Restore, objecting time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.ending.remaining()
}

// unproposed notes that a look that began at a time has found no proposal to end this generation.
func (g *generations) unproposed(began time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ending.answered {
		g.ending.read = began
	}
}

// objected reports whether a proposal was aborted from here, and no look that began since shows it open all the same:
// somebody may have deleted the abort.
func (g *generations) objected(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ending.objected == id && !g.ending.read.After(g.ending.aborted)
}

// object notes that a proposal was aborted from here, or that it could not be: if it is concluded, it could not be
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

// ask has the store asked at once instead of within ten seconds.
func (g *generations) ask() { wake(g.asked) }

// recheck has the store asked at once when another node knows of a proposal or a record that it has not told us
// of.
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
			if id != "" && !slices.Contains(ours, id) && g.unheard(id) {
				g.ask()
			}
		}
	}
}

func (g *generations) unheard(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.heard[id]
	g.heard[id] = true
	return first
}

// stored takes up what a look at the store that began at a time has told.
func (g *generations) stored(s plan.Store, began time.Time) {
	nonces := g.world.Store.Nonces()
	g.mu.Lock()
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

// believed returns an error if what the store holds is not whole: nothing of it counts then, and nothing is taken to be
// absent.
func believed(s plan.Store) error {
	switch err := s.Valid(); {
	case errors.Is(err, plan.ErrUnsupported):
		return fmt.Errorf("%w: what it holds of the cluster is unsupported here: %w: run that version, or "+
			"a newer one, on this node", ErrUnread, err)
	case err != nil:
		return fmt.Errorf("%w: what it holds of the cluster is not whole: %w; bring the objects back from "+
			"another copy of the store", ErrUnread, err)
	}
	return nil
}

func (g *generations) read(ctx context.Context) plan.Store {
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	s := plan.Store{}
	id, err := g.world.Store.ID(ctx)
	if err == nil {
		err = g.world.Store.Meet(ctx, g.cfg.Node+" at "+g.cfg.Address.String(), g.nonce)
	}
	if err == nil {
		s, err = g.world.Store.Known(ctx)
		s.ID, s.Nonce = id, g.nonce
	}
	if err == nil {
		err = believed(s)
	}
	if err == nil && s.Record != nil {
		_, s.CID, err = g.world.Etcd.FounderIDs(*s.Record)
	}
	if err != nil {
		return plan.Store{Unknown: err.Error(), Unread: errors.Is(err, ErrUnread)}
	}
	return s
}
