package coordinator

import (
	"cmp"
	"fmt"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// holding is the volume that this node holds, what is written on it, and who may touch it. It alone writes the ledger.
type holding struct {
	env
	history *history
	names   *names

	mu   sync.Mutex
	held held
}

// held is what is held, at one moment.
type held struct {
	volume  Volume // nil: none
	id      plan.Volume
	none    string // why no volume is free
	failed  string // why none could be claimed all the same
	content        // of the volume
	unfit   unfit
	gate    gate
	leaving bool // the volume is being given up: what is seen of it may be half of that
	parked  bool // the volume was released for good
	left    left
	drained drained
	fresh   string // ID of the record whose founding this process has committed on the volume
}

// content is what this package has written on a volume.
type content struct {
	ledger ledgerV1
	found  bool   // the ledger exists
	broken string // why it cannot be read
	built  string // ID of the proposal whose directory lies on the volume
	foreign
}

// foreign is what another program left on a volume.
type foreign struct {
	origin     *plan.Origin // what its data says that nobody has taken up
	strange    string       // why that cannot be read now
	superseded string       // why what was taken up is of the past
}

// readContent reads what is on a volume.
func readContent(path string, etcd Foreign) content {
	var is content
	var err error
	if is.ledger, is.found, err = readLedger(path); err != nil {
		is.broken = err.Error()
	}
	if is.built, err = findBuilt(path, is.ledger.Prepared); err != nil {
		is.broken = err.Error()
	}
	is.foreign = is.readForeign(path, etcd)
	return is
}

// readForeign reads what another program left. Where the ledger knows a cluster its data is ours, unless that program
// has made another cluster since.
func (c content) readForeign(path string, etcd Foreign) (is foreign) {
	var err error
	switch {
	case c.broken != "":
	case c.ledger.Record != nil:
		is.superseded, err = etcd.Superseded(path)
	default:
		is.origin, err = etcd.Origin(path)
	}
	if err != nil {
		is.strange = err.Error()
	}
	return is
}

// lookAgain is readForeign where something may have changed: another program may have run on the data.
func (c content) lookAgain(path string, etcd Foreign) foreign {
	is := c.foreign
	if c.strange != "" || c.ledger.Record != nil {
		is = c.readForeign(path, etcd) // and again whether an etcd runs there: else every second look would not see it
	}
	if is.origin == nil || c.broken != "" {
		return is
	}
	if by, err := etcd.InUse(path); err != nil || by != "" { // what was read before it is read again after it
		is.origin, is.strange = nil, cmp.Or(text(err), "etcd still runs on it: "+by)
	}
	return is
}

// hold takes up a claimed volume and reads what is on it.
func (h *holding) hold(v Volume) {
	is, id := content{}, v.Identity()
	if sound(v) {
		is = readContent(id.Path, h.world.Etcd)
		h.names.learn(readAddresses(id.Path))
	}
	h.set(func(now *held) {
		now.volume, now.id, now.content, now.fresh = v, id, is, ""
		now.none, now.failed = "", ""
	})
	h.names.write() // those that were heard of before there was a volume
}

// without notes why no volume is free, or why one could not be claimed.
func (h *holding) without(none, failed string) {
	h.set(func(now *held) { now.none, now.failed = none, failed })
}

// forget notes that the volume is not held any more.
func (h *holding) forget() {
	h.set(func(now *held) { now.volume, now.id, now.leaving = nil, plan.Volume{}, false })
}

// leave ends the use of the volume, for the end of the process. It returns nil if there is none to release.
func (h *holding) leave() Volume {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.held.volume
	h.held.volume = nil
	if h.held.gate.dead {
		return nil
	}
	return v
}

// lose notes that the volume was lost: nothing begins and nothing is written any more.
func (h *holding) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held.gate.dead = true
	h.history.keep("")
}

// now returns what is held.
func (h *holding) now() held {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// set changes what is held.
func (h *holding) set(change func(now *held)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.held)
}

// ours reports whether there is a volume that is what it says it is.
func (h held) ours() bool { return h.volume != nil && sound(h.volume) }

// sound reports whether a volume is what it says it is.
func sound(v Volume) bool {
	mismatch, _ := v.Trouble()
	return mismatch == ""
}

// readable reports whether the volume is ours and its ledger can be read.
func (h held) readable() bool { return h.ours() && h.broken == "" }

// usable reports whether the volume is ours and may be written to.
func (h held) usable() bool { return h.ours() && !h.gate.dead }

// begun reports whether a member has run on the volume, and addresses may be kept there.
func (h held) begun() bool { return h.volume != nil && !h.gate.dead && h.ledger.Started != "" }

// accepted reports whether the disk here has accepted a record: it founds nothing any more.
func (h held) accepted() bool { return h.ours() && h.ledger.Record != nil }

// built notes which proposal's directory lies on the volume.
func (h *holding) built(id string) { h.set(func(now *held) { now.built = id }) }

// record writes what an action leaves in the ledger, to the disk first.
func (h *holding) record(a plan.Action) error {
	now := h.now()
	if now.gate.dead {
		return ErrVolumeLost
	}
	l := now.ledger
	l.Ledger = l.After(a, now.id.Disk)
	if a.Kind == plan.Start {
		l.Etcd = h.cfg.Plan.Etcd
	}
	h.world.Step("before-" + string(a.Kind))
	forgets := a.Kind == plan.Yield || a.Kind == plan.Renounce && now.ledger.Record == nil
	write := l.write
	if forgets { // an empty ledger would keep the disk from being yielded
		l, write = ledgerV1{}, removeLedger
	}
	if err := write(now.id.Path); err != nil {
		return err
	}
	h.set(func(now *held) {
		now.ledger, now.found = l, !forgets
		if l.Record != nil {
			now.origin, now.strange = nil, ""
		}
		if a.Kind == plan.Commit {
			now.fresh = a.Record.ID
		}
	})
	h.world.Step("after-" + string(a.Kind))
	return nil
}

// restate writes promises again that were to be forgotten with the disk, which is not given up after all.
func (h *holding) restate(promised ledgerV1) error {
	if err := promised.write(h.now().id.Path); err != nil {
		return err
	}
	h.set(func(now *held) { now.ledger, now.found = promised, true })
	return nil
}

// asideEtcd sets etcd's data aside.
func (h *holding) asideEtcd(reason string) error {
	path := h.now().id.Path
	h.world.Step("before-rename")
	to, err := h.world.Etcd.SetAside(filepath.Join(path, EtcdDir), reason)
	if err != nil {
		return fmt.Errorf("set etcd's data aside: %w", err)
	}
	if to != "" {
		h.lg.Warn("etcd's data was set aside", zap.String("to", to), zap.String("because", reason))
	}
	return nil
}

// house has the history written to a volume that has taken part in a cluster: one that has not, promises or no, may
// have to be given up without a trace. What waits is written then. o is what was observed last.
func (h *holding) house(o plan.Observation) {
	h.history.at(o)
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.held; now.readable() && now.ledger.Record != nil && !now.gate.dead && !now.gate.closed {
		h.history.keep(now.id.Path)
	} else {
		h.history.keep("")
	}
}

// tell completes an observation with the volume, and with what is on it: data is what was found of etcd's there. It
// returns the path of the volume.
func (h *holding) tell(o *plan.Observation, data inspected) (path string) {
	if !o.Member.Running {
		h.look()
	}
	now := h.now()
	o.Parked, o.Drained, o.Claim.None = now.parked, now.drained.on, now.none
	o.Claim.Failed = now.failed
	if now.volume == nil || now.leaving {
		if now.volume == nil {
			o.Claim.Standby = h.world.Volumes.Standby()
		}
		return ""
	}
	id := now.volume.Identity()
	o.Claim = plan.Claim{Held: true, Slot: id.Slot, Epoch: id.Epoch, Disk: id.Disk, Lock: id.Lock}
	o.Claim.Mismatch, o.Claim.Missing = now.volume.Trouble()
	if id.Disk != now.id.Disk && o.Claim.Mismatch == "" { // what is held was read on the disk that it was
		o.Claim.Mismatch = "its content is being set aside"
	}
	if o.Claim.Mismatch == "" {
		o.Disk = now.disk(id.Slot, data, h.world.Etcd)
	}
	return now.id.Path
}

// look reads again what another program left, unless our member runs on it: an etcd may have begun or ended since.
func (h *holding) look() {
	was := h.now()
	if m, _ := h.world.Etcd.State(); m.Running || !was.usable() || was.gate.busy {
		return
	}
	is := was.lookAgain(was.id.Path, h.world.Etcd) // a disk may take its time
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.held; now.volume == was.volume && now.ledger.Record == was.ledger.Record {
		h.held.foreign = is
	}
}

// disk describes what is on the volume.
func (h held) disk(slot string, data inspected, etcd Disk) plan.Disk {
	d := plan.Disk{Unknown: h.broken, Unfit: h.unfit.why, Ledger: h.ledger.Ledger, HasLedger: h.found, Built: h.built}
	if data.err != nil {
		d.Unknown = data.err.Error()
	}
	if d.Unknown = cmp.Or(d.Unknown, h.strange); d.Unknown != "" {
		return d
	}
	d.Origin, d.Superseded = h.origin, h.superseded
	// etcd creates a founder's log before it writes the member list into it. Killed in between, the disk
	// never voted, and etcd would take the log up with a list of nobody and never elect: it is no log.
	if !data.Unborn || d.Ledger.Role != plan.RoleFounder {
		d.WAL, d.Member, d.ClusterID = data.WAL, data.Member, data.ClusterID
		if d.WAL {
			d.Log, d.Term = data.log, data.Term
		}
	}
	if r := d.Ledger.Record; r != nil {
		d.Fresh = h.fresh == r.ID
		members, cluster, err := etcd.FounderIDs(*r)
		if err != nil {
			d.Unknown = err.Error()
			return d
		}
		d.RecordCID, d.Founders = cluster, members
		if seat, ok := r.Charter.Seat(slot); ok {
			d.Founder = members[seat.Slot]
		}
	}
	return d
}
