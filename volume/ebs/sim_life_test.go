package ebs

import (
	"fmt"
	"math/rand/v2"
	"time"

	"holdfast/volume"
)

// simSlots are the slots of the simulated cluster.
var simSlots = []string{"a", "b", "c"}

// simWant is what the simulated nodes want.
var simWant = volume.Want{Cluster: simCluster, Slots: simSlots, Adopt: true}

// life has the parameters of one life of the simulated cluster. A number n for a fault means once in n times; 0 means
// never.
type life struct {
	nodes, zones int
	extra        string // what is special about one volume
	takeover     string
	settle       time.Duration
	scanEvery    time.Duration
	after        time.Duration // takeover-after
	retry        time.Duration // of a node that could claim nothing
	write        time.Duration // the longest pause between a member's writes
	slow         time.Duration // the longest time that an attachment takes
	lag          time.Duration // of an answer without faults
	faults       time.Duration // how long there are faults
	every        time.Duration // mean time between events
	long         bool          // the life lasts until no request can be in progress any more

	throttle, lost, late, stale, stuck, ioerr int
	pause, deadly, denied                     int
	mixed                                     bool // an answer may mix several ages
	yank                                      bool // a detach does not wait for the unmount
	force                                     bool // an operator detaches by force
	lies                                      bool // EC2 keeps saying that another instance has a volume
	kms                                       bool // EC2 takes attachments back
}

// orderly reports whether nobody takes a volume away from a running instance.
func (l life) orderly() bool { return !l.force }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// simLife draws a life.
func simLife(seed uint64) life {
	r := rand.New(rand.NewPCG(seed, 1))
	l := life{
		nodes: pick(r, 3, 4, 4, 5, 5), zones: pick(r, 1, 1, 2),
		extra:     pick(r, "", "", "", "duplicate", "other cluster", "multi", "managed", "other zone", "affinity", "strange slot", "foreign", "etcd-manager", "unlabelled", "no filesystem", "other identity", "wiped"),
		takeover:  takeoverTerminated,
		settle:    pick(r, time.Second, 5*time.Second),
		scanEvery: pick(r, 5*time.Second, 15*time.Second),
		after:     pick(r, 5*time.Second, 30*time.Second),
		retry:     pick(r, 500*time.Millisecond, 3*time.Second, 5*time.Second, 10*time.Second),
		write:     pick(r, time.Second, 10*time.Second),
		slow:      pick(r, time.Second, 5*time.Second, 20*time.Second),
		lag:       pick(r, 0, time.Second),
		faults:    time.Duration(2+r.IntN(8)) * time.Minute,
		every:     pick(r, 5*time.Second, 15*time.Second, 40*time.Second),
		long:      r.IntN(10) == 0,
	}
	if r.IntN(10) == 0 { // a life without faults
		return l
	}
	l.throttle, l.lost = pick(r, 0, 10, 50), pick(r, 0, 5, 20)
	l.late, l.stale = pick(r, 0, 5, 20), pick(r, 0, 2, 5, 20)
	l.stuck, l.ioerr = pick(r, 0, 0, 5), pick(r, 0, 0, 10)
	l.pause, l.deadly = pick(r, 0, 0, 20, 100), pick(r, 0, 2, 5)
	l.denied = pick(r, 0, 0, 0, 0, 0, 2)
	l.mixed, l.yank = r.IntN(3) == 0, r.IntN(2) == 0
	l.kms, l.lies = r.IntN(8) == 0, r.IntN(8) == 0
	switch r.IntN(8) {
	case 0:
		l.force = true
	case 1:
		// A stopped instance is known to be stopped only for a moment. This option accepts the risk of what happens after
		// that moment.
		l.takeover, l.settle, l.pause, l.stale = takeoverStopped, 5*time.Second, 0, 0
	}
	return l
}

// simEvents are the events of a cluster, repeated according to their frequency.
var simEvents = []struct {
	name  string
	often int
	run   func(*simWorld, *simNode)
}{
	{"crash", 6, func(w *simWorld, n *simNode) {
		if n.proc != nil {
			w.kill(n.proc, "it crashed")
		}
	}},
	{"pause", 3, func(w *simWorld, n *simNode) {
		if n.proc != nil && w.life.takeover != takeoverStopped {
			w.pause(n.proc)
		}
	}},
	{"restart", 3, func(w *simWorld, n *simNode) { n.order("restart") }},
	{"drop", 4, func(w *simWorld, n *simNode) { n.order("drop") }},
	{"reboot", 1, func(w *simWorld, n *simNode) {
		if n.box.state == InstanceRunning {
			w.down(n.box)
			w.replug(n.box)
			n.later(w.between(time.Second, time.Minute))
		}
	}},
	{"stop", 2, func(w *simWorld, n *simNode) {
		b := n.box
		if b.state != InstanceRunning {
			return
		}
		w.set(b, InstanceStopping)
		w.down(b)
		w.after(w.between(time.Second, 10*time.Second), func() { w.set(b, InstanceStopped) })
		w.after(w.between(11*time.Second, 3*time.Minute), func() {
			if b.state == InstanceStopped {
				w.up(b)
				n.start()
			}
		})
	}},
	{"terminate", 2, func(w *simWorld, n *simNode) {
		if n.box.state != InstanceRunning {
			return
		}
		w.end(n.box)
		w.after(w.between(time.Second, time.Minute), func() {
			n.box = w.launch(n.zone)
			n.start()
		})
	}},
	{"outage", 1, func(w *simWorld, _ *simNode) { w.outage = time.Now().Add(w.between(time.Second, 3*time.Minute)) }},
	{"force", 3, func(w *simWorld, n *simNode) {
		if v := w.servedBy(n); w.life.force && v != nil {
			w.detach(v, n.box, true, false)
		}
	}},
	{"lie", 3, func(w *simWorld, n *simNode) {
		if v := w.servedBy(n); w.life.lies && v != nil {
			v.lies = time.Now().Add(w.between(time.Minute, 6*time.Minute))
		}
	}},
	{"kms", 1, func(w *simWorld, _ *simNode) {
		v := w.vols[w.rng.IntN(len(w.vols))]
		if v.kms = w.life.kms; v.kms {
			w.after(w.between(time.Second, time.Minute), func() { v.kms = false })
		}
	}},
}

// event makes one of them happen.
func (w *simWorld) event() {
	all := 0
	for _, e := range simEvents {
		all += e.often
	}
	at := w.rng.IntN(all)
	for _, e := range simEvents {
		if at -= e.often; at < 0 {
			n := w.nodes[w.rng.IntN(len(w.nodes))]
			w.note("event: %s at %s", e.name, n.name)
			w.tally.event("event: " + e.name)
			e.run(w, n)
			return
		}
	}
}

func (w *simWorld) servedBy(n *simNode) *simVolume {
	if n.proc == nil || n.proc.claim == nil {
		return nil
	}
	return w.volume(n.proc.claim.vol)
}

// order gives a process an order.
func (n *simNode) order(what string) {
	if n.proc != nil {
		select {
		case n.proc.orders <- what:
		default: // it has enough orders
		}
	}
}

// later boots an instance again after some time.
func (n *simNode) later(d time.Duration) {
	b := n.box
	n.w.after(d, func() {
		if n.box == b {
			n.start()
		}
	})
}

// replug gives the devices of a rebooted instance new names.
func (w *simWorld) replug(b *simBox) {
	for _, v := range w.vols {
		if v.att != nil && v.att.box == b {
			w.plug(v)
		}
	}
}

// found makes the volumes and the machines.
func (w *simWorld) found() {
	l := w.life
	for i, slot := range simSlots {
		w.create(fmt.Sprintf("vol-%d", i+1), slot, w.zone(i))
	}
	first, z := w.vols[0], w.zone(0)
	switch l.extra {
	case "foreign":
		first.disk = simDisk{kind: "fs", uuid: "foreign", label: "data", foreign: true}
	case "etcd-manager":
		first.disk = simDisk{kind: "fs", uuid: "foreign", label: "data", etcd: true}
	case "unlabelled":
		first.disk = simDisk{kind: "fs", uuid: "foreign", label: label, foreign: true}
	case "no filesystem":
		first.disk = simDisk{kind: "half", foreign: true}
	case "other identity":
		id := volume.Identity{Cluster: simCluster, Slot: "b", Volume: "vol-9", Disk: "d9", Epoch: 7}
		first.disk = simDisk{kind: "fs", uuid: "copy", label: label, identity: &id, foreign: true}
	case "wiped": // its tag says that it was formatted, but it is blank
		first.disk = simDisk{foreign: true}
		w.tag(first, TagFormat, "ext4:0-0-0")
	case "duplicate":
		w.create("vol-4", "a", z)
	case "other zone":
		w.create("vol-4", "a", "z3").outside = "in another zone"
	case "strange slot":
		w.create("vol-4", "d", z).outside = "of a slot that does not exist"
	case "other cluster":
		v := w.create("vol-4", "a", z)
		v.outside = "another cluster's"
		w.tag(v, TagCluster, "other")
		v.past = v.past[1:] // it was never anything else
	case "multi":
		first.multi, first.outside = true, "a Multi-Attach volume"
	case "managed":
		first.managed, first.outside = true, "attached to something that AWS manages"
	case "affinity":
		first.outside = "reserved for another instance"
		w.tag(first, TagInstance, "i-ffff")
	}
	first.past = nil
	w.changed(first)
	for i := range l.nodes {
		n := &simNode{w: w, name: fmt.Sprintf("n%d", i+1), zone: w.zone(i)}
		n.box = w.launch(n.zone)
		w.nodes = append(w.nodes, n)
		w.after(w.between(0, 5*time.Second), n.start)
	}
}

// zone spreads things over the zones.
func (w *simWorld) zone(i int) string { return fmt.Sprintf("z%d", 1+i%w.life.zones) }

func (w *simWorld) create(id, slot, zone string) *simVolume {
	v := &simVolume{id: id, slot: slot, zone: zone, tags: map[string]string{TagCluster: simCluster, TagMember: slot}}
	w.vols = append(w.vols, v)
	w.changed(v)
	return v
}

// heal ends all faults.
func (w *simWorld) heal() {
	w.note("faults end")
	w.faulty, w.outage = false, time.Time{}
	for _, v := range w.vols {
		v.kms, v.lies = false, time.Time{}
	}
}
