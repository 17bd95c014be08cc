// Package generations keeps a cluster's generations in the backup store: the records, the proposals to begin the next
// one, and what became of them. Nodes and commands use the same code, so that both read the same from the same objects.
//
// A generation is one life of the cluster: it begins with the founding, a restore or a recovery. Each of its objects
// has a number and is put with the condition that it is not there, and never written again: of two who disagree one is
// refused, which is what arbitrates (R13 and R16 of docs/protocol.md). records.go reads and writes them; listing.go
// knows their names; commands.go the restores that other programs ask for.
//
// beacon.go has what is overwritten and arbitrates nothing: the beacon, by which a command tells a living cluster from
// a dead one, and the nonces, by which nodes find out whether they share a store or one of them has a copy. clock.go
// compares this process's clock with the store's.
//
// With TLS every object bears a signature (signature.go), and [plan.Store] says from which generation on one is
// missing: a disk that knows an older one does not follow. Signatures do not last: attest.go has the leader sign again
// what began its generation.
//
// What is read comes from anyone who can write the store: every object is bounded and checked (Valid) before anything
// rests on it. An error says nothing about what is stored, except those that wrap [plan.ErrConflict] and
// [coordinator.ErrUnread].
package generations
