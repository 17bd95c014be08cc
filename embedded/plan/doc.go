// Package plan decides what a node does next, and does nothing else.
//
// [Next] takes an [Observation] and returns one [Action]. It imports only the standard library, reads no clock, file or
// network, and keeps no state between calls. It answers every possible observation, and always gives the same answer to
// the same observation. So the whole behaviour of a cluster can be read here, replayed from a story file
// (testdata/*.txt), and simulated. sim_test.go runs millions of decisions through random crashes, lost disks,
// partitions, stale gossip and failing stores. After each step it checks what must never happen. Comments that cite a
// rule by number (R4) mean the rules of docs/protocol.md.
//
// # Views
//
// The questions that [Next] asks of an observation are grouped by subject. Each group is a view: a type whose methods
// are the questions of that subject, in the files named here. Any view converts to any other, so a call to another
// subject names it: proposals(o).frozen().
//
//   - mesh (mesh.go): what the other nodes say.
//   - knowledge (knowledge.go, facts.go): what all sources together say about the cluster, and what this node says
//     about itself. All subjects use mesh and knowledge; these two use no other subject.
//   - claiming (rivals.go): which slots to leave to other nodes, and who else holds ours. The provider chooses the
//     volume.
//   - founding (founding.go): a disk that has accepted no record.
//   - adopting (adopt.go): foreign data on a disk, and a cluster of which another program still runs a part.
//   - resuming (resume.go, rollback.go, scheme.go, versions.go): a disk that has accepted a record, before etcd runs.
//     resume.go decides every [Start] of a member.
//   - steady (steady.go, shrink.go): a running member, and how the leader changes the member list.
//   - securing (secure.go): how the members go from http to https.
//   - resizing (resize.go): which slots the cluster wants.
//   - upkeep (upkeep.go, room.go, versions.go): what the databases need, and what prevents it.
//   - reloading (reload.go): a member whose trusted authorities have changed.
//   - disruption (disruption.go): a member that goes down on purpose.
//   - succession (ending.go, generation.go): whether our generation is over, and how this disk passes to the next.
//   - proposals (restoring.go, recover.go, newest.go; the proposal itself is in restore.go): what a restore or a
//     recovery needs from this node.
//   - fencing (fence.go): which disks may found the generation that a proposal would begin.
//   - surveying (survey.go): what is left of a cluster that may have lost its majority.
//
// Apart from [Next], and more often, [Candidacy.Ballot] (campaign.go) decides whether a member starts an election
// early.
//
// # Unknown is not none
//
// An observation marks what is not known. What could not be read leads to [Wait], never to an assumption: a missing
// file, object or peer is not evidence that there is no cluster. Evidence that a cluster exists may come from anywhere
// (a disk, gossip, the store, a node that is long gone), and always vetoes founding. Evidence that there is no cluster
// counts only from the live holder of a disk, and only about that disk.
//
// # Founding
//
// Only facts that stay true once they are true are read from gossip. So a message may arrive late, twice or never
// without doing harm. Every disk has a random UUID. A [Charter] names, for each wanted slot, the disk that will hold it
// and the epoch of the claim. A node with a blank disk that sees exactly one live holder for every wanted slot promises
// the charter of those disks. It writes the promise to its disk before it announces it. It founds only after every disk
// in that very charter has promised it. The etcd cluster token is derived from the charter, so members of two charters
// can never talk.
//
// If a disk is replaced before all have promised, the old charter can never be completed. So a disk that has promised,
// and has accepted nothing, may promise a newer charter. In the newer charter no epoch may be lower and at least one
// must be higher. It must also keep a majority of the disks of every charter that this disk ever promised. That
// majority makes it safe: each of its disks promised the newer charter before its first start, so none of them starts
// under the older one, and the older one can never have a quorum. Where no such charter exists, the node waits and
// names `holdfast found --abandon`.
//
// A complete charter becomes the founding [Record] of generation 1. Accepting a record is durable and, with one
// exception, final. A founder may accept a charter while the others, without its knowledge, move to a newer one. Once a
// majority of a record's disks is known to have promised a newer charter, that founding is stillborn: it never had a
// leader and never will. So it is no evidence of a cluster, and its founders join the newer one. For the same reason, a
// blank disk accepts a record ([Vacate]) only when it sees a leader of that generation.
//
// # Replacing
//
// A disk without etcd data that is not a founder of the known record is a replacement. It must not start on its own: a
// member that forgot its votes breaks raft's promise. The raft leader removes the slot's old member, adds a learner for
// exactly this disk ([Admission]), and promotes it when it has caught up. A disk that once started and has lost its
// write-ahead log is a replacement as well.
//
// # Copies
//
// Two processes must never serve as the same member, even if its disk was copied. What the gossip says about another
// holder may be older than the copy. So a node asks the others right before its member starts. A [Contest] says which
// nodes to ask, judges the answers, and says when it is too late to give way.
//
// # Generations and restore
//
// A restore ends one generation of the cluster and begins the next. It is proposed to the backup store (a [Restore]).
// While the proposal is open, the old generation serves, every disk prepares new data beside its own, and the member
// list is frozen. Then one node concludes: the new generation's [Record] becomes the outcome in the store. A
// conditional put excludes both an abort and a second conclusion. The conclusion is final, and nothing else ever stops
// a member that has a leader.
//
// A disk then enters: its old member stops for good, and only then does the disk accept the record. So a disk that has
// a record votes in no older generation. The fence relies on that: fence.go says which disks may get a seat, and why
// any majority of the seats leaves the old generation without a majority. A founder of a restored generation swaps in
// what it has prepared, and never begins with an empty log. If it has lost what it prepared, it prepares again. If it
// cannot, it joins as a replacement as soon as there is a leader to admit it. All other disks set their data aside and
// join.
//
// A record lists the generations before it, so descent is a lookup. If the store does not answer, nothing is discarded
// or stopped, and nothing counts as aborted.
//
// # Recovery
//
// Where a majority of the disks is lost for good, the cluster continues from the log of one remaining member, the
// survivor. That is a proposal like a restore's ([Restore.Survivor]), but only the survivor prepares, concludes and
// founds the new generation. All others join it. [Observation.Survey] says what is left; [Survey.Choose] says from
// which slot to continue, or why not. Every voter that is not declared lost must be here and must have shown where its
// log ends, because an absent one might hold acknowledged entries that the survivor lacks. A cluster that has a leader
// again aborts the proposal. Without an operator, no survivor is chosen that holds less than the newest verified backup
// ([Store.Newest]), or while that backup is unknown.
//
// # Slots
//
// More than half of all voters' holders agree on the slots that the cluster wants, which etcd keeps as a [SlotSet].
// resize.go decides who has a say. shrink.go then changes the member list, one step at a time and the most urgent
// first. Each step leaves the cluster at least as strong as it was.
//
// # Upkeep
//
// upkeep.go judges databases, lets the members defragment them one at a time, and cures the alarm NOSPACE. room.go
// raises that alarm before a volume is full, and keeps it up until every volume has room. CORRUPT is explained and
// never disarmed. While the voters run different minor versions of etcd, the member list stays as it is (versions.go).
// An etcd that is too old for its cluster's data is not started.
//
// # Going down on purpose
//
// At most one member at a time goes down on purpose: the one that holds the disruption lock, a lease in etcd ([Lock]).
// After it has the lock, the leader must say that a majority is connected without it ([Observation.Disruption]). The
// slot's next process returns the lock once it serves ([Unlock]); if no process comes back, the lease expires. A
// process that was told to stop waits for its turn only while [Observation.Haste] finds no reason to hurry, and never
// forever. Safety needs none of this, because raft provides it; these rules keep a quorum running.
//
// # Pause
//
// An operator can pause what the nodes do to the cluster on their own. The pause is kept in etcd, and every member
// applies it. pause.go lists what it holds back. A decision that does not see the pause yet may still be made, once.
//
// # Dangers
//
// The order of the checks in [Next] is the protocol: moving one changes what is safe. Every guard has a mutant in
// mutants_test.go that removes it, and the tests must catch each mutant.
package plan
