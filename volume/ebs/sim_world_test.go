package ebs

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"holdfast/volume"
)

// simCluster is the cluster of the simulation.
const simCluster = "test"

// simRoot is where the simulated instances mount volumes.
const simRoot = "/mnt/ebs"

// simWorld is the real state: EC2's volumes and instances, the content of the disks, and who serves. mu guards all of
// it, and is never held while someone waits.
type simWorld struct {
	mu    sync.Mutex
	rng   *rand.Rand
	life  life
	tally *simTally
	trace func(string, ...any) // nil if no trace is wanted

	vols  []*simVolume
	boxes []*simBox  // every instance there ever was
	nodes []*simNode // the machines that the operator wants to have

	faulty  bool      // faults may happen
	outage  time.Time // until then EC2 gives no answer
	began   time.Time
	numbers int // of objects made so far
	broken  string
	over    bool // the life is over: nothing is started any more
}

// simVolume is a volume and its content.
type simVolume struct {
	id, zone, slot string
	multi, managed bool
	outside        string // why nobody may ever touch it; "" if it is the cluster's
	tags           map[string]string
	att            *simAttachment // nil if there is none
	past           []simVersion   // what EC2 may say of it, the latest last
	kms            bool           // EC2 takes every attachment back
	lies           time.Time      // until then EC2 repeats what it first said of another's attachment

	disk   simDisk
	server *simProc  // the process that serves as this member
	epoch  uint64    // the highest ever written to it
	absent time.Time // since when it is gone although it has a server
}

type simVersion struct {
	at time.Time
	v  Volume
}

// simAttachment is the one attachment of a volume.
type simAttachment struct {
	box   *simBox
	state string
	name  string
	live  bool   // the data path is open
	path  string // of the device, while the instance has it
	late  bool   // the detach was sent long ago
}

// simDisk is the content of a volume.
type simDisk struct {
	kind     string         // "" (blank), "half" (of a format), "fs"
	maker    *simAttachment // the attachment under which the format was begun
	uuid     string
	label    string
	identity *volume.Identity
	foreign  bool // it has another program's data
	etcd     bool // it had etcd-manager's data, which may be adopted
	records  int  // written by members
	formats  int  // that were completed
}

// simBox is one instance.
type simBox struct {
	id, zone string
	state    string
	past     []simState
	boots    int
	mounts   map[string]*simMount // in its kernel, by directory
	journal  Journal              // on its root disk
	lock     *simProc
	denied   bool                 // it may not write tags
	full     bool                 // its root disk takes no writes
	open     map[string]time.Time // volumes whose attachment was requested without an answer
}

type simState struct {
	at    time.Time
	state string
}

// simMount is a mounted filesystem. It exists as long as files on it are open.
type simMount struct {
	v    *simVolume
	att  *simAttachment
	dir  string
	ro   bool
	dead bool // shut down
}

func newSimWorld(seed uint64, l life, tally *simTally, trace func(string, ...any)) *simWorld {
	return &simWorld{rng: rand.New(rand.NewPCG(seed, 2)), life: l, tally: tally, trace: trace, began: time.Now()}
}

func (w *simWorld) note(format string, args ...any) {
	if w.trace != nil {
		w.trace("%9.3f "+format, append([]any{time.Since(w.began).Seconds()}, args...)...)
	}
}

// fail records the first thing that broke.
func (w *simWorld) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf("at %s: ", time.Since(w.began).Round(time.Millisecond)) + fmt.Sprintf(format, args...)
		w.note("BROKEN %s", w.broken)
	}
}

// chance returns true once in n times, and never for 0.
func (w *simWorld) chance(n int) bool { return n > 0 && w.rng.IntN(n) == 0 }

// between draws a duration. No two draws are equal, so that events happen one after the other.
func (w *simWorld) between(min, max time.Duration) time.Duration {
	return min + time.Duration(w.rng.Int64N(int64(max-min)+1))
}

// after calls a function later, unless the life is over.
func (w *simWorld) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			f()
		}
	})
}

func (w *simWorld) volume(id string) *simVolume {
	for _, v := range w.vols {
		if v.id == id {
			return v
		}
	}
	return nil
}

func (w *simWorld) box(id string) *simBox {
	for _, b := range w.boxes {
		if b.id == id {
			return b
		}
	}
	return nil
}

// changed records what EC2 may say of a volume from now on.
func (w *simWorld) changed(v *simVolume) {
	now := Volume{ID: v.id, Zone: v.zone, State: VolumeAvailable, Type: "gp3", Size: 8, MultiAttach: v.multi, Tags: v.tags}
	switch {
	case v.managed:
		now.State, now.Attachments = VolumeInUse, []Attachment{{State: Attached}}
	case v.att != nil:
		now.State, now.Attachments = VolumeInUse, []Attachment{{Instance: v.att.box.id, Device: v.att.name, State: v.att.state}}
	}
	v.past = append(v.past, simVersion{time.Now(), now})
}

// tag changes one tag; "" removes it. Tags that were returned are never changed.
func (w *simWorld) tag(v *simVolume, key, value string) {
	tags := make(map[string]string, len(v.tags)+1)
	for k, old := range v.tags {
		tags[k] = old
	}
	if tags[key] = value; value == "" {
		delete(tags, key)
	}
	v.tags = tags
	w.changed(v)
}

// attach executes an AttachVolume.
func (w *simWorld) attach(v *simVolume, b *simBox, name string) Meaning {
	switch {
	case b.state != InstanceRunning && b.state != InstanceStopped:
		return NotNow
	case v.zone != b.zone:
		return Misplaced
	case v.att != nil || v.managed:
		return InUse
	}
	for _, o := range w.vols {
		if o.att != nil && o.att.box == b && o.att.name == name {
			return NameTaken
		}
	}
	a := &simAttachment{box: b, state: Attaching, name: name}
	v.att = a
	w.changed(v)
	w.note("%s is being attached to %s", v.id, b.id)
	w.tally.event("attach")
	switch {
	case v.kms:
		w.after(w.between(time.Second, 5*time.Second), func() {
			if v.att == a {
				w.note("EC2 takes the attachment of %s to %s back", v.id, b.id)
				w.tally.event("attachment taken back")
				v.att = nil
				w.changed(v)
			}
		})
		return ""
	case w.faulty && w.chance(w.life.stuck):
		w.note("the attachment of %s is stuck", v.id)
		w.tally.event("attachment stuck")
		return ""
	}
	slow := w.life.slow
	w.after(w.between(200*time.Millisecond, slow), func() { // the device may come before EC2 says so, or after
		if v.att == a && (a.state == Attaching || a.state == Attached) {
			a.live = true
			w.plug(v)
		}
	})
	w.after(w.between(200*time.Millisecond, slow), func() {
		if v.att == a && a.state == Attaching {
			a.state = Attached
			w.changed(v)
		}
	})
	return ""
}

// plug shows a device to a running instance, under the lowest free name.
func (w *simWorld) plug(v *simVolume) {
	if a := v.att; a != nil && a.live && a.path == "" && a.box.state == InstanceRunning {
		used := map[string]bool{}
		for _, o := range w.vols {
			if o.att != nil && o.att.box == a.box {
				used[o.att.path] = true
			}
		}
		for n := 1; a.path == ""; n++ {
			if path := fmt.Sprintf("/dev/nvme%dn1", n); !used[path] {
				a.path = path
			}
		}
		delete(a.box.open, v.id)
		w.note("%s has %s as %s", a.box.id, v.id, a.path)
	}
}

// detach executes a DetachVolume. late means that it was sent long ago.
func (w *simWorld) detach(v *simVolume, b *simBox, force, late bool) Meaning {
	a := v.att
	if a == nil || a.box != b || a.state == Detaching && !force || a.state == Busy && !force {
		return NotNow
	}
	a.state, a.late = Detaching, late
	w.changed(v)
	w.note("%s is being detached from %s (force %v, late %v)", v.id, b.id, force, late)
	w.tally.event("detach")
	w.after(w.between(200*time.Millisecond, max(4*time.Second, w.life.slow)), func() { w.unplug(v, a, force) })
	return ""
}

// unplug takes the device away. If it is mounted, EC2 waits, as it documents, or in some lives does not.
func (w *simWorld) unplug(v *simVolume, a *simAttachment, force bool) {
	if v.att != a {
		return
	}
	if !force && !w.life.yank && a.box.mounted(v) {
		if a.state != Busy {
			w.note("%s is busy at %s", v.id, a.box.id)
			w.tally.event("detach of a mounted volume")
			a.state = Busy
			w.changed(v)
		}
		return
	}
	w.gone(v, a)
	w.after(w.between(time.Millisecond, 3*time.Second), func() {
		if v.att == a {
			v.att = nil
			w.changed(v)
			w.note("%s is free", v.id)
		}
	})
}

// gone ends the data path of an attachment.
func (w *simWorld) gone(v *simVolume, a *simAttachment) {
	a.live, a.path = false, ""
	if x := v.server; x != nil && !x.dead && a.box == x.box {
		w.robbed(v, x)
	}
}

// idle continues detaches that have waited for an unmount.
func (w *simWorld) idle(b *simBox) {
	for _, v := range w.vols {
		if a := v.att; a != nil && a.box == b && a.state == Busy && !b.mounted(v) {
			a.state = Detaching
			w.changed(v)
			w.after(w.between(time.Millisecond, time.Second), func() { w.unplug(v, a, false) })
		}
	}
}

func (b *simBox) mounted(v *simVolume) bool {
	for _, m := range b.mounts {
		if m.v == v && m.att == v.att {
			return true
		}
	}
	return false
}

// set changes the state of an instance.
func (w *simWorld) set(b *simBox, state string) {
	w.note("%s is %s", b.id, state)
	b.state = state
	b.past = append(b.past, simState{time.Now(), state})
}

// down ends everything that runs on an instance, including its kernel.
func (w *simWorld) down(b *simBox) {
	for _, n := range w.nodes {
		if n.box == b && n.proc != nil {
			w.kill(n.proc, "its instance ends")
		}
	}
	b.mounts = map[string]*simMount{}
	b.lock = nil
	for _, v := range w.vols {
		if v.att != nil && v.att.box == b {
			v.att.path = ""
		}
	}
	w.idle(b)
}

// up boots an instance.
func (w *simWorld) up(b *simBox) {
	b.boots++
	w.set(b, InstanceRunning)
	for _, v := range w.vols {
		if v.att != nil && v.att.box == b && v.att.state != Detaching {
			w.plug(v)
		}
	}
}

// end terminates an instance: its volumes are detached.
func (w *simWorld) end(b *simBox) {
	w.set(b, InstanceShuttingDown)
	w.down(b)
	w.after(w.between(time.Second, 20*time.Second), func() {
		w.set(b, InstanceTerminated)
		for _, v := range w.vols {
			if a := v.att; a != nil && a.box == b {
				a.state = Detaching
				w.changed(v)
				w.unplug(v, a, true)
			}
		}
	})
}

// launch makes an instance.
func (w *simWorld) launch(zone string) *simBox {
	w.numbers++
	b := &simBox{id: fmt.Sprintf("i-%04x", w.numbers), zone: zone, mounts: map[string]*simMount{}, open: map[string]time.Time{}, denied: w.life.denied > 0 && w.chance(w.life.denied)}
	w.boxes = append(w.boxes, b)
	w.set(b, InstancePending)
	w.up(b)
	return b
}
