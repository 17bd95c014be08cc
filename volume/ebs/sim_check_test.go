package ebs

import (
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"holdfast/volume"
)

// The invariants, as the package's documentation promises them:
//
//	I1 one instance at a time writes to a volume (the world itself refuses all others, as the data path does)
//	I2 nothing is written to a volume by an older claim after a newer one has begun, nor after a loss
//	I3 one process at a time serves as a member
//	I4 no instance mounts two volumes of the cluster
//	I5 no content of a volume is lost: only a blank one is formatted, and foreign content is not touched
//	I6 a claim that nobody attacks is not lost, whatever EC2 answers
//	I7 no node touches a volume that is not its own
//	I8 no second volume is requested while the outcome of the first request is unknown
//	I9 a volume is unmounted before its detach is requested

// noticed is how long a process may continue to serve without its device.
const noticed = 2 * time.Second

// join records that a process begins to serve. The world is locked.
func (w *simWorld) join(x *simProc, c *claim) {
	v := w.volume(c.vol)
	x.claim = c
	mismatch := c.Mismatch()
	w.note("%s holds %s (slot %s), epoch %d, mismatch %q", x.name(), c.vol, c.Want.Slot, c.Volume().Epoch, mismatch)
	w.tally.event("claim")
	if o := v.server; o != nil && o != x && !o.dead && v.absent.IsZero() {
		w.fail("I3: %s and %s both serve as %s", o.name(), x.name(), v.slot)
	}
	v.server, v.absent = x, time.Time{}
	if mismatch != "" {
		w.tally.event("mismatch")
		if !v.disk.foreign && !v.disk.torn(v) {
			w.fail("%s refuses %s: %s", x.name(), v.id, mismatch)
		}
		return
	}
	if v.disk.foreign {
		w.fail("I5: %s serves from %s, which holds foreign data", x.name(), v.id)
	}
	x.open = x.box.mounts[c.Path()]
	if id := v.disk.identity; x.open == nil || x.open.v != v || x.open.ro || id == nil || *id != c.Volume() {
		w.fail("%s holds %s, which is not mounted at %s or has another identity", x.name(), c.vol, c.Path())
	}
}

// quit records that a process no longer serves.
func (w *simWorld) quit(x *simProc) {
	if x.claim == nil {
		return
	}
	if v := w.volume(x.claim.vol); v.server == x {
		v.server, v.absent = nil, time.Time{}
	}
	x.claim = nil
}

// robbed is called when a serving process loses its device.
func (w *simWorld) robbed(v *simVolume, x *simProc) {
	w.note("%s serves from %s, whose device goes", x.name(), v.id)
	w.tally.event("device goes under a member")
	if w.life.orderly() {
		w.fail("I6: the device of %s goes while %s serves from it", v.id, x.name())
	}
	c, since := x.claim, time.Now()
	v.absent = since
	var look func()
	look = func() {
		switch {
		case x.dead || x.claim != c:
		case !time.Now().After(x.paused.Add(noticed)):
			w.after(time.Until(x.paused)+noticed+1, look)
		default:
			w.fail("I3: %s serves on %s after the device of %s went", x.name(), time.Since(since), v.id)
		}
	}
	w.after(noticed, look)
}

// wrote is called for every write that arrived.
func (w *simWorld) wrote(x *simProc, c *claim) {
	v, id := x.open.v, c.Volume()
	switch {
	case v.att == nil || v.att.box != x.box:
		w.fail("I1: %s writes to %s, which is not attached to %s", x.name(), v.id, x.box.id)
	case v.server != x || x.claim != c:
		w.fail("I2: %s writes to %s, and does not serve from it", x.name(), v.id)
	case id.Epoch != v.epoch:
		w.fail("I2: %s writes to %s in epoch %d, after %d", x.name(), v.id, id.Epoch, v.epoch)
	}
	v.disk.records++
}

// lost is called when Watch has reported a loss.
func (w *simWorld) lost(x *simProc, c *claim, err error) {
	v := w.volume(c.vol)
	w.note("%s lost %s: %v", x.name(), c.vol, err)
	w.quit(x)
	switch {
	case err == nil:
		w.fail("Watch of %s ended without an error", x.name())
	case strings.Contains(err.Error(), "as EC2 has said"):
		w.tally.event("lost because EC2 said so")
		_, told, _ := strings.Cut(err.Error(), "as EC2 has said ")
		var looks, minutes int
		if _, e := fmt.Sscanf(told, "%d times in %dm", &looks, &minutes); e != nil || looks < 3 || minutes < 1 {
			w.fail("I6: %s believes too little evidence: %s", x.name(), told)
		}
		if !w.life.lies { // otherwise the device answered
			w.fail("I6: %s", err)
		}
	case w.life.orderly():
		w.fail("I6: %s", err)
	default:
		w.tally.event("lost")
	}
	if x.open != nil && x.open.io() == nil {
		w.fail("I2: %s could write to %s after it was lost", x.name(), v.id)
	}
	x.open = nil
}

// mounted is called for every mount.
func (w *simWorld) mounted(b *simBox) {
	seen := map[*simVolume]bool{}
	for _, m := range b.mounts {
		if m.io() == nil {
			seen[m.v] = true
		}
	}
	if len(seen) > 1 {
		w.fail("I4: %s has two volumes mounted", b.id)
	}
}

// formatting is called before a format.
func (w *simWorld) formatting(x *simProc, v *simVolume) {
	d := v.disk
	if d.foreign || d.etcd || d.identity != nil || d.records > 0 || v.outside != "" {
		w.fail("I5: %s formats %s, which is not blank: %+v", x.name(), v.id, d)
	}
	if x.box.mounted(v) {
		w.fail("I5: %s formats %s, which is mounted", x.name(), v.id)
	}
}

// identifying is called before an identity is written.
func (w *simWorld) identifying(x *simProc, v *simVolume, id volume.Identity) {
	d := v.disk
	switch {
	case d.foreign || v.outside != "":
		w.fail("I5: %s writes its identity to %s, which is not ours", x.name(), v.id)
	case d.identity != nil && d.identity.Disk != id.Disk:
		w.fail("I5: %s gives %s another disk", x.name(), v.id)
	case id.Epoch <= v.epoch:
		w.fail("the epoch of %s does not rise: %d after %d", v.id, id.Epoch, v.epoch)
	case id.Volume != v.id || id.Slot != v.slot || id.Cluster != simCluster:
		w.fail("the identity %+v is not that of %s", id, v.id)
	}
	v.epoch = id.Epoch
}

// asked is called before a change is sent to EC2.
func (w *simWorld) asked(x *simProc, op, vol string) {
	switch op {
	case "Detach":
		delete(x.box.open, vol)
		if x.box.mounted(w.volume(vol)) {
			w.fail("I9: %s asks to detach %s, which is mounted", x.name(), vol)
		}
	case "Attach":
		for other, sent := range x.box.open {
			if other != vol && time.Since(sent) < unsettled {
				w.fail("I8: %s asks for %s, and what became of its request for %s is not known", x.name(), vol, other)
			}
		}
		x.box.open[vol] = time.Now()
		if at, ok := x.box.journal.Attaching[vol]; ok {
			x.box.open[vol] = at // the process may have been paused in between
		}
	}
}

// seized is called when a detach from another instance is requested.
func (w *simWorld) seized(b *simBox, vol string) {
	w.note("%s is to be detached from %s", vol, b.id)
	w.tally.event("seize")
	recently := b.state == InstanceStopped
	for i, s := range b.past {
		if s.state == InstanceStopped && i+1 < len(b.past) && time.Since(b.past[i+1].at) < seizeWithin+time.Second {
			recently = true
		}
	}
	if w.life.takeover != takeoverStopped || !recently {
		w.fail("I7: %s is to be detached from %s, which is %s", vol, b.id, b.state)
	}
}

// missing returns what is still wrong after the faults have ended: each volume that a node could have must be held.
func (w *simWorld) missing() string {
	var all []string
	for _, zone := range []string{"z1", "z2"} {
		var free []string
		idle := 0
		for _, n := range w.nodes {
			if n.zone == zone && n.box.state == InstanceRunning && (n.proc == nil || n.proc.claim == nil) {
				idle++
			}
		}
		for _, v := range w.vols {
			if v.zone != zone || v.outside != "" || v.server != nil {
				continue
			}
			// An operator must judge a format that was interrupted on an instance that is gone.
			if v.disk.torn(v) && v.att != nil && v.att.box.state == InstanceRunning {
				continue
			}
			if !w.rivalled(v) {
				free = append(free, v.id)
			}
		}
		if len(free) > 0 && idle > 0 {
			all = append(all, fmt.Sprintf("%s are not held in zone %s", strings.Join(free, ", "), zone))
		}
	}
	for _, b := range w.boxes {
		var here []string
		for _, v := range w.vols {
			if v.att != nil && v.att.box == b {
				here = append(here, v.id)
			}
		}
		if len(here) > 1 {
			all = append(all, fmt.Sprintf("%s has %s", b.id, strings.Join(here, " and ")))
		}
	}
	return strings.Join(all, "; ")
}

// torn reports whether a format was interrupted and nobody can continue it: it was begun under an attachment that is
// gone.
func (d simDisk) torn(v *simVolume) bool { return d.kind == "half" && d.maker != v.att }

// rivalled reports whether a volume may stay without a holder because of another one of its slot: the other one is
// held, or both have data.
func (w *simWorld) rivalled(v *simVolume) bool {
	for _, o := range w.vols {
		if o != v && o.slot == v.slot && o.outside == "" && (o.server != nil || o.disk.kind == "half" || o.tags[TagFormat] != "" && v.tags[TagFormat] != "") {
			return true
		}
	}
	return false
}

// describe says what every process waits for, and the state of the world.
func (w *simWorld) describe() string {
	var s strings.Builder
	for _, n := range w.nodes {
		fmt.Fprintf(&s, "\n  %s on %s (%s, journal %+v):", n.name, n.box.id, n.box.state, n.box.journal)
		switch x := n.proc; {
		case x == nil:
			s.WriteString(" no process")
		case x.claim != nil:
			fmt.Fprintf(&s, " %s serves from %s", x.name(), x.claim.vol)
		default:
			fmt.Fprintf(&s, " %s: %v", x.name(), x.stuck)
		}
	}
	for _, v := range w.vols {
		fmt.Fprintf(&s, "\n  %s: %+v %+v", v.id, v.past[len(v.past)-1].v, v.disk)
	}
	return s.String()
}

// simCore writes the protocol's log into the trace.
type simCore struct{ x *simProc }

func (c simCore) Enabled(zapcore.Level) bool        { return true }
func (c simCore) With([]zapcore.Field) zapcore.Core { return c }
func (c simCore) Sync() error                       { return nil }
func (c simCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return ce.AddCore(e, c)
}

func (c simCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	m := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(m)
	}
	var said []string
	for _, k := range sortedKeys(m.Fields) {
		said = append(said, fmt.Sprintf("%s=%v", k, m.Fields[k]))
	}
	w := c.x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("%s log: %s %s", c.x.name(), e.Message, strings.Join(said, " "))
	return nil
}
