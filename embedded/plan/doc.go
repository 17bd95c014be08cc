// Package plan decides what a node does next. It decides and nothing else.
//
// [Next] takes an [Observation] and returns one [Action]. It imports only the standard library, reads
// no clock, file or network, keeps no state between calls, answers every observation there can be, and
// gives the same answer to the same observation. So the whole behaviour of a cluster can be read here,
// replayed from a story file (testdata/*.txt), and simulated: sim_test.go runs millions of decisions of
// random lives with crashes, lost disks, partitions, stale gossip and failing stores, and checks after
// each step what must never happen.
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
// # Dangers
//
// The order of the checks in [Next] is the protocol; moving one changes what is safe. Every guard has a
// mutant in mutants_test.go that removes it, and the tests must catch each of them.
package plan
