package plan

import (
	"slices"
)

// node is one process and what it knows.
type node struct {
	w        *world
	i        int
	drill    bool  // not of the cluster: at first on another network
	alien    bool  // another program runs etcd here; holdfast does not run
	own      *disk // of the other program
	name     string
	up       bool
	disk     *disk
	none     string
	todo     []func() // the steps of the action in progress; a crash forgets them
	views    []heard
	seq      uint64 // of facts
	facts    *Facts
	proc     *proc
	removed  bool // etcd stopped because the member was removed
	admitted []Admission
	store    *store
	remote   bool   // the store is out of its reach
	unable   string // why the open proposal could not be prepared
	bad      map[string]bool
	wants    []string        // cluster.slots
	minor    int             // of the etcd in its holdfast
	read     uint64          // when the store last answered
	had      bool            // whether it had a leader then
	waits    string          // ID of the open proposal that it has read
	waited   int             // for how many steps it has had no leader since
	blind    map[string]bool // by record: it could not read the store while that was proposed
	rejoin   bool
	serves   scheme // what its configuration makes it serve to its peers
	files    int    // the newest authority that its files name
	age      int    // how often it has decided since its start
	contest  Contest

	drained, stopping bool
	patience          int   // of a process that was told to stop
	value             *Lock // that this process last took
}

// heard is what a node has heard of another.
type heard struct {
	known bool
	live  bool
	seq   uint64
	facts *Facts
}

// proc is a running etcd member.
type proc struct {
	data    *data
	trusts  int // the newest authority that its files named when it started
	ready   bool
	hasLead bool
	leads   bool // believes that it leads
	members []MemberInfo
	removed []uint64
	consent *Consent
	set     *SlotSet
	lock    *Lock
	paused  *Pause
	cluster string         // version agreed on
	term    uint64         // of its last leadership
	acked   map[uint64]int // what it knows of that term
}

func (n *node) boot() {
	if n.up && n.views != nil {
		return
	}
	if n.alien {
		n.bootAlien()
	}
	if n.alien {
		return
	}
	n.up, n.views, n.none = true, make([]heard, len(n.w.boxes)), ""
	n.w.note("%s boots", n.name)
}

func (n *node) crash() {
	if !n.up {
		return
	}
	n.w.note("%s crashes", n.name)
	if n.disk != nil {
		n.disk.holder = nil
	}
	*n = node{w: n.w, i: n.i, name: n.name, drill: n.drill, alien: n.alien, own: n.own, store: n.store, seq: n.seq, remote: n.remote, wants: n.wants, minor: n.minor, files: n.files, serves: n.serves}
}

// deaf reports whether the store does not answer.
func (n *node) deaf() bool { return n.store.down || n.remote }

// step carries out one durable step of the action in progress, or decides again.
func (n *node) step() {
	if !n.up || n.alien {
		return
	}
	if n.stopping {
		n.depart()
		return
	}
	if n.drained {
		n.refresh()
	}
	if len(n.todo) > 0 {
		do := n.todo[0]
		n.todo = n.todo[1:]
		do()
		return
	}
	n.look()
	o := n.observe()
	n.publish(o)
	a := Next(o)
	n.age++
	n.w.tally.count(a)
	if a.Kind != Wait {
		n.w.note("%s %s %s (%s)", n.name, o.Claim.Slot, a.Kind, a.Text())
	} else {
		n.w.note("%s %s waits: %s", n.name, o.Claim.Slot, a.Text())
	}
	n.w.judge(n, o, a)
	n.w.judgeAdoption(n, o, a)
	n.w.judgeVersions(n, o, a)
	n.perform(a)
}

func (n *node) observe() Observation {
	w := n.w
	o := Observation{
		Node:   n.name,
		Config: Config{Cluster: "main", Slots: n.wants, PeerURL: n.peerURL(), FromHTTP: n.fromHTTP(), Yields: w.host, Adopt: w.adopts, Automatic: w.automatic, Foreign: true, Recovery: w.automatic, Etcd: etcd(n.minor)},
		Store:  Store{ID: n.store.id, Record: n.store.record, Requests: n.store.requests(n.bad), Newest: &BackupStand{}},
		Unable: n.unable, Drained: n.drained, Stopping: n.stopping, Orders: Orders{Join: n.rejoin},
	}
	o.Store.Restore, o.Store.Attempts = n.store.open()
	o.Store.Concluded, o.Store.Aborted = n.store.concluded(), n.store.ended()
	o.Store.Met, o.Store.Late = n.met()
	o.Store.Nonce = n.name
	if w.adopts && w.store == storeShared && o.Store.Record == nil {
		o.Store.Managed = "its mark"
	}
	o.Early = w.travels && n.age < earlySteps
	o.Stirred = w.host && n.age%3 == 0 // gossip may arrive later than the moment that the plan waits
	o.Starting = n.deaf() && n.read == 0 && w.chance(50)
	if w.chance(20) {
		n.unable = ""
	}
	if n.deaf() {
		o.Store = Store{Unknown: "timeout", ID: n.store.id}
	} else if r := n.store.record; r != nil {
		o.Store.CID = r.cid()
	}
	if d := n.disk; d != nil {
		o.Claim = Claim{Held: true, Slot: d.slot, Epoch: d.epoch, Disk: d.uuid, Lock: d.lock}
		o.Disk = Disk{Ledger: d.ledger, HasLedger: d.marker, Built: d.built, Origin: n.origin()}
		if d.data != nil && (o.Disk.Origin == nil || d.moved) {
			o.Disk.WAL, o.Disk.Member, o.Disk.ClusterID = true, d.data.id, d.data.c.cid
			if n.proc == nil || !n.proc.hasLead && w.chance(80) { // a member reports it only after a while
				o.Disk.Log, o.Disk.Term = d.data.end(), d.data.noted
			}
		}
		if r := d.ledger.Record; r != nil {
			o.Disk.RecordCID = r.cid()
			o.Disk.Founders = map[string]uint64{}
			for _, m := range r.founders() {
				o.Disk.Founders[m.Slot] = m.ID
			}
			o.Disk.Founder = o.Disk.Founders[d.slot]
		}
	} else {
		o.Claim.None = n.none
	}
	o.Member = n.member()
	if r := o.Disk.Ledger.Record; r != nil {
		if c := o.Store.child(r); c != nil {
			o.Blind = n.blind[c.ID]
		}
	}
	o.Alone, o.Leaderless = n.alone(o), !o.Member.Led()
	for i, v := range n.views {
		if v.known {
			o.Peers = append(o.Peers, Peer{Node: w.boxes[i].name, Live: v.live, Facts: v.facts})
		}
	}
	return o
}

func (n *node) member() Member {
	m := Member{Removed: n.removed}
	p := n.proc
	if p == nil {
		return m
	}
	m.Running, m.Ready, m.Leader, m.HasLead, m.ID = true, p.ready, p.leads, p.hasLead, p.data.id
	m.Members, m.Paused = slices.Clone(p.members), p.paused
	m.ClusterVersion, m.Stale = p.cluster, p.trusts != n.files
	m.Trusts, m.Issuer = n.papers()
	m.Confirmed, m.Consent = m.HasLead && n.led(), p.consent
	m.Admitted, m.Set, m.Lock, m.Near = n.admitted, p.set, p.lock, n.near()
	for i := range m.Members {
		mi := &m.Members[i]
		if mi.ID == m.ID {
			m.Learner = mi.Learner
		}
		r := p.data.c.runner(n.w, mi.ID)
		mi.Connected = p.leads && r != nil && n.w.reach(n, r)
		switch {
		case p.leads && mi.ID == m.ID:
			mi.Matched = uint64(p.data.match)
		case p.leads:
			m.Leads, mi.Acked, mi.Matched = p.term, uint64(p.acked[mi.ID]), uint64(p.acked[mi.ID])
		}
	}
	return m
}

// publish puts this node's current facts into the gossip.
func (n *node) publish(o Observation) {
	var removed []uint64
	for _, p := range o.Peers { // as the coordinator does: only those that a node needs to know
		if n.proc != nil && p.Facts != nil {
			for _, id := range []uint64{p.Facts.Member, p.Facts.Join} {
				if id != 0 && slices.Contains(n.proc.removed, id) {
					removed = append(removed, id)
				}
			}
		}
	}
	f := o.Facts(removed).Quiet()
	n.w.checkWhole(o, f)
	n.w.clock++
	n.facts, n.seq = &f, n.w.clock
}

// deliver passes all that one node has heard to another.
func (w *world) deliver(from, to *node) {
	if from == to || !from.up || !to.up || from.alien || to.alien || w.gossipCut[from.i][to.i] || from.drill != to.drill && !w.contact || !w.hears(from, to) {
		return
	}
	v := &to.views[from.i]
	v.known, v.live = true, true
	if w.chance(5) {
		return // only the heartbeat got through
	}
	if from.facts != nil && from.seq > v.seq {
		v.seq, v.facts = from.seq, from.facts
	}
	for k, other := range from.views {
		mine := &to.views[k]
		if k == to.i || k == from.i || !other.known {
			continue
		}
		if !mine.known {
			mine.known, mine.live = true, other.live
		}
		if other.facts != nil && other.seq > mine.seq {
			mine.seq, mine.facts = other.seq, other.facts
		}
	}
}

// suspect lets a node's failure detector judge another node, mostly rightly.
func (w *world) suspect(n, m *node) {
	if n == m || !n.up || !n.views[m.i].known {
		return
	}
	alive := m.up && !m.alien && !w.gossipCut[m.i][n.i] && w.hears(m, n)
	if w.chance(15) {
		alive = !alive
	}
	n.views[m.i].live = alive
}

// acquire claims a free disk.
func (n *node) acquire(a Action) {
	w, avoid := n.w, a.Avoid
	row, order := w.disks[0], w.rng.Perm(len(w.names))
	if n.drill && !w.host {
		row = w.disks[1]
	}
	if w.host {
		row = w.disks[n.i]
		slices.Sort(order)
		for s, d := range row { // a host that has a disk takes it, else it makes one
			if d != nil && !d.released {
				order, avoid = []int{s}, nil
			} else if d != nil {
				order = []int{s}
			}
		}
	}
	n.none = "no free volume"
	for _, s := range order {
		if avoid[w.names[s]] != "" || !slices.Contains(n.wants, w.names[s]) && !slices.Contains(a.Known, w.names[s]) {
			continue
		}
		if row[s] == nil {
			row[s] = w.format(w.names[s])
		}
		d := row[s]
		if d.holder != nil {
			continue
		}
		d.holder, d.released, n.disk, n.none = n, false, d, ""
		d.epoch++
		w.note("%s claims %s at %d", n.name, d.uuid, d.epoch)
		return
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
