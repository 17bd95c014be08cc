package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Program is the program that made etcd's data.
type Program string

// The programs whose clusters can be adopted.
const (
	EtcdManager Program = "etcd-manager" // kubernetes-sigs/etcd-manager: the file state, and the data in data/TOKEN
	PlainEtcd   Program = "etcd"         // a data directory, with the directory member in it
)

// Origin is what foreign data on a volume says about its cluster (R22). All of it is read from the disk.
type Origin struct {
	Program Program
	Path    string // of etcd's data directory, relative to the volume: data/TOKEN, or . if the volume is the directory
	Token   string // of the founding; "" if the disk does not have it, which is always so for plain etcd
	Cluster uint64 // cluster ID, from the log
	Member  uint64 // ID of this disk's member, from the log
	Members []Elder
	Version string // agreed by the cluster, such as 3.6.0; "" while there is none
	// Obstacle is why the data cannot be taken over, and what to do; "" if nothing prevents it.
	Obstacle string
}

// Elder is a member of an adopted cluster, as the member list showed it when the record was made.
type Elder struct {
	ID      uint64 `json:"id"`
	Name    string `json:"name,omitempty"` // "" if it never started
	PeerURL string `json:"peer_url"`
	Learner bool   `json:"learner,omitempty"`
	// Slot is the slot in the peer URL, by this node's pattern; "" if the URL does not match it.
	Slot string `json:"slot,omitempty"`
}

// Adoption is what a record says about a cluster that holdfast did not found. It comes from the disk on which the
// cluster was first found.
type Adoption struct {
	Token   string  `json:"token,omitempty"` // etcd's; "" if the disk did not have it
	Cluster uint64  `json:"cluster_id"`
	Members []Elder `json:"members"` // sorted by slot
	// Program is the program that ran the cluster; "" in records of versions that did not note it.
	Program Program `json:"program,omitempty"`
}

// From is the program that ran the cluster. Only etcd-manager's disks contain etcd's token.
func (a Adoption) From() Program {
	switch {
	case a.Program != "":
		return a.Program
	case a.Token != "":
		return EtcdManager
	}
	return PlainEtcd
}

// AdoptedRecord makes the record of a cluster that is taken over. Its ID depends only on what all of the cluster's
// disks agree on. So every node makes the same record, even if the member list has changed in between.
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

// cluster names the cluster. Its ID is known only if the log can be read.
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

// Frozen says what the freeze of an adopted cluster holds back, and until when (R22).
const Frozen = "until holdfast runs every member, none is added, removed or replaced, nothing is " +
	"restored, and no backup is deleted"

// Adopting decides about foreign data on which no etcd runs: it returns an Adopt, or says why the data is not taken
// over.
func (obs Observation) Adopting() Action { return adopting(look(&obs)).adopt() }

// adopting asks whether foreign data on the disk may be taken over, and whether holdfast runs the whole of an adopted
// cluster (R22).
type adopting view

// adopt takes over the foreign data on the disk; this node then runs its member. The record goes into the store first,
// so that nobody founds another cluster meanwhile.
func (o adopting) adopt() Action {
	from := o.Disk.Origin
	if why := o.unfit(from); why.Text != "" {
		return wait("%s", why)
	}
	// It was taken over before, and may have advanced since.
	if known, by := resuming(o).known(); known != nil && o.Disk.WAL {
		return resuming(o).rewrite(known, by)
	}
	r := AdoptedRecord(o.Config.Cluster, o.Config.PeerURL, *from)
	if err := r.Valid(); err != nil {
		return wait("slot %s holds data of the cluster %x of %s that cannot be taken over: no record can be made of its "+
			"members: %v", o.Claim.Slot, from.Cluster, from.Program, err)
	}
	if why := o.contradiction(&r); why.Text != "" {
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
	over := o.replaceable(&r)
	if known := o.Store.Record; known != nil && known.ID == r.ID {
		r = *known
	}
	return Action{Kind: Adopt, Record: &r, Member: from.Member, Over: over,
		Mirror: shared && (o.Store.Record == nil || over),
		Why: fmt.Sprintf("slot %s takes over the member %x of the cluster %x that %s has run, with its data: %s",
			o.Claim.Slot, from.Member, from.Cluster, from.Program, r.Token())}
}

// unfit says why the data on the disk must not be taken over.
func (o adopting) unfit(from *Origin) Said {
	slot, cluster := o.Claim.Slot, from.cluster()
	m, listed := from.elder(from.Member)
	strays := slices.DeleteFunc(slices.Clone(from.Members), func(m Elder) bool { return !m.Learner && m.Name != "" })
	switch {
	case !o.Config.Adopt:
		return say("slot %s holds data of the %s, and nothing is touched: to take the cluster over, set cluster.adopt to "+
			"true; if the data may be set aside, run %s", slot, cluster, setVolumeAside)
	case from.Obstacle != "":
		return say("slot %s holds data of the %s that cannot be taken over: %s", slot, cluster, from.Obstacle)
	case !listed:
		return say("slot %s holds data of member %x, which the %s does not have any more: if it may be set aside, run %s",
			slot, from.Member, cluster, setVolumeAside)
	case m.Slot != slot:
		return say("slot %s holds data of the member of slot %s (%x) of the %s: give this volume the slot %s", slot, m.Slot,
			m.ID, cluster, m.Slot)
	case len(strays) > 0:
		return say("the %s has a member that is a learner or has not started yet (%x): promote it, or remove it, with "+
			"etcdctl first", cluster, strays[0].ID)
	case undecided(from.Version):
	case Older(o.Config.Etcd, from.Version):
		return say("the %s is at etcd %s, and this holdfast embeds %s, which cannot open its data: run one with that etcd "+
			"or a newer one", cluster, from.Version, o.Config.Etcd)
	case distant(o.Config.Etcd, from.Version):
		return say("the %s is at etcd %s, and this holdfast embeds %s: members more than one minor apart cannot be in one "+
			"cluster; upgrade it with %s first, one minor after the other",
			cluster, from.Version, o.Config.Etcd, from.Program)
	}
	return Said{}
}

// undecided reports whether a cluster has not agreed on a version: etcd's is 3.0 until all members have reported
// theirs.
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

// contradiction says what the other nodes or the store know that contradicts the new record.
func (o adopting) contradiction(r *Record) Said {
	for _, p := range o.Peers {
		f := p.Facts
		if f != nil && f.CID == r.Adopted.Cluster && f.Record != nil && f.Record.Lineage() != r.ID {
			return say("node %s has taken over the same cluster %x as %s, and this node would do so as %s: cluster.name and "+
				"etcd.peer-url must be the same", p.Node, f.CID, f.Record.Token(), r.Token())
		}
	}
	known, conflict := o.withoutReplaced(r).latest()
	switch s := o.Store.Record; {
	case conflict != "":
		return say("%s", conflict)
	case known != nil && known.Lineage() != r.ID:
		return say("two clusters claim the name %q: %s, and the one on this disk, %s; keep one of them away from this gossip",
			o.Config.Cluster, known.Token(), r.Token())
	case s != nil && o.Store.Unknown == "" && s.Lineage() != r.ID && !o.replaceable(r):
		return say("the backup store knows the cluster as %s, and this disk is of %s: if it was given back, finish that "+
			"with %s on its last member; otherwise give this node another snapshot.store",
			s.Token(), r.Token(), Command("takeover release"))
	}
	return Said{}
}

// replaceable reports whether the store's record is of another cluster that was given back, down to its last member.
// Then the cluster that the other program has since made of it, for example by a restore, may take its place.
func (o adopting) replaceable(r *Record) bool {
	s := o.Store
	return s.Unknown == "" && s.Record != nil && s.Returned && s.Record.Lineage() != r.ID
}

// withoutReplaced ignores what lost nodes said about other clusters, if the store has the record of the cluster on this
// disk, or may take it.
func (o adopting) withoutReplaced(r *Record) knowledge {
	s, rest := o.Store, *o.Observation
	if o.replaceable(r) || s.Unknown == "" && s.Record != nil && s.Record.Lineage() == r.ID {
		rest.Peers = slices.DeleteFunc(slices.Clone(o.Peers), func(p Peer) bool {
			return !p.Live && p.Facts != nil && p.Facts.Record != nil && p.Facts.Record.Lineage() != r.ID
		})
	}
	return look(&rest).knowledge
}

// foreign returns the voters of a cluster that no node is known to run, and that another program may run. It is nil for
// a cluster that holdfast runs as a whole. A lost node's facts do not count if the cluster goes back, or if raft is
// connected to the member: then another program runs it. A node that has released its member, and waits for its end,
// does not count either.
func (o knowledge) foreign() []MemberInfo {
	r := o.current()
	if r == nil || o.taken(r) {
		return nil
	}
	var all []MemberInfo
	for _, m := range o.voters(r) {
		ours := func(f Facts) bool {
			return f.of(r) && f.Member == m.ID && m.ID != 0 && (f.Running || !o.Member.Returning())
		}
		away := o.Member.Returning() || slices.Contains(o.Member.Near, m.ID)
		heard := func(p Peer) bool { return p.Facts != nil && ours(*p.Facts) && (p.Live || !away) }
		if !ours(o.facts(nil)) && !slices.ContainsFunc(o.Peers, heard) {
			all = append(all, m)
		}
	}
	return all
}

// voters returns the generation's voters, as its running members list them; else as the record does.
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

// taken reports whether holdfast runs the whole cluster. Of an adopted one, a live node, or this one, must have seen
// that. It stays true until the cluster goes back.
func (o knowledge) taken(r *Record) bool {
	return !o.Member.Returning() && (r.Cause != Adopted || o.Disk.Ledger.Taken == r.ID ||
		slices.ContainsFunc(o.Peers, func(p Peer) bool { return p.Live && p.Facts != nil && p.Facts.of(r) && p.Facts.Taken }))
}

// Returning reports whether the cluster goes back to another program. `holdfast takeover release` announces that to all
// nodes before the first member is given back. From then on the cluster is mixed, until an operator resumes it. The
// record may also be of a later generation, which does not say that the cluster was adopted.
func (m Member) Returning() bool { return m.Paused != nil && m.Paused.Return }

// Taken reports whether this is an adopted cluster, and holdfast was seen to run all of its voters.
func (obs Observation) Taken() bool {
	o := look(&obs)
	r := o.current()
	return r != nil && r.Cause == Adopted && o.taken(r)
}

// Foreign returns the sorted slots of the voters that another program may run: in an adopted cluster, those that
// holdfast does not run yet, and in a cluster that goes back, those that it no longer runs.
func (obs Observation) Foreign() []string {
	var slots []string
	for _, m := range look(&obs).foreign() {
		slots = append(slots, m.Slot)
	}
	slices.Sort(slots)
	return slots
}

// mixed says why a cluster is frozen, "" if it is not (R22): another program runs some of its voters, and neither
// program learns what the other one does to the cluster. Until all voters were seen to run here, an adopted cluster
// counts as mixed.
func (o adopting) mixed() string {
	r := o.current()
	if r == nil || o.taken(r) {
		return ""
	}
	foreign := o.Foreign()
	if len(foreign) == 0 && o.Member.Returning() {
		return fmt.Sprintf("%s goes back to another program: no member is added, removed or replaced, nothing is "+
			"restored, and no backup is deleted; %s ends that", r.Token(), Command("resume"))
	}
	if o.Member.Returning() {
		return fmt.Sprintf("%s goes back to another program, and %s run there by now: no member is added, removed or "+
			"replaced, nothing is restored, and no backup is deleted", r.Token(), they(foreign, "may", "may"))
	}
	if len(foreign) == 0 {
		return fmt.Sprintf("%s was taken over, and not all of its members are known to run here: %s", r.Token(), Frozen)
	}
	return fmt.Sprintf("%s not taken over yet: %s", they(foreign, "is", "are"), Frozen)
}

// noteTaken notes on the disk that holdfast runs every voter, once this member has a leader. The freeze is then over,
// and need not be judged again. Once the cluster goes back, the note is removed.
func (o adopting) noteTaken() Action {
	r := o.Disk.Ledger.Record
	noted := o.Disk.Ledger.Taken == r.ID
	switch {
	case r.Cause == Adopted && noted && o.Member.Returning():
		return Action{Kind: Note, Return: true, Why: fmt.Sprintf("%s goes back to another program: removing the note on "+
			"the disk of slot %s that all of it was taken over", r.Token(), o.Claim.Slot)}
	case r.Cause != Adopted || noted || o.Member.Returning():
		return Action{}
	}
	why, ask := "another node has seen all members of %s run here", !o.taken(r)
	if ask {
		if !o.Member.Led() || len(o.Member.Members) == 0 {
			return Action{}
		}
		for _, m := range o.Member.Members {
			if !m.Learner && !o.runs(r, m.ID) {
				return Action{}
			}
		}
		why = "every member of %s is run by holdfast"
	}
	return Action{Kind: Note, Taken: r.ID, Ask: ask,
		Why: fmt.Sprintf(why+": the takeover is over; noting it on the disk of slot %s", r.Token(), o.Claim.Slot)}
}

// runs reports whether this node, or a live one, runs a member.
func (o adopting) runs(r *Record, id uint64) bool {
	is := func(f Facts) bool { return f.of(r) && f.Running && f.Member == id }
	return is(o.facts(nil)) || slices.ContainsFunc(o.live(), func(p Peer) bool { return p.Facts != nil && is(*p.Facts) })
}

// ownView is the member list, with this member's own connections. It replaces the leader's report if another program
// runs the leader, because such a leader reports nothing. It is nil if a node leads, or may lead.
func (o adopting) ownView() []MemberInfo {
	m, r := o.Member, o.current()
	if len(o.foreign()) == 0 && !o.mayReturn(r) || m.Leader || !m.Led() || o.leader(r) != nil {
		return nil
	}
	seen := slices.Clone(m.Members)
	for i := range seen {
		seen[i].Connected = seen[i].ID == m.ID || slices.Contains(m.Near, seen[i].ID)
	}
	return seen
}

// mayReturn reports whether an adopted cluster may be on its way back to another program: an operator has paused it,
// and may give members back without notice. Then it no longer matters that all members were ours once.
func (o adopting) mayReturn(r *Record) bool {
	return r != nil && r.Cause == Adopted && o.Member.Paused != nil
}

// forbidden says why a restore is not allowed while another program runs voters that are not named lost, "" if it is.
// Such a voter would keep running in a cluster that the others have left. Recovery stays allowed.
func (o adopting) forbidden(p *Restore) string {
	slots := slices.DeleteFunc(o.Foreign(), func(slot string) bool { return slices.Contains(p.Lost, slot) })
	if p.Survivor != "" || len(slots) == 0 {
		return ""
	}
	return fmt.Sprintf("%s not taken over yet, and a restore would leave what runs there behind: finish the takeover "+
		"first, or, if %s gone for good, begin the restore with --lost %s", they(slots, "is", "are"),
		map[bool]string{true: "it is", false: "they are"}[len(slots) == 1], strings.Join(slots, ","))
}

// Mixed says that another program may run voters, and what waits until it does not; "" if none does.
func (obs Observation) Mixed() string { return adopting(look(&obs)).mixed() }
