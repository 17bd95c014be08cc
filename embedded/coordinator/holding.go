package coordinator

import (
	"cmp"
	"fmt"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// holding is the volume that this node holds, its content, and who may touch it. Only holding writes the ledger.
type holding struct {
	env
	history *history
	names   *names

	mu   sync.Mutex
	held held
}

// held is the state of holding at one moment.
type held struct {
	volume  Volume // nil: none
	id      plan.Volume
	none    string // why no volume is free
	failed  string // why none could be claimed although one may be free
	content        // of the volume
	unfit   unfit
	gate    gate
	leaving bool // the volume is being released: what is seen of it may be half done
	parked  bool // the volume was released for good
	left    left
	drained drained
	fresh   string // ID of the record whose founding this process has committed on the volume
}

// content is what this package reads from a volume.
type content struct {
	ledger ledgerV1
	found  bool   // the ledger exists
	broken string // why it cannot be read
	built  string // ID of the proposal whose directory is on the volume
	foreign
}

// foreign is what another program left on a volume.
type foreign struct {
	origin     *plan.Origin // its data that has not been taken over
	strange    string       // why that cannot be read now
	superseded string       // why data that was taken over is out of date
}

// readContent reads the content of a volume.
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

// readForeign reads what another program left. If the ledger has a record the data is ours, unless that program has
// made another cluster since.
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

// hold takes a claimed volume and reads its content.
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
	h.names.write() // the addresses that were heard before there was a volume
}

// forget notes that the volume is no longer held.
func (h *holding) forget() {
	h.set(func(now *held) { now.volume, now.id, now.leaving = nil, plan.Volume{}, false })
}

// leave stops using the volume, at the end of the process. It returns nil if there is none to release.
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

// ours reports whether a volume is held whose identity is right, and that is not being released: its path may lead to
// nothing by now, or to another disk.
func (h held) ours() bool { return h.volume != nil && !h.leaving && sound(h.volume) }

// sound reports whether a volume's identity is right.
func sound(v Volume) bool {
	mismatch, _ := v.Trouble()
	return mismatch == ""
}

// readable reports whether the volume is ours and its ledger can be read.
func (h held) readable() bool { return h.ours() && h.broken == "" }

// usable reports whether the volume is ours and may be written to.
func (h held) usable() bool { return h.ours() && !h.gate.dead }

// begun reports whether a member has run on the volume, so that addresses may be kept there.
func (h held) begun() bool { return h.usable() && h.ledger.Started != "" }

// accepted reports whether the disk here has accepted a record, so that it founds nothing any more.
func (h held) accepted() bool { return h.ours() && h.ledger.Record != nil }

// built notes which proposal's directory is on the volume.
func (h *holding) built(id string) { h.set(func(now *held) { now.built = id }) }

// record updates the ledger as an action leaves it, on the disk first.
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
	if forgets { // a disk with an empty ledger could not be yielded
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

// rewritePromises writes promises again after the disk that was to forget them could not be given up.
func (h *holding) rewritePromises(promised ledgerV1) error {
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
		h.lg.Warn("set etcd's data aside", zap.String("to", to), zap.String("reason", reason))
	}
	return nil
}

// placeHistory lets the history be written to a volume that has taken part in a cluster; waiting entries are then
// written. Any other volume, even one with promises, may have to be given up without a trace. o is the last
// observation.
func (h *holding) placeHistory(o plan.Observation) {
	h.history.at(o)
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.held; now.readable() && now.ledger.Record != nil && !now.gate.dead && !now.gate.closed {
		h.history.keep(now.id.Path)
	} else {
		h.history.keep("")
	}
}

// tell adds the volume and its content to an observation; data is what was found in etcd's directory. It returns the
// path of the volume.
func (h *holding) tell(o *plan.Observation, data inspected) (path string) {
	if !o.Member.Running {
		h.rereadForeign()
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
	if id.Disk != now.id.Disk && o.Claim.Mismatch == "" { // the content in memory is of the disk before
		o.Claim.Mismatch = "its content is being set aside"
	}
	if o.Claim.Mismatch == "" {
		o.Disk = now.disk(id.Slot, data, h.world.Etcd)
	}
	return now.id.Path
}

// rereadForeign reads what another program left again, unless our member runs on it: an etcd may have started or
// stopped since.
func (h *holding) rereadForeign() {
	was, etcd := h.now(), h.world.Etcd
	if m, _ := etcd.State(); m.Running || !was.usable() || was.gate.busy {
		return
	}
	path, is := was.id.Path, was.foreign // it is read without the lock: a disk may be slow
	if was.strange != "" || was.ledger.Record != nil {
		is = was.readForeign(path, etcd) // and always checks below whether an etcd runs there, not only in every second call
	}
	if is.origin != nil && was.broken == "" {
		// Data that was read before this etcd ran must be read again after it.
		if by, err := etcd.InUse(path); err != nil || by != "" {
			is.origin, is.strange = nil, cmp.Or(text(err), "etcd still runs on it: "+by)
		}
	}
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
	// etcd creates a founder's log before it writes the member list into it. If it was killed in between, the disk never
	// voted. etcd would use this log with an empty member list and never elect anyone, so it does not count as a log.
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

// gate keeps actions and an operator's orders about the volume apart.
type gate struct {
	dead   bool   // the volume was lost: nothing begins any more, and nothing is written
	busy   bool   // an action is being carried out
	closed bool   // the volume is being set aside or released, or the member drained: nothing begins
	orders uint64 // how often it was closed
}

// undisturbed reports whether no operator's order about the volume is in progress, and how many there have been. What
// was observed during an order may be half done. So it is not acted on, even if the order is over by then.
func (h *holding) undisturbed() (alone bool, since uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.held.gate.closed, h.held.gate.orders
}

// begin notes whether an action is carried out, and reports whether it may be: no order may have come since the
// observation that it relies on.
func (h *holding) begin(act bool, since uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := &h.held.gate
	g.busy = act && !g.dead && !g.closed && g.orders == since
	return g.busy
}

// ended notes that the action is over.
func (h *holding) ended() { h.set(func(now *held) { now.gate.busy = false }) }

// order begins an operator's order about the volume, unless obstacle forbids it: no action begins until open. It reads
// the status under the lock. That is safe because an action is noted in the gate before the status shows it, and an
// action that has ended is noted in the status first.
func (h *holding) order(s *status, obstacle func(held, Situation) error) (Volume, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := obstacle(h.held, s.last()); err != nil {
		return nil, err
	}
	h.held.gate.closed, h.held.gate.orders = true, h.held.gate.orders+1
	return h.held.volume, nil
}

// open ends an operator's order.
func (h *holding) open() { h.set(func(now *held) { now.gate.closed = false }) }

// engaged reports whether something is being done with the volume.
func (h held) engaged() bool { return h.gate.busy || h.gate.closed || h.gate.dead }
