package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// A life is the setting of one simulated cluster.
type life struct {
	slots     int
	nodes     int
	host      bool // every node has its own disks (scope: host); else all nodes see one disk for each slot
	store     storeMode
	ticks     int  // of the faulty phase
	wipes     int  // disks that may be lost
	old       bool // healthy before the faults
	restores  bool // the operator restores now and then
	busy      bool // and often
	automatic bool // restore.automatic
	bleak     bool // majorities are lost, and the operator recovers rather than restores
	resizes   bool // the operator changes the slots now and then
	eager     bool // and often
	versions  bool // etcds are upgraded and downgraded
	drains    bool // members are drained, restarted and stopped on purpose
	renews    bool // the files of the trusted authorities change, and old authorities expire
	drills    int  // nodes that are not the cluster's: a drill on its store or on a copy, a stray cluster of its name
	kind      drillKind
	travels   bool // disks go back in time
	deletes   bool // somebody deletes aborts in the store
	secures   bool // founded with http; the operator adds and removes TLS
	adopts    bool // another program has founded the cluster, and its machines are taken over one by one
	calm      bool // few crashes, many partitions: most of the time is spent founding
}

type storeMode int

const (
	storeNone storeMode = iota
	storeShared
	storeOwn // every node has another store
)

// world is everything that exists. All randomness comes from rng and no map is iterated, so that a seed determines a
// life.
type world struct {
	life
	rng       *rand.Rand
	names     []string // all slots that are ever wanted
	goal      []string // what the operator wants now
	minor     int      // the etcd minor that nodes should have now, in a life of versions
	wave      scheme   // what the operator is about to make all nodes serve, in a life that secures
	boxes     []*node
	disks     [][]*disk // by owner (one for all without host) and slot
	lost      []*disk
	clusters  []*cluster
	alien     *cluster // that another program founded
	stores    []*store
	gossipCut [][]bool // from, to
	peerCut   [][]bool // symmetric
	clock     uint64
	issued    int               // the newest authority
	standing  map[[2]*proc]bool // connections of members that once accepted each other
	ended     int               // authorities up to this one have expired
	tally     *tally
	broken    string
	over      string          // why the life ends here although nothing is violated
	lies      map[string]bool // recoveries that declared a voter lost that was not
	drilling  bool
	rows      int  // of disks, without those of a drill
	contact   bool // the gossip of a drill is connected with ours
	trace     func(format string, args ...any)
}

type disk struct {
	uuid   string
	lock   string // the name of its lock: no other disk has it
	slot   string
	epoch  uint64
	ledger Ledger
	said   []Charter // every promise ever made, whatever happened to the ledger
	marker bool      // the ledger file exists
	data   *data
	aside  []*data
	holder *node

	built    string   // ID of the restore whose directory lies beside the data
	pattern  string   // of the peer URLs that are in it
	complete bool     // whether it is complete
	copied   int      // of a recovery: how much of the log it has
	went     []Record // every restored generation that it ever accepted
	gone     bool
	saved    *disk // as it was some time ago
	back     bool  // it went back in time
	released bool  // its holder has released it for any node
	moved    bool  // another program's data has been moved to our place
}

// data is an etcd data directory.
type data struct {
	c     *cluster
	id    uint64
	match int          // the log up to here is on this disk
	tail  int          // entries after that, which a leader wrote without a quorum
	term  uint64       // of its last entry
	ran   bool         // it has been a running member
	alien bool         // another program made it
	list  []MemberInfo // as applied
	base  string       // the restore with which it began, "" for none
	noted uint64       // the newest term it has heard
	back  bool         // it went back in time, and has not caught up since
}

type store struct {
	id     string
	none   bool // there is none: it accepts anything and knows nothing
	record *Record
	down   bool

	proposals []*proposed
	commands  []string // of another program
}

// addDisks adds rows of disks, one for each possible slot: blank ones, or none if each node makes its own.
func (w *world) addDisks(rows, universe int) {
	for range rows {
		row := make([]*disk, universe)
		for s := range row {
			if !w.host {
				row[s] = w.format(w.names[s])
			}
		}
		w.disks = append(w.disks, row)
	}
}

func newWorld(seed uint64, l life, t *tally) *world {
	w := &world{life: l, rng: rand.New(rand.NewPCG(seed, 7)), tally: t, lies: map[string]bool{}, standing: map[[2]*proc]bool{}}
	universe := l.slots
	if l.resizes {
		universe = maxResized
	}
	for i := range universe {
		w.names = append(w.names, string(rune('a'+i)))
	}
	w.goal = w.names[:l.slots]
	if l.versions {
		w.minor = 6 + w.rng.IntN(2)
	}
	owners := 1
	if l.host {
		owners = l.nodes
	}
	w.addDisks(owners, universe)
	w.rows = len(w.disks)
	shared := &store{id: "S"}
	for i := range l.nodes {
		st := shared
		if l.store != storeShared {
			st = &store{}
			if l.store == storeOwn {
				st.id = fmt.Sprintf("S%d", i)
			} else {
				st.id, st.none = "none", true
			}
		}
		w.stores = append(w.stores, st)
		w.boxes = append(w.boxes, &node{w: w, i: i, name: fmt.Sprintf("n%d", i+1), store: st, up: true, wants: w.goal, minor: w.minor})
		w.gossipCut = append(w.gossipCut, make([]bool, l.nodes))
		w.peerCut = append(w.peerCut, make([]bool, l.nodes))
	}
	for _, n := range w.boxes {
		n.boot()
	}
	if l.adopts {
		w.settle()
	}
	return w
}

// format makes a blank disk. Its claims count from one again, as on a volume that was recreated.
func (w *world) format(slot string) *disk {
	w.clock++
	return &disk{uuid: fmt.Sprintf("%s-%d", slot, w.clock), lock: fmt.Sprintf("lock %d", w.clock), slot: slot, epoch: uint64(w.rng.IntN(3))}
}

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.note("VIOLATION %s", w.broken)
	}
}

func (w *world) note(format string, args ...any) {
	if w.trace != nil {
		w.trace(format, args...)
	}
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) someNode() *node { return w.boxes[w.rng.IntN(len(w.boxes))] }

// tick is one event in the phase of faults.
func (w *world) tick() {
	if w.drains && w.chance(8) {
		w.maintain()
		return
	}
	if w.travels && w.chance(5) {
		w.travel()
		return
	}
	if w.deletes && w.chance(4) {
		w.reopen()
		return
	}
	if w.secures && w.chance(6) {
		w.roll()
		return
	}
	if w.renews && w.chance(4) {
		w.renew()
		return
	}
	if w.eager && w.chance(6) {
		w.reconfigure()
		return
	}
	if w.adopts && w.chance(3) {
		w.hand()
		return
	}
	if w.versions && w.chance(4) {
		w.exchange()
		return
	}
	if w.drilling && w.chance(3) {
		w.rehearse()
		return
	}
	r := w.rng.IntN(1000)
	switch {
	case r < 520:
		w.someNode().step()
	case r < 780:
		w.deliver(w.someNode(), w.someNode())
	case r < 850:
		w.suspect(w.someNode(), w.someNode())
	case r < 945:
		if len(w.clusters) > 0 {
			w.clusters[w.rng.IntN(len(w.clusters))].tick(w)
		}
	case r < 950 || w.busy && r < 955:
		w.operate()
	case w.resizes && r < 960:
		w.reconfigure()
	default:
		w.fault()
	}
}

// split cuts the nodes in two halves, for the gossip and, if deep, for etcd as well.
func (w *world) split(deep bool) {
	side := w.rng.Uint64()
	for i := range w.boxes {
		for j := range w.boxes {
			cut := side>>i&1 != side>>j&1
			w.gossipCut[i][j] = cut
			w.peerCut[i][j] = cut && deep
		}
	}
	w.note("split %b deep=%v", side&(1<<len(w.boxes)-1), deep)
}

func (w *world) cutPeers(n, m *node, cut bool) {
	w.peerCut[n.i][m.i], w.peerCut[m.i][n.i] = cut, cut
}

func (w *world) heal() {
	for i := range w.boxes {
		clear(w.gossipCut[i])
		clear(w.peerCut[i])
	}
	w.note("heal")
}

func (w *world) reach(n, m *node) bool {
	if n.drill != m.drill || !n.up || !m.up || w.peerCut[n.i][m.i] || !w.linked(n, m) {
		w.apart(n, m)
		return false
	}
	return n.understands(m)
}

// recover ends all faults and runs the world until every slot is healthy. It returns the number of rounds, or false.
// The operator aborts a restore that does not end by then, and restores if too many disks are lost.
func (w *world) recover() (int, bool) {
	w.heal()
	w.part()
	for _, s := range w.stores {
		s.down = false
	}
	if slices.ContainsFunc(w.clusters, func(c *cluster) bool { return c.minor == 7 && !w.followed(c.record) }) {
		w.minor = 7 // a cluster that has agreed on it does not go back
	}
	for _, n := range w.boxes {
		if n.alien {
			n.crash()
			n.alien = false
		}
		n.files = w.issued
		n.serve(w.wave)
		if n.wants = w.goal; n.minor != w.minor {
			n.crash()
			n.minor = w.minor
		}
	}
	var missing []string
	for round := range 90 + 90*boolToInt(w.resizes) {
		st := w.stores[0]
		if round == 30 || round == 60 {
			missing = w.missing()
			w.abort(st)
			st.commands = nil
		}
		if (round == 32 || round >= 62 && round%6 == 2) && w.restores && w.store == storeShared && w.bereaved() {
			w.operatorRecovers(w.boxes[max(0, slices.IndexFunc(w.boxes, func(n *node) bool { return n.proc != nil }))])
			if open, _ := st.open(); open == nil {
				w.propose(st, w.boxes[0], Restore{By: "the operator at last", Lost: w.given(missing), Overruled: st.objections(w)})
			}
		}
		if w.adopts && round >= 20 {
			w.bury()
		}
		for _, n := range w.boxes { // the operator decides about disks that were declared lost and are back
			n.rejoin = round >= 40
		}
		for _, n := range w.boxes {
			n.boot()
			n.remote, n.drained, n.stopping = false, false, false
		}
		for _, n := range w.boxes {
			for range 3 {
				n.step()
			}
		}
		for _, n := range w.boxes {
			for _, m := range w.boxes {
				w.deliver(n, m)
				if n != m && m.views[n.i].facts != nil {
					m.views[n.i].live = true
				}
			}
		}
		for _, c := range w.clusters {
			c.tick(w)
			c.pause(w, true)
		}
		if w.broken != "" || w.over != "" {
			return round, false
		}
		if open, _ := st.open(); open == nil && slices.ContainsFunc(w.clusters, w.healthy) {
			return round, true
		}
	}
	return 90, false
}

// healthy reports whether every slot is a voter that runs.
func (w *world) healthy(c *cluster) bool {
	if c.leader == nil || w.followed(c.record) {
		return false
	}
	if w.resizes && len(c.members) != len(w.goal) {
		return false
	}
	for _, s := range w.goal {
		i := slices.IndexFunc(c.members, func(m MemberInfo) bool { return m.Slot == s })
		if i < 0 || c.members[i].Learner || c.runner(w, c.members[i].ID) == nil || w.wave != plain && !w.secure(c.members[i]) {
			return false
		}
	}
	return true
}
