package plan

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
)

// A life is the setting of one simulated cluster.
type life struct {
	slots int
	nodes int
	host  bool // every node has its own disks (scope: host); else all nodes see one disk for each slot
	store storeMode
	ticks int  // of the faulty phase
	wipes int  // disks that may be lost
	old   bool // was healthy before the faults
	calm  bool // few crashes, many partitions: most of the time is spent founding
}

type storeMode int

const (
	storeNone storeMode = iota
	storeShared
	storeOwn // every node has another store
)

// world is everything there is. All randomness comes from rng and no map is iterated, so that a seed is
// a life.
type world struct {
	life
	rng       *rand.Rand
	names     []string // slots
	boxes     []*node
	disks     [][]*disk // by owner (one for all without host) and slot
	lost      []*disk
	clusters  []*cluster
	stores    []*store
	gossipCut [][]bool // from, to
	peerCut   [][]bool // symmetric
	clock     uint64
	tally     *tally
	broken    string
	trace     func(format string, args ...any)
}

type disk struct {
	uuid   string
	slot   string
	epoch  uint64
	ledger Ledger
	said   []Charter // every promise ever, whatever became of the ledger
	marker bool      // the ledger file exists
	data   *data
	aside  []*data
	holder *node
	gone   bool
}

// data is an etcd data directory.
type data struct {
	c     *cluster
	id    uint64
	match int  // the log up to here is on this disk
	ran   bool // it has been a running member
}

type store struct {
	id     string
	none   bool // there is none: it takes anything and knows nothing
	record *Record
	down   bool
}

func newWorld(seed uint64, l life, t *tally) *world {
	w := &world{life: l, rng: rand.New(rand.NewPCG(seed, 7)), tally: t}
	for i := range l.slots {
		w.names = append(w.names, string(rune('a'+i)))
	}
	owners := 1
	if l.host {
		owners = l.nodes
	}
	for range owners {
		row := make([]*disk, l.slots)
		for s := range row {
			if !l.host {
				row[s] = w.format(w.names[s])
			}
		}
		w.disks = append(w.disks, row)
	}
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
		w.boxes = append(w.boxes, &node{w: w, i: i, name: fmt.Sprintf("n%d", i+1), store: st, up: true})
		w.gossipCut = append(w.gossipCut, make([]bool, l.nodes))
		w.peerCut = append(w.peerCut, make([]bool, l.nodes))
	}
	for _, n := range w.boxes {
		n.boot()
	}
	return w
}

// format makes a blank disk. Its claims are counted from one again, as on a volume that is created anew.
func (w *world) format(slot string) *disk {
	w.clock++
	return &disk{uuid: fmt.Sprintf("%s-%d", slot, w.clock), slot: slot, epoch: uint64(w.rng.IntN(3))}
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

// tick is one event of the faulty phase.
func (w *world) tick() {
	r := w.rng.IntN(1000)
	switch {
	case r < 520:
		w.someNode().step()
	case r < 780:
		w.deliver(w.someNode(), w.someNode())
	case r < 850:
		w.suspect(w.someNode(), w.someNode())
	case r < 950:
		if len(w.clusters) > 0 {
			w.clusters[w.rng.IntN(len(w.clusters))].tick(w)
		}
	default:
		w.fault()
	}
}

func (w *world) fault() {
	n, m := w.someNode(), w.someNode()
	r := w.rng.IntN(100)
	if w.calm && r < 30 && !w.chance(10) {
		r += 30
	}
	switch {
	case r < 16:
		n.crash()
	case r < 22:
		for _, n := range w.boxes {
			n.crash()
		}
	case r < 26:
		w.wipe(n)
	case r < 27:
		w.loseWAL(n)
	case r < 28:
		w.loseLedger(n)
	case r < 52:
		n.boot()
	case r < 60:
		w.gossipCut[n.i][m.i] = n != m
	case r < 66:
		w.split(true)
	case r < 72:
		w.split(false)
	case r < 78:
		w.cutPeers(n, m, n != m)
	case r < 88:
		w.heal()
	case r < 92:
		n.store.down = !n.store.none
	default:
		n.store.down = false
	}
}

// wipe loses the disk that a node holds, with the node; a blank one takes its place.
func (w *world) wipe(n *node) {
	d := n.disk
	if d == nil || w.wipes == 0 {
		return
	}
	w.wipes--
	w.note("%s loses disk %s", n.name, d.uuid)
	n.crash()
	d.gone = true
	w.lost = append(w.lost, d)
	for _, row := range w.disks {
		for s := range row {
			if row[s] == d {
				row[s] = nil
				if !w.host {
					row[s] = w.format(d.slot)
				}
			}
		}
	}
}

// loseWAL loses etcd's data and keeps the ledger.
func (w *world) loseWAL(n *node) {
	d := n.disk
	if d == nil || d.data == nil || d.ledger.Started == "" || w.wipes == 0 {
		return
	}
	w.wipes--
	w.note("%s loses the data of disk %s", n.name, d.uuid)
	n.crash()
	d.data = nil
}

// loseLedger loses the ledger beside etcd's data.
func (w *world) loseLedger(n *node) {
	d := n.disk
	if d == nil || d.data == nil || d.ledger.Started == "" {
		return
	}
	w.note("%s loses the ledger of disk %s", n.name, d.uuid)
	n.crash()
	d.ledger, d.marker = Ledger{}, false
	w.tally.event("ledger lost")
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
	return n.up && m.up && !w.peerCut[n.i][m.i]
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(strings.Join(parts, "\x00")))
	return h.Sum64()
}

// recover ends all faults and runs the world until every slot is healthy. It returns the number of
// rounds, or false.
func (w *world) recover() (int, bool) {
	w.heal()
	for _, s := range w.stores {
		s.down = false
	}
	for round := range 60 {
		for _, n := range w.boxes {
			n.boot()
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
		}
		if w.broken != "" {
			return round, false
		}
		if slices.ContainsFunc(w.clusters, w.healthy) {
			return round, true
		}
	}
	return 60, false
}

// healthy reports whether every slot is a voter that runs.
func (w *world) healthy(c *cluster) bool {
	if c.leader == nil {
		return false
	}
	for _, s := range w.names {
		i := slices.IndexFunc(c.members, func(m MemberInfo) bool { return m.Slot == s })
		if i < 0 || c.members[i].Learner || c.runner(w, c.members[i].ID) == nil {
			return false
		}
	}
	return true
}
