// Package plan decides what a node does next. It decides and nothing else.
//
// [Next] takes an [Observation] and returns one [Action]. It imports only the standard library, reads
// no clock, file or network, keeps no state between calls, answers every observation there can be, and
// gives the same answer to the same observation. So the whole behaviour of a cluster can be read here,
// replayed from a story file (testdata/*.txt), and simulated: sim_test.go runs millions of decisions of
// random lives with crashes, lost disks, partitions, stale gossip and failing stores, and checks after
// each step what must never happen. Comments that name a rule by number (R4) mean those of docs/protocol.md.
//
// # Views
//
// The questions that [Next] asks of an observation are grouped by subject, each a view of it: a type with the questions
// of that subject as its methods, in the files named here. A view converts to any other, so a call across subjects
// names the subject: proposals(o).frozen().
//
//   - mesh (mesh.go): what the other nodes say.
//   - knowledge (knowledge.go, facts.go): what all sources together tell of the cluster, and what we say of ourselves.
//     These two answer the questions that all subjects share; they ask none of theirs.
//   - claiming (rivals.go): which slots to leave to others, and who else holds ours. The provider chooses the volume.
//   - founding (founding.go): a disk that has accepted nothing.
//   - adopting (adopt.go): foreign data on a disk, and a cluster of which another program still runs a part.
//   - resuming (resume.go, rollback.go, scheme.go, versions.go): a disk that has accepted a record, before etcd runs.
//     Every [Start] of a member is decided in resume.go.
//   - steady (steady.go, shrink.go): a member that runs, and what its leader does for the member list.
//   - securing (secure.go): how the members go from http to https.
//   - resizing (resize.go): which slots the cluster wants.
//   - upkeep (upkeep.go, room.go, versions.go): what is due for the databases, and what is in the way of it.
//   - reloading (reload.go): a member whose trusted authorities have changed.
//   - disruption (disruption.go): a member that goes down on purpose.
//   - succession (ending.go, generation.go): whether our generation is over, and how this disk passes to the next.
//   - proposals (restoring.go, recover.go, newest.go; the proposal itself is in restore.go): what a restore or a
//     recovery needs of this node.
//   - fencing (fence.go): which disks may found the generation that a proposal would begin.
//   - surveying (survey.go): what is left of a cluster that may have lost its majority.
//
// # Unknown is not none
//
// An observation says of everything whether it is known. What could not be read leads to [Wait], never
// to an assumption: an absent file, object or peer is not evidence that there is no cluster. Evidence
// that a cluster exists may come from anywhere (a disk, gossip, the store, a node that is long gone) and
// always vetoes founding. Evidence that none exists counts only from the live holder of a disk, about
// that disk.
//
// # Founding
//
// Only facts that stay true once they are true are read from gossip, so that a message may arrive late,
// twice or never without doing harm. Every disk has a random UUID. A [Charter] names, for each wanted
// slot, the disk that will hold it and the epoch of the claim. A holder of a blank disk that sees exactly
// one live holder for every wanted slot promises the charter made of those disks (durably, before it
// says so), and it founds only when it has seen the promise of that very charter from every disk in it.
// The etcd cluster token is derived from the charter, so members of two charters can never talk.
//
// A disk that has promised may promise a newer charter, as long as it has accepted none: when a disk was
// replaced before all had promised, the old charter can never be completed. The newer charter must have
// every epoch at least as high and one higher, and must keep a majority of the disks of every charter
// this disk ever promised. That majority is what makes it safe: each of its disks promised the newer
// charter before its first start, hence never starts under the older one, hence the older one can never
// have a quorum. Where no such charter exists the node waits and names `holdfast found --abandon`.
//
// A complete charter becomes the founding [Record] of generation 1. Accepting it is durable, and final but
// for one case: a founder may accept a charter while, unheard by it, the others move to a newer one. When a
// majority of a record's disks is known to have promised a newer charter, that founding is stillborn: it
// never had a leader and never will, so it is no evidence of a cluster, and its founders join the other.
// For the same reason a blank disk gives itself to a record ([Vacate]) only when it sees a leader of it.
//
// # Replacing
//
// A disk without etcd data that is not a founder of the known record is a replacement. It may not start
// by itself: a member that forgot its votes breaks raft's promise. The raft leader removes the member
// that the slot had, adds the slot as a learner for exactly this disk ([Admission]), and promotes it when
// it has caught up. A disk that once started and has lost its write-ahead log is a replacement as well.
//
// # Copies
//
// Two processes never serve as one member, also where its disk was copied: what the gossip tells of another holder may
// be older than the copy, so a node asks the others right before its member starts. A [Contest] says whom, and when it
// is too late to give way, and judges the answers.
//
// # Generations and restore
//
// A restore ends one generation of the cluster and begins the next. It is proposed to the backup store (a [Restore]);
// while it is open the old generation serves, every disk prepares beside its data, and the member list is frozen. Any
// node that sees enough disks prepared concludes: the new generation's [Record] becomes the outcome in the store, by a
// condition that excludes an abort and a second conclusion. That is final, and only that ever stops a member that
// serves.
//
// A disk then enters: its old member is stopped for good, and only after that the record is accepted. So a disk in a
// record votes in no older generation, which is what the fence counts on: fence.go says which disks may get a seat, and
// why any majority of them leaves the old generation without one. A founder of a restored generation swaps in what it
// has prepared, and never begins with an empty log; what it has lost it prepares again, and where it cannot, it joins
// as a replacement as soon as there is a leader to admit it. All others set their data aside and join.
//
// Descent is a lookup: a record lists the generations before it. A store that does not answer discards nothing, stops
// nothing and proves no abort.
//
// # Recovery
//
// Where a majority of the disks is lost for good, one member that is left, the survivor, continues from what its log
// holds. That is a proposal like a restore's ([Restore.Survivor]), but only the survivor prepares, concludes and is a
// founder of the new generation; all others join it. [Observation.Survey] says what is left, [Survey.Choose] from which
// slot to continue, and why not: every voter that is not declared lost must be here and have shown where its log ends,
// for one that is not might hold what was acknowledged and the survivor not. A cluster that has a leader again aborts
// it. Without an operator nobody continues from less than the newest verified backup holds ([Store.Newest]), nor while
// that is unknown.
//
// # Slots
//
// Which slots the cluster wants is agreed on by more than half of all voters' holders and kept in etcd as a [SlotSet];
// resize.go has who has a say. shrink.go has what the leader then does for the member list, one step at a time and the
// most urgent first, each of which leaves the cluster as strong as it was.
//
// # Upkeep
//
// upkeep.go judges databases, lets the members defragment them one at a time, and cures the alarm NOSPACE. room.go
// raises it before a volume is full, and keeps it up until every volume has room. CORRUPT is explained and never taken
// back. While the voters run different minors of etcd the member list stays as it is (versions.go), and what is too old
// for the data of its cluster is not started.
//
// # Going down on purpose
//
// At most one member at a time is taken down on purpose: the one that has the disruption lock, a lease in etcd
// ([Lock]), and has been told by the leader, after it had the lock, that a majority is connected without it
// ([Observation.Disruption]). The slot's next life gives the lock back when it serves ([Unlock]); where none comes, the
// lease ends. A process that was told to end waits for its turn only as long as [Observation.Haste] finds a reason to,
// and not forever. Nothing here is needed for safety, which is raft's; it keeps a quorum running.
//
// # Pause
//
// An operator can pause what is done to the cluster by itself; the word is kept in etcd and applied by every member.
// pause.go lists what it holds back. A decision that does not see the pause yet may still be made, once.
//
// # Dangers
//
// The order of the checks in [Next] is the protocol; moving one changes what is safe. Every guard has a
// mutant in mutants_test.go that removes it, and the tests must catch each of them.
package plan
