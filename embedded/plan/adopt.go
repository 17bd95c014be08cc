package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Program is who made etcd's data.
type Program string

// The programs whose clusters can be adopted.
const (
	EtcdManager Program = "etcd-manager" // kubernetes-sigs/etcd-manager: the file state, and the data in data/TOKEN
	PlainEtcd   Program = "etcd"         // a data directory, with the directory member in it
)

// Origin is what data on a volume that holdfast did not make says of its cluster (R22). All of it is read from the
// disk.
type Origin struct {
	Program Program
	Path    string // of etcd's data directory, relative to the volume: data/TOKEN, or . where that is the volume itself
	Token   string // with which the cluster was founded; "" where the disk does not tell it, which is so of plain etcd
	Cluster uint64 // its ID, from the log
	Member  uint64 // ID of the member that this disk is, from the log
	Members []Elder
	Version string // that the cluster has agreed on, as 3.6.0; "" while it has not
	// Obstacle is why the data cannot be taken up, and what to do; "" if nothing is in the way.
	Obstacle string
}

// Elder is a member of an adopted cluster, as its list had it when the record was made.
type Elder struct {
	ID      uint64 `json:"id"`
	Name    string `json:"name,omitempty"` // "" if it never started
	PeerURL string `json:"peer_url"`
	Learner bool   `json:"learner,omitempty"`
	// Slot is the slot in the peer URL, by the pattern of this node's configuration; "" if it does not fit.
	Slot string `json:"slot,omitempty"`
}

// Adoption is what a record says of a cluster that holdfast did not found: etcd's own words, from the disk on which it
// was found first.
type Adoption struct {
	Token   string  `json:"token,omitempty"` // etcd's; "" where the disk did not tell it
	Cluster uint64  `json:"cluster_id"`
	Members []Elder `json:"members"` // sorted by slot
	// Program is whose cluster it was; "" in records of versions that did not say it.
	Program Program `json:"program,omitempty"`
}

// From is whose cluster it was. Only etcd-manager's disks tell etcd's token.
func (a Adoption) From() Program {
	switch {
	case a.Program != "":
		return a.Program
	case a.Token != "":
		return EtcdManager
	}
	return PlainEtcd
}

// AdoptedRecord makes the record of a cluster that is taken over. Its ID depends only on what all of its disks say
// alike, so that every node makes the same one, whichever members the list has by then.
func AdoptedRecord(cluster, peerURL string, from Origin) Record {
	r := Record{Cluster: cluster, Generation: 1, ID: adoptedID(cluster, peerURL, from.Cluster), Cause: Adopted,
		Adopted: &Adoption{Token: from.Token, Cluster: from.Cluster, Members: slices.Clone(from.Members),
			Program: from.Program},
		Charter: Charter{Cluster: cluster, Generation: 1, PeerURL: peerURL}}
	slices.SortFunc(r.Adopted.Members, func(a, b Elder) int { return strings.Compare(a.Slot, b.Slot) })
	for _, m := range r.Adopted.Members {
		r.Charter.Seats = append(r.Charter.Seats, Seat{Slot: m.Slot, Member: m.ID})
	}
	return r
}

func adoptedID(cluster, peerURL string, id uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "adopted %q %q %x", cluster, peerURL, id))
	return hex.EncodeToString(sum[:8])
}

// cluster names the cluster, whose ID shows only where the log can be read.
func (f Origin) cluster() string {
	if f.Cluster == 0 {
		return fmt.Sprintf("cluster of %s", f.Program)
	}
	return fmt.Sprintf("cluster %x of %s", f.Cluster, f.Program)
}

// elder returns the member with an ID.
func (f Origin) elder(id uint64) (Elder, bool) {
	i := slices.IndexFunc(f.Members, func(m Elder) bool { return m.ID == id })
	if i < 0 {
		return Elder{}, false
	}
	return f.Members[i], true
}

// Frozen is what waits until an adopted cluster is ours as a whole (R22).
const Frozen = "until holdfast runs every member, none is added, removed or replaced, nothing is " +
	"restored, and no backup is deleted"

// Adopting is what a node that holds foreign data on its disk, on which no etcd runs, does about it: it is an Adopt, or
// says why the data is not taken up.
func (obs Observation) Adopting() Action { return adopting(look(&obs)).adopt() }

// adopting asks whether foreign data on the disk may be taken up, and whether a cluster that was adopted is ours as a
// whole by now (R22).
type adopting view

// adopt takes up the foreign data on the disk, whose member is then run by this node. The record is put into the store
// first: from then on nobody founds anything beside it.
func (o adopting) adopt() Action {
	from := o.Disk.Origin
	if why := o.unfit(from); why.Text != "" {
		return wait("%s", why)
	}
	if known, by := resuming(o).known(); known != nil && o.Disk.WAL { // it was taken up before, and may have gone on since
		return resuming(o).rewrite(known, by)
	}
	r := AdoptedRecord(o.Config.Cluster, o.Config.PeerURL, *from)
	if err := r.Valid(); err != nil {
		return wait("slot %s holds data of the cluster %x of %s that cannot be taken over: no record can be made of "+
			"its members: %v",
			o.Claim.Slot, from.Cluster, from.Program, err)
	}
	if why := o.others(&r); why.Text != "" {
		return wait("%s", why)
	}
	if s := o.Store; s.Unknown == "" && len(s.Requests) > 0 {
		return wait("slot %s does not take over the member %x of %s while a command to it is queued in the backup store "+
			"(%s), which it may carry out at any time, while no node here will: delete it with `etcd-manager-ctl "+
			"delete-command`, or "+
			"start %[3]s on this machine again and let all machines carry it out",
			o.Claim.Slot, from.Member, from.Program, s.Requests[0].Command)
	}
	shared, unknown := founding(o).shared(nil)
	if unknown != "" {
		return wait("slot %s does not take over the member %x of %s yet: %s", o.Claim.Slot, from.Member, from.Program,
			unknown)
	}
	over := o.over(&r)
	if known := o.Store.Record; known != nil && known.ID == r.ID {
		r = *known
	}
	return Action{Kind: Adopt, Record: &r, Member: from.Member, Over: over,
		Mirror: shared && (o.Store.Record == nil || over),
		Why: fmt.Sprintf("slot %s takes over the member %x of the cluster %x that %s "+
			"has run, with its data: %s", o.Claim.Slot,
			from.Member, from.Cluster, from.Program, r.Token())}
}

// unfit says why the data on the disk must not be taken up.
func (o adopting) unfit(from *Origin) Said {
	slot, cluster := o.Claim.Slot, from.cluster()
	m, listed := from.elder(from.Member)
	strays := slices.DeleteFunc(slices.Clone(from.Members), func(m Elder) bool { return !m.Learner && m.Name != "" })
	switch {
	case !o.Config.Adopt:
		return say("slot %s holds data of the %s, and nothing is touched: to take the cluster over, set cluster.adopt to "+
			"true; if the data may be set aside, run %s",
			slot, cluster, setVolumeAside)
	case from.Obstacle != "":
		return say("slot %s holds data of the %s that cannot be taken over: %s", slot, cluster, from.Obstacle)
	case !listed:
		return say("slot %s holds data of member %x, which the %s does not have any more: if "+
			"it may be set aside, run %s", slot,
			from.Member, cluster, setVolumeAside)
	case m.Slot != slot:
		return say("slot %s holds data of the member of slot %s (%x) of the %s: "+
			"give this volume the slot %s", slot, m.Slot, m.ID,
			cluster, m.Slot)
	case len(strays) > 0:
		return say("the %s has a member that is a learner or has not started yet (%x): promote it, or "+
			"remove it, with etcdctl first",
			cluster, strays[0].ID)
	case undecided(from.Version):
	case Older(o.Config.Etcd, from.Version):
		return say("the %s is at etcd %s, and this holdfast embeds %s, which cannot open its data: run one "+
			"with that etcd or a newer one",
			cluster, from.Version, o.Config.Etcd)
	case distant(o.Config.Etcd, from.Version):
		return say("the %s is at etcd %s, and this holdfast embeds %s: members more than one minor apart cannot be in one "+
			"cluster; upgrade it with %s first, one minor after the other",
			cluster, from.Version, o.Config.Etcd, from.Program)
	}
	return Said{}
}

// undecided reports whether a cluster has not agreed on a version: etcd's is 3.0 until all members have told theirs.
func undecided(version string) bool {
	m, known := MinorOf(version)
	return !known || m == Minor{3, 0}
}

// distant reports whether etcd a is more than one minor after b.
func distant(a, b string) bool {
	x, one := MinorOf(a)
	y, two := MinorOf(b)
	return one && two && x.Major == y.Major && x.Minor > y.Minor+1
}

// others says what anybody else knows that contradicts the record to be.
func (o adopting) others(r *Record) Said {
	for _, p := range o.Peers {
		f := p.Facts
		if f != nil && f.CID == r.Adopted.Cluster && f.Record != nil && f.Record.Lineage() != r.ID {
			return say("node %s has taken over the same cluster %x as %s, and this node would do so as %s: "+
				"cluster.name and "+
				"etcd.peer-url must be the same",
				p.Node, f.CID, f.Record.Token(), r.Token())
		}
	}
	known, conflict := o.settled(r).latest()
	switch s := o.Store.Record; {
	case conflict != "":
		return say("%s", conflict)
	case known != nil && known.Lineage() != r.ID:
		return say("two clusters claim the name %q: %s, and the one on this disk, %s; keep one of them away from this gossip",
			o.Config.Cluster, known.Token(), r.Token())
	case s != nil && o.Store.Unknown == "" && s.Lineage() != r.ID && !o.over(r):
		return say("the backup store knows the cluster as %s, and this disk is of %s: if it was given back, finish that "+
			"with %s on its last member; otherwise give this node another snapshot.store",
			s.Token(), r.Token(), Command("takeover release"))
	}
	return Said{}
}

// over reports whether the store's record is of another cluster that was given back, down to its last member. Whatever
// the other program has made of that since, by a restore say, may take its place.
func (o adopting) over(r *Record) bool {
	s := o.Store
	return s.Unknown == "" && s.Record != nil && s.Returned && s.Record.Lineage() != r.ID
}

// settled leaves out what lost nodes have said of other clusters, where the store says that the one on this disk has
// their place, or may take it.
func (o adopting) settled(r *Record) knowledge {
	s, rest := o.Store, *o.Observation
	if o.over(r) || s.Unknown == "" && s.Record != nil && s.Record.Lineage() == r.ID {
		rest.Peers = slices.DeleteFunc(slices.Clone(o.Peers), func(p Peer) bool {
			return !p.Live && p.Facts != nil && p.Facts.Record != nil && p.Facts.Record.Lineage() != r.ID
		})
	}
	return look(&rest).knowledge
}

// foreign returns the voters of an adopted cluster that no node is known to run: another program may. nil of every
// other cluster, and of one that is ours as a whole. What a node said before it was lost does not count where the
// cluster goes back, or where raft is connected to the member all the same: another program runs it then.
func (o knowledge) foreign() []MemberInfo {
	r := o.current()
	if r == nil || r.Cause != Adopted || o.taken(r) {
		return nil
	}
	var all []MemberInfo
	for _, m := range o.voters(r) {
		ours := func(f Facts) bool { return f.of(r) && f.Member == m.ID && m.ID != 0 }
		away := o.returning() || slices.Contains(o.Member.Near, m.ID)
		heard := func(p Peer) bool { return p.Facts != nil && ours(*p.Facts) && (p.Live || !away) }
		if !ours(o.facts(nil)) && !slices.ContainsFunc(o.Peers, heard) {
			all = append(all, m)
		}
	}
	return all
}

// voters is what is known of the generation's voters: from its members that run, else from the record.
func (o knowledge) voters(r *Record) []MemberInfo {
	var all []MemberInfo
	for _, list := range o.lists(r) {
		for _, m := range list {
			if !m.Learner && !slices.ContainsFunc(all, func(v MemberInfo) bool { return v.ID == m.ID }) {
				all = append(all, m)
			}
		}
	}
	if all == nil {
		for _, s := range r.Charter.Seats {
			all = append(all, MemberInfo{ID: s.Member, Slot: s.Slot, Started: true})
		}
	}
	return all
}

// taken reports whether an adopted cluster was seen to be ours as a whole, by any node of it that lives. That stays
// true until it goes back.
func (o knowledge) taken(r *Record) bool {
	return !o.returning() && (o.Disk.Ledger.Taken == r.ID ||
		slices.ContainsFunc(o.Peers, func(p Peer) bool { return p.Live && p.Facts != nil && p.Facts.of(r) && p.Facts.Taken }))
}

// returning reports whether an adopted cluster goes back to another program, as `holdfast takeover release` has
// everybody know before the first member is given back. It is mixed from then on, until an operator resumes it.
func (o knowledge) returning() bool {
	r := o.current()
	return r != nil && r.Cause == Adopted && o.Member.Paused != nil && o.Member.Paused.Return
}

// Returning reports whether this is an adopted cluster that goes back to another program.
func (obs Observation) Returning() bool { return look(&obs).returning() }

// Taken reports whether this is an adopted cluster whose voters were all seen to be run by holdfast.
func (obs Observation) Taken() bool {
	o := look(&obs)
	r := o.current()
	return r != nil && r.Cause == Adopted && o.taken(r)
}

// Foreign returns the slots of an adopted cluster's voters that holdfast does not run yet, sorted; nil of a cluster
// that is ours.
func (obs Observation) Foreign() []string {
	var slots []string
	for _, m := range look(&obs).foreign() {
		slots = append(slots, m.Slot)
	}
	slices.Sort(slots)
	return slots
}

// mixed says that another program runs some of the voters, so that the member list stays as it is, nothing is restored
// and no backup deleted (R22): what each program does to the cluster, the other has never heard of. A cluster that was
// not seen whole yet counts as mixed.
func (o adopting) mixed() string {
	r := o.current()
	if r == nil || r.Cause != Adopted || o.taken(r) {
		return ""
	}
	foreign := o.Foreign()
	if len(foreign) == 0 && o.returning() {
		return fmt.Sprintf("%s goes back to another program: no member is added, removed or replaced, nothing is restored, "+
			"and no backup is deleted; %s ends that",
			r.Token(), Command("resume"))
	}
	if o.returning() {
		return fmt.Sprintf("%s goes back to another program, which may run %s by now: no member is added, removed or "+
			"replaced, nothing is restored, and no backup is deleted",
			r.Token(), they(foreign, "", ""))
	}
	if len(foreign) == 0 {
		return fmt.Sprintf("%s was taken over, and not all of its members have been seen running here yet", r.Token())
	}
	return fmt.Sprintf("%s not taken over yet: %s", they(foreign, "is", "are"), Frozen)
}

// whole notes on the disk that every voter is one that a node runs, once this member has a leader: the freeze is over,
// and nobody has to see all of them at once again. It takes that note back once the cluster goes back.
func (o adopting) whole() (Action, bool) {
	r := o.Disk.Ledger.Record
	noted := o.Disk.Ledger.Taken == r.ID
	switch {
	case r.Cause == Adopted && noted && o.returning():
		return Action{Kind: Note, Return: true, Why: fmt.Sprintf("%s goes back to another program: taking back the note on "+
			"the disk of slot %s that it was taken over as a whole",
			r.Token(), o.Claim.Slot)}, true
	case r.Cause != Adopted || noted || o.returning():
		return Action{}, false
	}
	why, ask := "another node has seen all members of %s run here", !o.taken(r)
	if ask {
		if !o.Member.Led() || len(o.Member.Members) == 0 {
			return Action{}, false
		}
		for _, m := range o.Member.Members {
			if !m.Learner && !o.runs(r, m.ID) {
				return Action{}, false
			}
		}
		why = "every member of %s is run by holdfast"
	}
	return Action{Kind: Note, Taken: r.ID, Ask: ask,
		Why: fmt.Sprintf(why+": the takeover is over; noting it on the disk of slot %s", r.Token(), o.Claim.Slot)}, true
}

// runs reports whether this node or a live one runs a member.
func (o adopting) runs(r *Record, id uint64) bool {
	is := func(f Facts) bool { return f.of(r) && f.Running && f.Member == id }
	return is(o.facts(nil)) || slices.ContainsFunc(o.live(), func(p Peer) bool { return p.Facts != nil && is(*p.Facts) })
}

// sight is the member list with those connected that raft messages flow to from here: what there is in the place of the
// leader's word where that is run by another program, which tells nothing. nil where a node leads, or may.
func (o adopting) sight() []MemberInfo {
	m, r := o.Member, o.current()
	if len(o.foreign()) == 0 && !o.halts(r) || m.Leader || !m.Led() || o.leader(r) != nil {
		return nil
	}
	seen := slices.Clone(m.Members)
	for i := range seen {
		seen[i].Connected = seen[i].ID == m.ID || slices.Contains(m.Near, seen[i].ID)
	}
	return seen
}

// halts reports whether an adopted cluster may be on its way back to another program: an operator has paused it, and
// may give it back without a word. That every member was ours once tells nothing then.
func (o adopting) halts(r *Record) bool {
	return r != nil && r.Cause == Adopted && o.Member.Paused != nil
}

// forbidden says why a restore must not be while another program runs voters that are not named lost.
func (o adopting) forbidden(p *Restore) string { return stranded(o.Foreign(), p) }

// stranded says why a restore must not be while another program runs the voters of these slots, "" if it may: those
// that are not named lost would have their data in a cluster that has gone on without them. Recovery stays allowed.
func stranded(foreign []string, p *Restore) string {
	slots := slices.DeleteFunc(slices.Clone(foreign), func(slot string) bool { return slices.Contains(p.Lost, slot) })
	if p.Survivor != "" || len(slots) == 0 {
		return ""
	}
	return fmt.Sprintf("%s not taken over yet, and a restore would leave what runs there behind: finish the takeover "+
		"first, or, if %s gone for good, begin the restore with --lost %s",
		they(slots, "is", "are"), map[bool]string{true: "it is", false: "they are"}[len(slots) == 1],
		strings.Join(slots, ","))
}

// Mixed says that another program may run voters of an adopted cluster, and what waits for the end of that; "" if none
// does.
func (obs Observation) Mixed() string { return adopting(look(&obs)).mixed() }
