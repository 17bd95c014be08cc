package coordinator

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// observe gathers all that is known. ended is not nil when etcd ended by itself for another reason than
// a removal.
func (c *Coordinator) observe() (o plan.Observation, ended error) {
	accepted := c.accepted()
	o, ended = c.observeAmong(c.world.Mesh.Nodes(accepted))
	if accepted && ended == nil && o.Disk.Ledger.Record == nil { // given up meanwhile: witnesses are needed again
		o, ended = c.observeAmong(c.world.Mesh.Nodes(false))
	}
	return o, ended
}

// accepted reports whether the disk here has accepted a record: it founds nothing any more.
func (c *Coordinator) accepted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.volume != nil && c.volume.Mismatch() == "" && c.ledger.Record != nil
}

func (c *Coordinator) observeAmong(nodes []Node) (o plan.Observation, ended error) {
	live := map[string]string{}
	member, ended := c.world.Etcd.State()
	data := c.inspect(member) // not under the lock: a disk may hang
	witnesses := c.world.Volumes.Witnesses()
	c.mu.Lock()
	defer c.mu.Unlock()
	o = plan.Observation{Node: c.cfg.Node, Config: c.cfg.Plan, Member: member, Store: c.store, Early: time.Since(c.began) < early, Parked: c.parked, Witnesses: witnesses,
		Drained: c.drained.on, Stopping: c.stopping}
	if at, ok := c.world.Mesh.Twin(); ok {
		o.Twin = at.String()
	}
	o.Claim.None, o.Holders = c.none, maps.Clone(c.holders)
	for _, n := range nodes {
		if n.Name != c.cfg.Node {
			d := c.decode(n)
			p := plan.Peer{Node: n.Name, Live: n.Live, Facts: d.facts, Unread: d.unread}
			if o.Peers = append(o.Peers, p); p.Live && p.Facts != nil {
				live[p.Node] = p.Facts.Nonce
			}
		}
	}
	path := ""
	if c.volume != nil {
		id := c.volume.Identity()
		path = c.path
		o.Claim = plan.Claim{Held: true, Slot: id.Slot, Epoch: id.Epoch, Disk: id.Disk, Mismatch: c.volume.Mismatch(), Missing: c.volume.Missing()}
		if o.Claim.Mismatch == "" {
			o.Disk = c.disk(data)
		}
	}
	c.now.Rooms = c.world.Rooms(path)
	o.Claim.Room = c.now.Rooms.Volume
	o.Member = o.Member.Within(o.Disk.Ledger.Record)
	if member.Leader {
		o.Member.Admitted = slices.SortedFunc(maps.Values(c.admitted), func(a, b plan.Admission) int {
			return slices.Compare([]byte(a.Slot), []byte(b.Slot))
		})
	} else {
		clear(c.admitted) // a leader's word is worth nothing when it is no longer the leader
	}
	c.restoring.known(&o)
	c.upkeep.known(&o, time.Now())
	c.learners.known(&o, time.Now())
	if c.orders.Alone != nil && o.Store.Unknown == "" {
		c.orders = plan.Orders{} // for good: it would come as a surprise when the store is away again
	}
	if c.ordered == occasion(o) {
		o.Orders = c.orders
	}
	c.ending.tell(&o, c.began, live)
	return o, ended
}

// inspected is what was found in etcd's data directory.
type inspected struct {
	Data
	err error
	log *plan.LogEnd // nil: it is not known, or not to be told
}

// inspect looks into the data directory, unless etcd runs and has a leader: then its log is known to be there, and where
// it ends is no news.
func (c *Coordinator) inspect(m plan.Member) inspected {
	c.mu.Lock()
	now := time.Now()
	if !m.Running || m.Led() {
		c.led, c.log, c.logged = now, nil, time.Time{}
	}
	look, known := now.Sub(c.led) >= leaderless && now.Sub(c.logged) >= logAge, c.log
	path, usable, before := c.path, c.volume != nil && c.volume.Mismatch() == "" && c.broken == "", c.now.Observation.Disk
	c.mu.Unlock()
	if !usable {
		return inspected{}
	}
	if m.Running && before.Member != 0 && !look {
		return inspected{Data: Data{WAL: true, Member: before.Member, ClusterID: before.ClusterID}, log: known}
	}
	data, err := c.world.Etcd.Inspect(filepath.Join(path, EtcdDir))
	if m.Running && (!look || err != nil) {
		return inspected{data, err, known}
	}
	if m.Running {
		c.mu.Lock()
		c.log, c.logged = &data.Log, now
		c.mu.Unlock()
	}
	return inspected{data, err, &data.Log}
}

// decode reads the facts that a node published. What is not understood is nothing said, and why is told.
func (c *Coordinator) decode(n Node) decoded {
	if n.State == nil {
		return decoded{}
	}
	if d, ok := c.seen[n.Name]; ok && d.stamp == n.Stamp {
		return d
	}
	facts, err := ReadFacts(n.State)
	d := decoded{n.Stamp, facts, text(err)}
	if err != nil && d.unread != c.seen[n.Name].unread {
		c.lg.Warn("what a node said does not count", zap.String("node", n.Name), zap.Error(err))
	}
	if old := c.seen[n.Name].facts; old != nil && d.facts != nil && old.Restore != "" && d.facts.Restore == "" {
		c.AskStore() // that node knows what became of the restore
	}
	c.seen[n.Name] = d
	return d
}

// disk describes what is on the held volume.
func (c *Coordinator) disk(data inspected) plan.Disk {
	d := plan.Disk{Unknown: c.broken, Unfit: c.unfit.why, Ledger: c.ledger.Ledger, HasLedger: c.found}
	if data.err != nil {
		d.Unknown = data.err.Error()
	}
	if d.Unknown != "" {
		return d
	}
	// etcd creates a founder's log before it writes the member list into it. Killed in between, the disk
	// never voted, and etcd would take the log up with a list of nobody and never elect: it is no log.
	if !data.Unborn || d.Ledger.Role != plan.RoleFounder {
		d.WAL, d.Member, d.ClusterID = data.WAL, data.Member, data.ClusterID
		if d.WAL {
			d.Log, d.Term = data.log, data.Term
		}
	}
	if r := d.Ledger.Record; r != nil {
		members, cluster, err := c.world.Etcd.FounderIDs(*r)
		if err != nil {
			d.Unknown = err.Error()
			return d
		}
		d.RecordCID, d.Founders = cluster, members
		if seat, ok := r.Charter.Seat(c.volume.Identity().Slot); ok {
			d.Founder = members[seat.Slot]
		}
	}
	return d
}

// publish tells the mesh what changed in what we say of ourselves.
func (c *Coordinator) publish(o plan.Observation) {
	data, err := c.told(o, true)
	if err != nil { // what was told before stands
		return
	}
	c.mu.Lock()
	changed := c.facts != string(data)
	c.facts = string(data)
	c.mu.Unlock()
	if changed {
		c.world.Mesh.Publish(data)
	}
}

// removed returns those of the members that others hold data of, or admissions for, which a quorum has
// removed: they cannot know it, for nobody talks to a removed member.
func (c *Coordinator) removed(o plan.Observation) []uint64 {
	var ids []uint64
	for _, p := range o.Peers {
		if p.Facts == nil || !o.Member.Running {
			continue
		}
		for _, id := range []uint64{p.Facts.Member, p.Facts.Join} {
			if id != 0 && c.world.Etcd.IsRemoved(id) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// name keeps the names of the slots up to date: what [plan.Holders] says, and where it says nothing, the
// last address that was known.
func (c *Coordinator) name(o plan.Observation) {
	addresses := map[string]netip.Addr{c.cfg.Node: c.cfg.Address}
	for _, n := range c.world.Mesh.Nodes(c.accepted()) {
		if n.Name != c.cfg.Node {
			addresses[n.Name] = n.Address
		}
	}
	var slots []string
	var holders map[string]string
	if c.guard(theNames, func() { slots, holders = o.Slots(), plan.Holders(o) }) != "" {
		return
	}
	c.mu.Lock()
	maps.DeleteFunc(c.holders, func(slot, _ string) bool { // given up: whoever takes it next is not the old holder's rival
		return slots != nil && !slices.Contains(slots, slot)
	})
	for _, p := range o.Peers { // what others remember of times when we were not there
		if p.Facts != nil {
			for slot, node := range p.Facts.Holders {
				if c.holders[slot] == "" && (slots == nil || slices.Contains(slots, slot)) {
					c.holders[slot] = node
				}
			}
		}
	}
	for slot, node := range holders {
		c.holders[slot] = node
		if a, ok := addresses[node]; ok && a.IsValid() {
			c.known[slot] = a
		}
	}
	changed := !maps.Equal(c.named, c.known)
	known := maps.Clone(c.known)
	c.named = known
	c.mu.Unlock()
	if !changed {
		return
	}
	table := make(map[string][]netip.Addr, len(known))
	for slot, a := range known {
		table[slot] = []netip.Addr{a}
	}
	c.world.Names.Set(table)
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// keepAddresses writes the known addresses to the volume when they have changed and a member runs there.
// The loop does not wait for it, for the disk may hang.
func (c *Coordinator) keepAddresses(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.moved:
		}
		c.mu.Lock()
		known, path, keep := maps.Clone(c.known), c.path, c.volume != nil && !c.dead && c.ledger.Started != ""
		c.mu.Unlock()
		if !keep {
			continue
		}
		if err := writeAddresses(path, known); err != nil {
			c.lg.Warn("the last known addresses could not be stored", zap.Error(err))
		}
	}
}

// watchStore asks the store what it knows until ctx ends. A store that hangs is one that does not answer;
// it is not asked again before it has, and nobody waits for it.
func (c *Coordinator) watchStore(ctx context.Context) {
	answers := make(chan plan.Store, 1)
	var began time.Time
	asked := false
	for {
		if !asked {
			asked, began = true, time.Now()
			go func() { answers <- c.askStore(ctx) }()
		}
		wait := storeAge
		select {
		case <-ctx.Done():
			return
		case s := <-answers:
			asked = false
			c.stored(s, began)
			c.object(ctx, nil)
			if m, _ := c.world.Etcd.State(); s.Unknown != "" {
				wait = tick
			} else if !m.Running || !m.HasLead {
				wait = pollAlone
			}
		case <-time.After(storeAge + tick):
			c.stored(plan.Store{Unknown: "no answer within " + storeAge.String()}, began)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-c.asked:
		case <-time.After(wait):
		}
	}
}

// stored takes up what a look at the store that began at a time has told.
func (c *Coordinator) stored(s plan.Store, began time.Time) {
	c.mu.Lock()
	c.ending.looked(began, s, c.world.Store.Nonces())
	changed := !reflect.DeepEqual(s, c.store)
	c.store = s
	if s.Unknown == "" {
		c.restoring.open = s.Restore
	}
	c.mu.Unlock()
	if changed {
		c.Look()
	}
}

func (c *Coordinator) askStore(ctx context.Context) plan.Store {
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	s := plan.Store{}
	id, err := c.world.Store.ID(ctx)
	if err == nil {
		err = c.world.Store.Meet(ctx, c.cfg.Node+" at "+c.cfg.Address.String(), c.nonce)
	}
	if err == nil {
		s, err = c.world.Store.Known(ctx)
		s.ID, s.Nonce = id, c.nonce
	}
	if err == nil {
		err = believed(s)
	}
	if err == nil && s.Record != nil {
		_, s.CID, err = c.world.Etcd.FounderIDs(*s.Record)
	}
	if err != nil {
		return plan.Store{Unknown: err.Error(), Unread: errors.Is(err, ErrUnread)}
	}
	return s
}
