package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// care is a small world of its own: a cluster whose members only look after their databases. The gossip is late,
// leaders change, members come and go, an operator drains, and the databases fill.
type care struct {
	rng     *rand.Rand
	record  Record
	members []*cared
	leader  int
	lock    *Lock
	alarms  []Alarm
	rev     int64
	compact int64
	want    Upkeep
	broken  string
	counted map[Kind]int
}

// cared is one member, the node it runs on, and what that node has heard.
type cared struct {
	slot       string
	id         uint64
	up         bool
	space      Space
	fragments  int64 // what a defragmentation frees beyond what is known to be free
	judged     Judgement
	tried      bool
	compacted  bool // a moment ago
	resting    bool
	defragging bool
	asks       bool     // for permission
	word       bool     // the leader has found no obstacle, and asks the others
	asked      []uint64 // the others that have said that they neither ask nor defragment
	held       bool     // this defragmentation is under the lock
	reading    bool     // for a backup
	room       Room     // of its volume
	short      bool
	views      []*Facts
	facts      *Facts
}

// roomy is a volume with room.
var roomy = Room{Free: 3 << 30, Size: 4 << 30}

func newCare(seed uint64) *care {
	w := &care{rng: rand.New(rand.NewPCG(seed, 9)), rev: 100, counted: map[Kind]int{},
		want: Upkeep{FreePercent: 50, FreeBytes: 20, FullPercent: 90, Cure: true}}
	c := Charter{Cluster: "main", Generation: 1}
	for i := range []int{1, 3, 3, 5}[w.rng.IntN(4)] {
		slot := string(rune('a' + i))
		c.Seats = append(c.Seats, Seat{Slot: slot, Disk: "d" + slot})
		w.members = append(w.members, &cared{slot: slot, id: uint64(i + 1), up: true, space: Space{Size: 100, InUse: 60, Quota: 1000}, room: roomy})
	}
	w.record = FoundingRecord(c)
	for _, m := range w.members {
		m.views = make([]*Facts, len(w.members))
	}
	w.hear()
	return w
}

func (w *care) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// observe is what member i observes now.
func (w *care) observe(i int) Observation {
	m := w.members[i]
	o := Observation{Node: "n" + m.slot, Config: Config{Upkeep: w.want}, Claim: Claim{Held: true, Slot: m.slot, Disk: "d" + m.slot}, Store: Store{ID: "S", Record: &w.record},
		Disk:      Disk{WAL: true, Member: m.id, Ledger: Ledger{Record: &w.record, Role: RoleFounder, Started: "d" + m.slot}, HasLedger: true},
		Compacted: m.compacted}
	if m.resting {
		o.Resting = "resting"
	}
	o.Member = Member{Running: true, Ready: true, Status: Status{HasLead: w.leader >= 0, Leader: w.leader == i, Alarms: w.alarms, Space: m.space, Revision: w.rev}, ID: m.id, Lock: w.lock, Compacted: w.compact, Snapshot: m.reading, Defragging: m.defragging}
	for j, other := range w.members {
		o.Member.Members = append(o.Member.Members, MemberInfo{ID: other.id, Slot: other.slot, Started: true, Connected: other.up})
		if j != i {
			o.Peers = append(o.Peers, Peer{Node: "n" + other.slot, Live: m.views[j] != nil, Facts: m.views[j]})
		}
	}
	m.judged = w.want.Judge(m.judged, o.Member, m.tried)
	o.Member.Judgement = m.judged
	m.short = m.room.Short(m.short)
	o.Claim.Room, o.Claim.Short = m.room, m.short
	f := o.Facts(nil)
	m.facts = &f
	return o
}

// hear delivers all gossip.
func (w *care) hear() {
	for i, m := range w.members {
		if m.up {
			w.observe(i)
		}
	}
	for i := range w.members {
		for j := range w.members {
			w.deliver(i, j)
		}
	}
}

func (w *care) deliver(from, to int) {
	if w.members[to].views[from] = w.members[from].facts; !w.members[from].up {
		w.members[to].views[from] = nil
	}
}

// step lets a member decide, and begin what it decided.
func (w *care) step(i int) {
	m := w.members[i]
	if !m.up || m.defragging || m.asks {
		return
	}
	o := w.observe(i)
	a := Next(o)
	w.counted[a.Kind]++
	if w.alarmed(Corrupt) && a.Kind != Wait {
		w.fail("U5: %s decides to %s while CORRUPT is up", m.slot, a.Kind)
	}
	switch a.Kind {
	case Compact:
		w.compact = a.Revision
		for _, n := range w.members { // the history was a tenth of it
			n.space.InUse -= n.space.InUse / 10
			n.compacted = true
		}
	case Raise:
		if w.alarms == nil {
			w.alarms = []Alarm{{Name: NoSpace}}
		}
	case Disarm:
		for _, p := range append(o.Peers, Peer{Node: o.Node, Facts: m.facts}) {
			if p.Facts != nil && p.Facts.Short {
				w.fail("U8: %s disarms although the volume of %s has no room", m.slot, p.Node)
			}
		}
		w.disarm()
	case HandOver:
		w.elect((i + 1 + w.rng.IntN(len(w.members)-1)) % len(w.members))
	case Defrag:
		w.begin(i, o)
	}
}

// begin gets permission, as the coordinator does: by the lock, or from the leader while nothing can be written.
func (w *care) begin(i int, o Observation) {
	m := w.members[i]
	for _, p := range o.Peers {
		if o.Member.Leader && len(w.members) > 1 && p.Facts != nil && p.Facts.Fragmented {
			w.fail("U2: %s leads and comes before slot %s", m.slot, p.Facts.Slot)
		}
		if p.Facts == nil || !p.Live {
			w.fail("U3: %s defragments while %s is away", m.slot, p.Node)
		}
	}
	if o.Member.Snapshot {
		w.fail("U6: %s defragments while a backup is read", m.slot)
	}
	if w.alarmed(NoSpace) {
		m.asks, m.word, m.asked = true, false, nil
		return
	}
	if w.lock != nil && w.lock.Slot != m.slot {
		return
	}
	w.lock, m.held = &Lock{Slot: m.slot, Node: "n" + m.slot, Purpose: "defrag"}, true
	w.defrag(i)
}

// ask takes one step towards the leader's permission: the current leader, or a former one, asks one member after the
// other. Between two of its questions anything may happen, even another election.
func (w *care) ask(i int) {
	m := w.members[i]
	switch {
	case !m.asks:
	case !m.up, w.leader < 0, !m.word && (!w.members[w.leader].up || w.observe(w.leader).Permit() != ""):
		m.asks = false
	case !m.word:
		m.word = true
	default:
		for _, n := range w.members {
			if n == m || slices.Contains(m.asked, n.id) {
				continue
			}
			m.asked, m.asks = append(m.asked, n.id), n.up && !n.defragging && !n.asks
			return
		}
		w.defrag(i)
	}
}

func (w *care) defrag(i int) {
	m := w.members[i]
	if m.asks = false; w.leader == i && len(w.members) > 1 { // it hands over before it begins
		w.elect((i + 1) % len(w.members))
	}
	if w.leader == i && len(w.members) > 1 {
		return
	}
	for _, n := range w.members {
		if n.defragging {
			w.fail("U1: %s defragments beside %s", m.slot, n.slot)
		}
	}
	m.defragging = true
	w.observe(i)
}

func (w *care) end(i int) {
	m := w.members[i]
	if !m.defragging {
		return
	}
	m.defragging = false
	if m.held {
		m.held, w.lock = false, nil
	}
	if m.resting = w.rng.IntN(5) == 0; !m.resting { // it did not fail
		m.space.InUse -= min(m.fragments, m.space.InUse/3)
		m.space.Size, m.fragments, m.tried = m.space.InUse, 0, true
	}
	w.observe(i)
}

// disarm asks every member directly, and gives up if one is full, has no room, or does not answer.
func (w *care) disarm() {
	for i, m := range w.members {
		if o := w.observe(i); !m.up || o.Member.Full || o.Claim.Short {
			return
		}
	}
	for _, m := range w.members {
		if m.space.Size >= 900 {
			w.fail("U4: disarmed while slot %s has %d of 1000", m.slot, m.space.Size)
		}
		m.tried, m.compacted = false, false
	}
	w.alarms = nil
}

func (w *care) elect(i int) {
	if w.members[i].up {
		w.leader = i
	}
}

// event is something that happens to the cluster.
func (w *care) event() {
	i, j := w.rng.IntN(len(w.members)), w.rng.IntN(len(w.members))
	m := w.members[i]
	switch r := w.rng.IntN(200); {
	case r < 60:
		w.step(i)
	case r < 80:
		w.ask(i)
	case r < 100:
		w.deliver(i, j)
	case r < 110:
		w.hear()
	case r < 140:
		w.end(i)
	case r < 150:
		m.resting, m.reading, m.compacted = false, false, false
	case r < 153 && !m.defragging:
		m.reading = true
	case r < 156:
		w.elect(i)
	case r < 157 && m.asks: // it no longer waits for the answer
		m.asks = false
	case r < 158 && !m.defragging:
		m.up = w.leader == i || w.rng.IntN(2) == 0
	case r < 160 && w.alarms == nil && (w.lock == nil || w.lock.Purpose == "drain"):
		w.lock = nil
		if w.rng.IntN(2) == 0 {
			w.lock = &Lock{Slot: m.slot, Node: "n" + m.slot, Purpose: "drain"}
		}
	case r < 162:
		m.up = true
	case r < 190:
		w.write()
	case r < 191 && w.rng.IntN(4) == 0:
		w.alarms = append(slices.Clone(w.alarms), Alarm{Corrupt, ID(m.id)})
	case r < 194: // another program writes to the disk, or the disk does not answer
		m.room = []Room{{}, {Free: 100 << 20, Size: 4 << 30}, {Free: 200 << 20, Size: 4 << 30}, roomy}[w.rng.IntN(4)]
	case r < 196: // the operator has cured it
		w.cured()
	}
}

func (w *care) alarmed(name string) bool { return Status{Alarms: w.alarms}.Alarmed(name) }

// cured ends the alarm CORRUPT.
func (w *care) cured() {
	w.alarms = slices.DeleteFunc(slices.Clone(w.alarms), func(a Alarm) bool { return a.Name == Corrupt })
}

// write fills the databases, or deletes.
func (w *care) write() {
	w.rev++
	for _, m := range w.members {
		switch r := w.rng.IntN(8); {
		case r < 5 && w.alarms == nil:
			n := int64(w.rng.IntN(120))
			m.space.InUse += n
			m.space.Size = max(m.space.Size, m.space.InUse)
		case r == 5:
			m.space.InUse -= m.space.InUse / 4
		case r == 6:
			m.fragments += 30
		}
		if m.space.Size > 950 && w.alarms == nil {
			w.alarms = []Alarm{{Name: NoSpace}}
		}
	}
}

// settle ends all faults and lets the members work. It returns how often each action was taken.
func (w *care) settle(rounds int) map[Kind]int {
	w.lock, w.counted = nil, map[Kind]int{}
	w.cured()
	for _, m := range w.members {
		m.up, m.reading, m.room = true, false, roomy
	}
	for range rounds {
		for i, m := range w.members {
			w.end(i)
			m.resting, m.compacted = false, false
		}
		w.hear()
		for i := range w.members {
			w.step(i)
			for w.members[i].asks {
				w.ask(i)
			}
		}
	}
	return w.counted
}

// TestUpkeep simulates many lives, and then waits for the expected end.
func TestUpkeep(t *testing.T) {
	t.Parallel()
	seen, lives := map[Kind]int{}, uint64(1500)
	if testing.Short() {
		lives = 40
	}
	for seed := range lives {
		w := newCare(seed)
		for range 400 {
			w.event()
		}
		for kind, n := range w.counted {
			seen[kind] += n
		}
		counted := w.settle(100)
		for kind, n := range counted {
			seen[kind] += n
		}
		live := int64(0)
		for _, m := range w.members {
			live = max(live, m.space.InUse)
		}
		n := len(w.members)
		switch {
		case w.broken != "":
		case w.alarmed(NoSpace) && live < 900:
			w.fail("liveness: NOSPACE stays with at most %d of 1000 in use", live)
		case !w.alarmed(NoSpace) && w.members[0].judged.Fragmented:
			w.fail("liveness: slot a stays fragmented: %+v", w.members[0].space)
		case counted[Compact] > n+2 || counted[Disarm] > 2 || counted[HandOver] > 3:
			w.fail("U7: actions without end: %v", counted)
		}
		if w.broken != "" {
			t.Fatalf("seed %d: %s", seed, w.broken)
		}
	}
	for _, kind := range []Kind{Defrag, Compact, Raise, Disarm, HandOver} {
		if seen[kind] < int(lives)/20 {
			t.Errorf("%s was decided %d times: it is hardly tested", kind, seen[kind])
		}
	}
	t.Log(seen)
}
