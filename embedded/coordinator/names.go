package coordinator

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// names answers for the slots' host names: it knows who holds each slot, and the last known address.
type names struct {
	env
	bugs  *bugs
	moved chan struct{} // write the addresses

	mu      sync.Mutex
	known   map[string]netip.Addr   // slot -> last known address
	kept    map[string]netip.Addr   // what was last to be written
	told    map[string][]netip.Addr // what the resolver was told
	holders map[string]string       // slot -> node that last held it
	only    string                  // the only slot that is answered for; "" for all
}

func newNames(e env, b *bugs) *names {
	return &names{env: e, bugs: b, moved: make(chan struct{}, 1), known: map[string]netip.Addr{},
		holders: map[string]string{}}
}

// learn adds the addresses that a volume remembers, for slots without a known address.
func (n *names) learn(known map[string]netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for slot, a := range known {
		if _, ok := n.known[slot]; !ok {
			n.known[slot] = a
		}
	}
}

// tell adds to an observation which node last held each slot.
func (n *names) tell(o *plan.Observation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o.Holders = maps.Clone(n.holders)
}

// update updates the names to [plan.Holders], and keeps the last known address for slots without a holder. In an
// adopted cluster, the addresses of members that holdfast does not run are added for slots without a live holder (R22).
func (n *names) update(o plan.Observation, accepted bool) {
	addresses, live := map[string]netip.Addr{n.cfg.Node: n.cfg.Address}, map[string]bool{n.cfg.Node: true}
	for _, node := range n.world.Mesh.Nodes(accepted) {
		if node.Name != n.cfg.Node {
			addresses[node.Name], live[node.Name] = node.Address, node.Live
		}
	}
	var slots []string
	var holders map[string]string
	if n.bugs.guard(theNames, func() { slots, holders = o.Slots(), plan.Holders(o) }) != "" {
		return
	}
	n.mu.Lock()
	// These slots were given up: the next node that takes one is not a rival of its old holder.
	maps.DeleteFunc(n.holders, func(slot, _ string) bool {
		return slots != nil && !slices.Contains(slots, slot)
	})
	for _, p := range o.Peers { // what others remember from before this process
		if p.Facts != nil {
			for slot, node := range p.Facts.Holders {
				if n.holders[slot] == "" && (slots == nil || slices.Contains(slots, slot)) {
					n.holders[slot] = node
				}
			}
		}
	}
	for slot, node := range holders {
		n.holders[slot] = node
		if a, ok := addresses[node]; ok && a.IsValid() {
			n.known[slot] = a
		}
	}
	r := o.Disk.Ledger.Record
	adopted := r != nil && r.Cause == plan.Adopted || o.Member.Returning()
	table := n.table(adopted, live)
	if n.only != "" {
		maps.DeleteFunc(table, func(slot string, _ []netip.Addr) bool { return slot != n.only })
	}
	news, moved := !maps.EqualFunc(n.told, table, slices.Equal), !maps.Equal(n.kept, n.known)
	n.told, n.kept = table, maps.Clone(n.known)
	n.mu.Unlock()
	// A restored generation does not show whether its cluster was adopted, and the other program's lines may be left.
	if adopted || r != nil && r.Cause == plan.Founding {
		n.world.Names.Adopt(adopted)
	}
	if news {
		n.world.Names.Set(table)
	}
	if moved {
		n.write()
	}
}

// onlyWhile answers for only one slot's name while begin runs, and then looks again. A founder's etcd asks each of the
// others for its members before it begins, up to 1 s each (bootstrap.go: isMemberBootstrapped). At that time, all
// founders listen and none serves. The question is whether a member that lost its data begins again, which the ledger
// prevents (R2).
func (n *names) onlyWhile(slot string, begin func() error) error {
	n.mu.Lock()
	all := n.told
	n.only, n.told = slot, map[string][]netip.Addr{slot: all[slot]}
	n.world.Names.Set(n.told)
	n.mu.Unlock()
	defer n.look() // for what has changed meanwhile
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.only, n.told = "", all
		n.world.Names.Set(all)
	}()
	return begin()
}

// table is what the resolver answers; live are the live nodes. A lost node's address may still be right, or its slot
// may have been given back to another program elsewhere. So both addresses are returned, and the dialer tries one after
// the other. Only addresses from the gossip are written to the volume. The caller holds mu.
func (n *names) table(adopted bool, live map[string]bool) map[string][]netip.Addr {
	table := make(map[string][]netip.Addr, len(n.known))
	for slot, a := range n.known {
		table[slot] = []netip.Addr{a}
	}
	if !adopted {
		return table
	}
	for slot, addresses := range n.world.Elders() {
		if _, known := n.known[slot]; !known || !live[n.holders[slot]] {
			table[slot] = append(table[slot], addresses...)
		}
	}
	return table
}

// write makes keep write the addresses soon.
func (n *names) write() { wake(n.moved) }

// keep writes the known addresses to the volume when they have changed and a member has run there. The loop does not
// wait for it, because the disk may hang.
func (n *names) keep(ctx context.Context, h *holding) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.moved:
		}
		n.mu.Lock()
		known := maps.Clone(n.known)
		n.mu.Unlock()
		held := h.now()
		if !held.begun() {
			continue
		}
		if err := writeAddresses(held.id.Path, known); err != nil {
			n.lg.Warn("could not store the last known addresses", zap.Error(err))
		}
	}
}
