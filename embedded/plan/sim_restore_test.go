package plan

import (
	"fmt"
	"slices"
	"strings"
)

// proposed is a proposal in the store, with its outcome.
type proposed struct {
	Restore
	aborted   bool
	concluded bool
	by        string  // disk that objected
	reopened  bool    // somebody has deleted its abort
	record    *Record // as which it was concluded
	made      uint64
}

// open returns the proposal that has no outcome yet, and how many there were for its generation.
func (st *store) open() (*Restore, int) {
	n := 0
	for _, p := range st.proposals {
		if st.record == nil || p.Parent() != st.record.ID {
			continue
		}
		n++
		if !p.aborted && !p.concluded {
			return &p.Restore, n
		}
	}
	return nil, n
}

// requests are the commands that no proposal names.
func (st *store) requests(bad map[string]bool) []Request {
	var list []Request
	for _, c := range st.commands {
		if slices.ContainsFunc(st.proposals, func(p *proposed) bool { return p.Command == c }) {
			continue
		}
		r := Request{Command: c, Backup: "b", By: "etcd-manager-ctl"}
		if bad[c] {
			r.Problem, r.Over = "no backup has that name", true
		}
		list = append(list, r)
	}
	return list
}

func (st *store) pending(command string) bool {
	return slices.ContainsFunc(st.requests(nil), func(r Request) bool { return r.Command == command })
}

// propose puts a restore into the store, unless one is open. Its slots are those that the asked node knows; if it knows
// none, those of the record.
func (w *world) propose(st *store, n *node, r Restore) {
	open, attempts := st.open()
	if open != nil || st.record == nil {
		return
	}
	if r.Survivor == "" && n.up && w.resizes {
		r.Slots = n.observe().Founders(st.record)
	}
	if r.Command != "" && slices.ContainsFunc(st.proposals, func(p *proposed) bool { return p.Command == r.Command }) {
		w.fail("R13: the command %s runs a second time", r.Command)
	}
	w.clock++
	r.Cluster, r.Generation, r.Attempt, r.ID = "main", st.record.Generation+1, attempts+1, fmt.Sprintf("%016x", w.clock)
	r.Line = append(slices.Clone(st.record.Line), st.record.ID)
	r.PeerURL = SecureURL(*st.record, n.peerURL())
	if r.Survivor == "" {
		r.Backup, r.Digest = "b", strings.Repeat("b", 64)
	}
	w.honest(r)
	st.proposals = append(st.proposals, &proposed{Restore: r, made: w.clock})
	w.note("%s proposes the %s as %s after %s, slots %v, lost %v", r.By, r.Title(), r.ID, st.record.ID, r.Slots, r.Lost)
	w.tally.event("proposed by " + r.By)
}

func (w *world) abort(st *store) {
	for _, p := range st.proposals {
		if !p.aborted && !p.concluded {
			p.aborted = true
			w.note("the operator aborts %s", p.ID)
			w.tally.event("aborted")
		}
	}
}

// operate lets the operator, or another program, act from anywhere.
func (w *world) operate() {
	st := w.stores[0]
	if w.store != storeShared || !w.restores || st.down {
		return
	}
	r := w.rng.IntN(10)
	if w.bleak && r < 8 {
		r = 9
	}
	switch {
	case r < 5:
		var lost []string
		if w.chance(70) {
			lost = w.dead()
		}
		n := w.someNode()
		w.propose(st, n, Restore{By: "the operator", Lost: lost, Led: n.shown(), Overruled: st.objections(w)})
		if w.chance(80) {
			w.confirm(st, n)
		}
	case r < 7:
		w.abort(st)
	case r < 8:
		w.clock++
		st.commands = append(st.commands, fmt.Sprintf("c%d", w.clock))
	default:
		w.operatorRecovers(w.someNode())
	}
}

// dead are the slots whose voters can never vote again: an honest operator names these.
func (w *world) dead() []string {
	r := w.stores[0].record
	if r == nil {
		return nil
	}
	var dead []string
	for _, s := range w.names {
		alive := slices.ContainsFunc(w.here(), func(d *disk) bool {
			seat, _ := r.Charter.Seat(d.slot)
			began := d.data != nil && d.data.c.record.ID == r.ID || seat.Disk == d.uuid && d.data != nil || seat.Disk == d.uuid && r.Restore != nil && d.begins(r)
			promised := slices.ContainsFunc(d.ledger.Promises, func(c Charter) bool { return c.ID() == r.Lineage() })
			mayBegin := d.data == nil && d.ledger.Started == "" && (d.ledger.Role == RoleFounder || d.ledger.Record == nil)
			return d.slot == s && (began || promised && mayBegin)
		})
		if !alive {
			dead = append(dead, s)
		}
	}
	return dead
}

// begins reports whether a disk with a seat in a restored generation can still begin with it: it has not given the seat
// up, and if only its own data could continue, that data exists.
func (d *disk) begins(r *Record) bool {
	entered := d.ledger.Record != nil && d.ledger.Record.ID == r.ID
	whole := d.built == r.ID && d.complete
	return d.ledger.Started == "" && (!entered || d.ledger.Role == RoleFounder && (r.Cause != Recovered || whole))
}

// given are the slots that the operator gives up when no fault is left: first the dead ones, and if that was not
// enough, also those that the nodes report as missing.
func (w *world) given(missing []string) []string {
	lost := slices.Concat(w.dead(), missing)
	slices.Sort(lost)
	return slices.Compact(lost)
}

// missing are the slots that the nodes report as missing for the open proposal.
func (w *world) missing() (all []string) {
	for _, n := range w.boxes {
		o := n.observe()
		if p := o.Store.Restore; p != nil && o.Store.Unknown == "" {
			all = append(all, fencing(look(&o)).fence(o.Store.Record, p).missing...)
		}
	}
	return all
}

// restoring lays out the steps of a restore.
func (n *node) restoring(a Action) {
	d := n.disk
	write := func() { n.write(d, a) }
	tell := func() { n.publish(n.observe()) }
	stop := func() { n.proc, n.removed = nil, false }
	switch a.Kind {
	case Mirror:
		n.todo = []func(){func() {
			if st := n.store; !n.deaf() && !st.none && (st.record == nil || a.Record.descends(st.record)) {
				st.record = a.Record
			}
		}}
	case Propose:
		n.todo = []func(){func() { n.ask(*a.Request) }}
	case Dismiss:
		n.todo = []func(){func() { n.dismiss(a.Request.Command) }}
	case Discard:
		n.todo = []func(){func() { n.clear(d) }, write, tell}
	case Conclude:
		n.todo = []func(){func() { n.conclude(*a.Record) }, tell}
	case Enter:
		n.todo = []func(){stop, write, tell}
	case Swap:
		n.todo = []func(){stop, func() { n.swapOut(d, *a.Record) }, func() { n.swapIn(d, *a.Record) }, write, tell}
	}
}

// ask verifies the requested backup and proposes its restore.
func (n *node) ask(r Request) {
	switch {
	case n.deaf() || n.store.none:
	case r.Command != "" && !n.store.pending(r.Command): // it has an outcome meanwhile
	case r.Command != "" && n.w.chance(20):
		if n.bad == nil {
			n.bad = map[string]bool{}
		}
		n.bad[r.Command] = true
	default:
		n.w.propose(n.store, n, Restore{By: "node", Command: r.Command, Lost: r.Lost, Survivor: r.Survivor, Disk: r.Disk, Log: r.Log, Led: n.shown()})
		n.w.confirm(n.store, n)
	}
}

// dismiss deletes a command.
func (n *node) dismiss(command string) {
	if !n.deaf() {
		n.store.commands = slices.DeleteFunc(n.store.commands, func(c string) bool { return c == command })
		n.w.tally.event("dismissed a command")
	}
}

func (n *node) build(d *disk, id string) {
	if n.deaf() || n.w.chance(15) {
		n.unable = "disk full"
		n.abort()
		return
	}
	d.built, d.complete = id, false
}

// clear removes what was built, unless the store now says that it is wanted.
func (n *node) clear(d *disk) {
	if p := d.ledger.Prepared; p != nil && !n.deaf() && n.store.record != nil && n.store.record.ID == p.ID && d.ledger.Record != nil && d.ledger.Record.Generation < p.Generation {
		n.abort()
		return
	}
	d.built, d.complete = "", false
}

// conclude makes a record the outcome of the open proposal.
func (n *node) conclude(r Record) {
	open, _ := n.store.open()
	if n.deaf() || open == nil || open.ID != r.ID || r.Restore.Led == nil && n.hearsLeader(r) {
		n.abort()
		return
	}
	n.w.concluding(n, r)
	n.w.concludingBeside(r)
	for _, p := range n.store.proposals {
		if p.ID == r.ID {
			p.concluded, p.record = true, &r
		}
	}
	n.store.record = &r
	n.w.clusterOf(r)
	n.w.note("%s concludes %s: %v", n.name, r.Token(), r.Charter.Seats)
	n.w.tally.event("concluded a " + strings.Split(r.Restore.Title(), " ")[0])
	if r.Cause == Recovered {
		n.w.chosen(r)
	}
	if n.w.chance(10) { // the answer may be lost
		n.abort()
	}
}

// hearsLeader asks every node that runs a member of the ending generation whether it has a leader, as the coordinator
// does.
func (n *node) hearsLeader(r Record) bool {
	w := n.w
	return slices.ContainsFunc(w.boxes, func(m *node) bool {
		return m != n && m.up && !m.alien && n.drill == m.drill && !w.gossipCut[n.i][m.i] && !w.gossipCut[m.i][n.i] &&
			m.proc != nil && m.proc.data.c.record.ID == r.Parent() && m.led()
	})
}

func (n *node) swapOut(d *disk, r Record) {
	if d.data != nil && d.data.c.record.ID != r.ID {
		n.w.whole(d, r)
		n.setAside(d)
	}
}

func (n *node) swapIn(d *disk, r Record) {
	w := n.w
	if d.data != nil {
		return
	}
	if d.built != r.ID || !d.complete {
		w.fail("I8: disk %s swaps in what was not prepared for %s", d.uuid, r.Token())
	}
	if d.pattern != r.Charter.PeerURL {
		w.fail("R24: disk %s swaps in members at %s, and %s has them at %s", d.uuid, d.pattern, r.Token(), r.Charter.PeerURL)
	}
	d.data, d.built, d.complete = &data{c: w.clusterOf(r), id: hash(r.Token(), d.slot), base: r.ID, list: r.founders()}, "", false
}

// entered: a disk only goes forward, into what the store has as committed, and once for each generation.
func (w *world) entered(d *disk, old Ledger) {
	r := d.ledger.Record
	if r == nil || old.Record != nil && old.Record.ID == r.ID {
		return
	}
	if old.Record != nil && r.Generation < old.Record.Generation {
		w.fail("I5: disk %s goes back from %s to %s", d.uuid, old.Record.Token(), r.Token())
	}
	if r.Generation == 1 {
		return
	}
	if i := slices.IndexFunc(d.went, func(o Record) bool { return o.Generation == r.Generation }); i >= 0 && d.went[i].ID != r.ID {
		w.fail("I5: disk %s accepts %s after %s", d.uuid, r.Token(), d.went[i].Token())
	}
	d.went = append(d.went, *r)
	for _, p := range d.holder.store.proposals {
		if p.ID == r.ID && !p.concluded {
			w.fail("I10: disk %s accepts %s, which was never concluded", d.uuid, r.Token())
		}
	}
}

// able reports whether the existing disks could form a majority of a cluster's voters.
func (w *world) able(c *cluster) bool {
	n := 0
	for _, d := range w.here() {
		r := d.ledger.Record
		switch {
		case r != nil && r.ID != c.record.ID && !(d.holder != nil && d.holder.proc != nil):
		case d.ledger.Left != nil && !(d.holder != nil && d.holder.proc != nil): // it votes there only after an abort
		case d.data != nil && d.data.c == c:
			m := c.find(d.data.id)
			n += boolToInt(m != nil && !m.Learner)
		}
	}
	return n > c.voters()/2
}

// fenced: when a generation has its first leader, earlier ones can never have one again.
func (w *world) fenced(c *cluster) {
	for _, o := range w.clusters {
		if !c.record.descends(&o.record) || !w.able(o) || w.lied(c.record) {
			continue
		}
		if w.host && c.record.Restore.By == "node" && len(c.record.Restore.Lost) > 0 {
			w.tally.event("restored by itself while the disks were on other hosts")
			continue
		}
		w.fail("I9: %s has a leader, and the disks of %s could still have one", c.record.Token(), o.record.Token())
	}
}

// outdated: nothing is committed in a generation after a later one has a leader.
func (w *world) outdated(c *cluster) {
	for _, o := range w.clusters {
		if o.quorate && o.record.descends(&c.record) && !w.lied(o.record) && !(w.host && o.record.Restore.By == "node" && len(o.record.Restore.Lost) > 0) {
			w.fail("I9: %s commits a write after %s had a leader", c.record.Token(), o.record.Token())
		}
	}
}

// followed reports whether the cluster of a record has continued for good.
func (w *world) followed(r Record) bool {
	return w.stores[0].followed(r)
}
