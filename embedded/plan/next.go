package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Next decides. The order of the checks is the order of PROTOCOL R6 and R1: who we are, whether somebody
// else is us, what we have, and only then what might be founded.
func Next(o Observation) Action {
	switch {
	case o.Twin != "" && !o.Member.Running:
		return wait("another live process calls itself %s, at %s: each node needs its own node.name, and a copy of a disk must not start; waiting until it is gone", o.Node, o.Twin)
	case !o.Claim.Held && o.Parked:
		return wait("an operator has released the volume of this node: it claims none until it is restarted")
	case !o.Claim.Held:
		return o.acquire()
	case o.Claim.Mismatch != "":
		return wait("the volume of slot %s is not what it says it is: %s; nothing is touched; if its content may be set aside, run `holdfast volume adopt`",
			o.Claim.Slot, o.Claim.Mismatch)
	case o.Disk.Unknown != "":
		return wait("the volume of slot %s cannot be read: %s", o.Claim.Slot, o.Disk.Unknown)
	case o.Disk.Ledger.Started != "" && o.Disk.Ledger.Started != o.Claim.Disk:
		return wait("the founding ledger on slot %s is that of another disk (%s, this is %s): was the directory copied? if its content may be set aside, run `holdfast volume adopt`",
			o.Claim.Slot, o.Disk.Ledger.Started, o.Claim.Disk)
	case o.Disk.Ledger.Record == nil && (o.Member.Running || o.Member.Removed):
		return wait("etcd has run on slot %s, yet its disk knows no record of a cluster: nothing is touched; stop this node and look at the disk", o.Claim.Slot)
	case o.Member.Removed:
		return o.setAside("the cluster")
	case o.Member.Running && o.outlived():
		later, _ := o.latest()
		return Action{Kind: SetAside, Record: later,
			Why: fmt.Sprintf("%s can never have a leader, for its founders went on to %s: the data, which nobody ever wrote to, is set aside and slot %s joins that", o.Disk.Ledger.Record.Token(), later.Token(), o.Claim.Slot)}
	case o.Member.Running:
		return o.steady()
	case o.Disk.WAL && o.Disk.Ledger.Record != nil && o.removedBy(o.Disk.Member) != "":
		return o.setAside("as node " + o.removedBy(o.Disk.Member) + " knows, the cluster")
	}
	if a, stop := o.rivalry(); stop {
		return a
	}
	switch {
	case o.Early && o.Disk.Ledger.Record != nil && !o.heardAll():
		return wait("slot %s listens for a moment whether another node runs it%s", o.Claim.Slot, o.whoRuns(o.Disk.Ledger.Record))
	case o.Disk.WAL:
		return o.resume()
	case o.Disk.Ledger.Record != nil:
		return o.enter()
	default:
		return o.begin()
	}
}

// acquire asks for a volume. Which one is the provider's business; we only know which slots would clash.
func (o Observation) acquire() Action {
	a := Action{Kind: Acquire, Why: "no volume is held: claiming one"}
	if o.Claim.None != "" {
		a.Why = "standing by: " + o.Claim.None
	}
	if o.Config.Yields {
		a.Avoid = o.taken()
	}
	return a
}

// taken names the slots that others hold. Those of lost nodes count, too: a host that stands by must not
// take the slot of one that only restarts, for its own blank disk would cost the cluster a good one. Only
// of a lost blank disk nothing is lost, so its slot is free once no other is.
func (o Observation) taken() map[string]string {
	taken, blank := map[string]string{}, map[string]string{}
	for _, p := range o.Peers {
		f := p.Facts
		switch {
		case f == nil || f.Slot == "":
		case p.Live:
			taken[f.Slot] = "held by " + p.Node
		case taken[f.Slot] != "":
		case f.past():
			taken[f.Slot] = fmt.Sprintf("held by %s when it was last seen; if that is gone for good, set volume.local.slot here", p.Node)
		default:
			blank[f.Slot] = fmt.Sprintf("held by %s when it was last seen", p.Node)
		}
	}
	for slot, node := range o.heldBefore() {
		if taken[slot] == "" {
			taken[slot] = fmt.Sprintf("held by %s before; if that is gone for good, set volume.local.slot here", node)
		}
	}
	for _, slot := range o.Config.Slots {
		if taken[slot] == "" && blank[slot] == "" {
			maps.Copy(blank, taken)
			return blank
		}
	}
	return taken
}

// heldBefore returns, by slot, the other nodes that held a member's disk last, as running members remember.
func (o Observation) heldBefore() map[string]string {
	before := map[string]string{}
	for _, p := range o.live() {
		if p.Facts == nil {
			continue
		}
		for slot, node := range p.Facts.Holders {
			if node != o.Node {
				before[slot] = node
			}
		}
	}
	return before
}

// past reports whether the disk has taken part in a cluster.
func (f Facts) past() bool {
	return f.Phase != PhaseNone && f.Phase != PhaseBlank
}

// rivalry looks for another live holder of our slot. The disk lock keeps two processes from one volume;
// this keeps two volumes from one name.
func (o Observation) rivalry() (Action, bool) {
	me := o.Facts(nil)
	pristine := o.Config.Yields && me.Phase == PhaseBlank && !o.Disk.HasLedger
	if node := o.heldBefore()[me.Slot]; pristine && node != "" {
		return Action{Kind: Yield, Slot: me.Slot, Why: fmt.Sprintf("node %s held slot %s before, with its data: the blank disk here leaves it to that", node, me.Slot)}, true
	}
	for _, p := range o.Peers {
		f := p.Facts
		if f == nil || f.Slot != o.Claim.Slot {
			continue
		}
		if !p.Live {
			if pristine && f.past() {
				return Action{Kind: Yield, Slot: me.Slot, Why: fmt.Sprintf("node %s held slot %s when it was last seen, with its data: the blank disk here leaves it to that", p.Node, f.Slot)}, true
			}
			continue
		}
		switch {
		case stronger(me, o.Node, *f, p.Node):
			continue
		case pristine:
			return Action{Kind: Yield, Slot: me.Slot, Why: fmt.Sprintf("node %s holds slot %s as well and comes first: the blank disk here takes another slot", p.Node, f.Slot)}, true
		case f.Running:
			return wait("node %s runs slot %s (disk %s, epoch %d), so this disk (%s, epoch %d) does not start; stop one of the two",
				p.Node, f.Slot, f.Disk, f.Epoch, me.Disk, me.Epoch), true
		default:
			return wait("node %s holds slot %s as well (disk %s, epoch %d; this disk is %s, epoch %d) and comes first; waiting until it is gone",
				p.Node, f.Slot, f.Disk, f.Epoch, me.Disk, me.Epoch), true
		}
	}
	return Action{}, false
}

// stronger says which of two holders of one slot may go on: the one that runs; the one with more to lose;
// then the later claim; then the lower node name. Blank disks have claims that cannot be compared (each
// host counts its own), so there the name decides at once.
func stronger(a Facts, aNode string, b Facts, bNode string) bool {
	rank := func(f Facts) int {
		switch {
		case f.Running:
			return 5
		case f.Phase == PhaseData:
			return 4
		case f.Phase == PhaseFounder || f.Phase == PhaseJoiner:
			return 3
		case f.Record != nil:
			return 2
		case f.Promise != nil:
			return 1
		}
		return 0
	}
	if ra, rb := rank(a), rank(b); ra != rb {
		return ra > rb
	}
	if rank(a) > 1 && a.Epoch != b.Epoch {
		return a.Epoch > b.Epoch
	}
	return aNode < bNode
}

// resume starts etcd on the data it has, unless somebody knows better (R6).
func (o Observation) resume() Action {
	d := o.Disk
	r := d.Ledger.Record
	if r == nil {
		return o.repair()
	}
	if d.ClusterID != d.RecordCID {
		return wait("the etcd data on slot %s belongs to cluster %x, but its ledger speaks of %s (%x): nothing is touched; if it may be set aside, run `holdfast volume adopt`",
			o.Claim.Slot, d.ClusterID, r.Token(), d.RecordCID)
	}
	if later, conflict := o.latest(); conflict != "" {
		return wait("%s; this disk holds data of %s and does not start", conflict, r.Token())
	} else if later.ID != r.ID {
		return Action{Kind: SetAside, Record: later,
			Why: fmt.Sprintf("the cluster has gone on as %s while this disk was away at %s: its data is set aside and slot %s joins anew", later.Token(), r.Token(), o.Claim.Slot)}
	}
	if l := d.Ledger; l.Role == RoleJoiner && l.Join != d.Member {
		return Action{Kind: SetAside, Record: r,
			Why: fmt.Sprintf("slot %s was admitted as learner %x, but the data took the place of %x, which is for another disk: it is set aside and the slot joins anew", o.Claim.Slot, l.Join, d.Member)}
	}
	return Action{Kind: Start, Record: r, Member: d.Member, Peers: r.Charter.Peers(), Why: fmt.Sprintf("slot %s resumes with its data", o.Claim.Slot)}
}

// setAside answers the news that a quorum has removed the member whose data this is. That is final, so
// it needs no look at rivals, and makes way for them.
func (o Observation) setAside(who string) Action {
	return Action{Kind: SetAside, Record: o.Disk.Ledger.Record,
		Why: fmt.Sprintf("%s has removed member %x, which this disk was: its data is set aside and slot %s joins anew", who, o.Disk.Member, o.Claim.Slot)}
}

// repair answers etcd data without a ledger: it is taken up only if its cluster ID is that of a record
// which somebody else knows.
func (o Observation) repair() Action {
	if !o.Disk.HasLedger {
		for _, p := range o.Peers {
			if f := p.Facts; f != nil && f.Record != nil && f.CID != 0 && f.CID == o.Disk.ClusterID {
				return Action{Kind: Repair, Record: f.Record, Member: o.Disk.Member, Why: fmt.Sprintf("the founding ledger is missing beside data of %s, which node %s knows: writing it again", f.Record.Token(), p.Node)}
			}
		}
		if r := o.Store.Record; r != nil && o.Store.CID == o.Disk.ClusterID {
			return Action{Kind: Repair, Record: r, Member: o.Disk.Member, Why: fmt.Sprintf("the founding ledger is missing beside data of %s, which the store knows: writing it again", r.Token())}
		}
	}
	return wait("slot %s holds etcd data of a cluster that nobody here knows (cluster %x, member %x): nothing is touched; if it may be set aside, run `holdfast volume adopt`",
		o.Claim.Slot, o.Disk.ClusterID, o.Disk.Member)
}

// enter brings a disk that has accepted a record, but holds no etcd data, into the cluster: as the
// founder it promised to be, as the learner it was admitted as, or by waiting for an admission.
func (o Observation) enter() Action {
	l := o.Disk.Ledger
	r := l.Record
	if o.anew() {
		return o.renounce("the operator gave up " + r.Token())
	}
	later, conflict := o.latest()
	if conflict != "" {
		return wait("%s", conflict)
	}
	if later.ID != r.ID {
		return Action{Kind: Vacate, Record: later, Why: fmt.Sprintf("the cluster has gone on as %s: slot %s joins it", later.Token(), o.Claim.Slot)}
	}
	switch {
	case l.Started != "" || l.Role != RoleJoiner && l.Role != RoleFounder:
		return o.await(r)
	case l.Role == RoleJoiner:
		return o.join(r, l.Join)
	case o.replacedAs(r) != "":
		return Action{Kind: Vacate, Record: r, Why: fmt.Sprintf("%s: slot %s joins anew", o.replacedAs(r), o.Claim.Slot)}
	default:
		return Action{Kind: Start, Record: r, Member: o.Disk.Founder, Peers: r.Charter.Peers(), Why: fmt.Sprintf("every disk has promised: slot %s starts as a founder of %s", o.Claim.Slot, r.Token())}
	}
}

// replacedAs says whether the founder that this disk was to be is no longer a member.
func (o Observation) replacedAs(r *Record) string {
	if by := o.removedBy(o.Disk.Founder); by != "" {
		return fmt.Sprintf("node %s knows that the cluster removed the founder of slot %s", by, o.Claim.Slot)
	}
	for _, p := range o.Peers {
		if p.Facts == nil || p.Facts.Record == nil || p.Facts.Record.ID != r.ID {
			continue
		}
		for _, m := range p.Facts.Members {
			if m.Slot == o.Claim.Slot && m.ID != o.Disk.Founder {
				return fmt.Sprintf("node %s knows slot %s as another member", p.Node, o.Claim.Slot)
			}
		}
	}
	return ""
}

// await waits for a leader to admit this disk.
func (o Observation) await(r *Record) Action {
	leader := o.leader(r)
	if leader == nil {
		return wait("slot %s has no member data and must be admitted by the leader of %s, and no leader is seen: a majority of its members (%s) must run first%s",
			o.Claim.Slot, r.Token(), strings.Join(r.Charter.Slots(), ", "), o.whoRuns(r))
	}
	for _, ad := range leader.Facts.Admitted {
		if ad.Disk == o.Claim.Disk && ad.Slot == o.Claim.Slot && o.removedBy(ad.ID) == "" {
			return Action{Kind: Accept, Record: r, Member: ad.ID, Why: fmt.Sprintf("leader %s has admitted slot %s as learner %x", leader.Node, ad.Slot, ad.ID)}
		}
	}
	return wait("slot %s has no member data: waiting for leader %s to admit it as a learner", o.Claim.Slot, leader.Node)
}

// join starts the learner that was admitted, or waits for an admission again if it is no longer wanted.
func (o Observation) join(r *Record, id uint64) Action {
	if by := o.removedBy(id); by != "" {
		return Action{Kind: Vacate, Record: r, Why: fmt.Sprintf("node %s knows that learner %x was removed before it started: slot %s waits to be admitted again", by, id, o.Claim.Slot)}
	}
	leader := o.leader(r)
	if leader == nil {
		return wait("slot %s is admitted as learner %x and waits to see a leader of %s%s", o.Claim.Slot, id, r.Token(), o.whoRuns(r))
	}
	peers := map[string]string{}
	listed := false
	for _, m := range leader.Facts.Members {
		peers[m.Slot] = PeerURL(r.Charter.PeerURL, m.Slot)
		listed = listed || m.ID == id
	}
	if !listed {
		return wait("slot %s is admitted as learner %x, which leader %s does not list yet", o.Claim.Slot, id, leader.Node)
	}
	return Action{Kind: Start, Record: r, Member: id, Join: true, Peers: peers, Why: fmt.Sprintf("slot %s joins %s as learner %x", o.Claim.Slot, r.Token(), id)}
}

// anew reports whether the operator gave the cluster up, and nobody shows that it lives after all.
func (o Observation) anew() bool {
	return o.Orders.New && !slices.ContainsFunc(o.Peers, func(p Peer) bool {
		return p.Live && p.Facts != nil && p.Facts.Leader
	})
}

func (o Observation) renounce(why string) Action {
	return Action{Kind: Renounce, Mirror: o.Orders.New && o.Store.Record != nil, Why: why}
}

// latest returns the newest record that anybody knows, or says what contradicts it. A newer generation
// counts only if it descends from ours; another founding is another cluster, unless one of both was
// stillborn.
func (o Observation) latest() (*Record, string) {
	mine := o.Disk.Ledger.Record
	best := mine
	if mine != nil && o.stillborn(mine) {
		best = nil
	}
	for _, p := range o.Peers {
		if p.Facts == nil || p.Facts.Record == nil || o.stillborn(p.Facts.Record) {
			continue
		}
		r := p.Facts.Record
		switch {
		case best == nil || r.Generation == best.Generation+1 && r.Parent == best.ID:
			best = r
		case r.ID == best.ID || r.Generation+1 == best.Generation && r.ID == best.Parent:
		case o.descends(r, best) && r.Generation > best.Generation:
			best = r
		case o.descends(best, r):
		default:
			return nil, fmt.Sprintf("two clusters claim the name %q: %s and %s (node %s); keep one of them away from this gossip", o.Config.Cluster, best.Token(), r.Token(), p.Node)
		}
	}
	if best == nil {
		best = mine
	}
	return best, ""
}

// outlived reports whether the member here waits for a founding that was stillborn while another was not.
func (o Observation) outlived() bool {
	mine := o.Disk.Ledger.Record
	if o.Member.Ready || !o.stillborn(mine) {
		return false
	}
	later, _ := o.latest()
	return later != nil && later.ID != mine.ID
}

// descends reports whether a's line of parents, as far as anybody knows it, leads to b.
func (o Observation) descends(a, b *Record) bool {
	for a != nil && a.Generation > b.Generation {
		if a.Parent == b.ID {
			return true
		}
		child := a
		a = nil
		for _, p := range o.Peers {
			if p.Facts != nil && p.Facts.Record != nil && p.Facts.Record.ID == child.Parent && p.Facts.Record.Generation < child.Generation {
				a = p.Facts.Record // older, so that a circle of parents comes to an end
			}
		}
	}
	return false
}

// leader returns a live node that says it leads the generation.
func (o Observation) leader(r *Record) *Peer {
	for _, p := range o.live() {
		if p.Facts != nil && p.Facts.Leader && p.Facts.Record != nil && p.Facts.Record.ID == r.ID {
			return &p
		}
	}
	return nil
}

// removedBy returns a node that knows the member to be removed from our generation: "" if none does. It
// has applied that change, so a quorum has decided it, and an ID never comes back.
func (o Observation) removedBy(id uint64) string {
	for _, p := range o.Peers {
		if id != 0 && p.Facts != nil && slices.Contains(p.Facts.Removed, id) {
			return p.Node
		}
	}
	return ""
}

// heardAll reports whether every other slot of our record has a live holder. Whoever brought us word of
// those would have brought word of a rival as well.
func (o Observation) heardAll() bool {
	if o.Config.Seeded && len(o.live()) == 0 {
		return false
	}
	for _, slot := range o.Disk.Ledger.Record.Charter.Slots() {
		if slot != o.Claim.Slot && !slices.ContainsFunc(o.live(), func(p Peer) bool { return p.Facts != nil && p.Facts.Slot == slot }) {
			return false
		}
	}
	return true
}

// whoRuns completes a sentence on a missing leader with what is known of the members.
func (o Observation) whoRuns(r *Record) string {
	var parts []string
	for _, slot := range r.Charter.Slots() {
		state := "no live holder"
		for _, p := range o.live() {
			if p.Facts != nil && p.Facts.Slot == slot {
				state = fmt.Sprintf("%s on %s", p.Facts.Phase, p.Node)
				if p.Facts.Running {
					state = "running on " + p.Node
				}
			}
		}
		if slot != o.Claim.Slot {
			parts = append(parts, slot+": "+state)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

func (o Observation) live() []Peer {
	live := make([]Peer, 0, len(o.Peers))
	for _, p := range o.Peers {
		if p.Live {
			live = append(live, p)
		}
	}
	return live
}

func wait(format string, args ...any) Action {
	return Action{Kind: Wait, Why: fmt.Sprintf(format, args...)}
}
