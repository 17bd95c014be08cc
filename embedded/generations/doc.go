// Package generations keeps a cluster's generations in the backup store: the records, the proposals to begin the next
// one, and their outcomes. Nodes and commands use the same code, so both draw the same conclusions from the same
// objects.
//
// A generation is one life of the cluster. It begins with the founding, a restore or a recovery. Each of its objects
// has a number. It is put on the condition that it does not exist, and never written again. So when two writers
// disagree, the store refuses one of them, and that arbitrates (R13 and R16 of docs/protocol.md). records.go reads the
// objects and write.go writes them. listing.go parses their names. commands.go handles the restores that other programs
// request.
//
// The objects in meet.go are overwritten, and arbitrate nothing. By the beacon, a command distinguishes a
// living cluster from a dead one. By the nonces, nodes find out whether they share a store or one of them has a copy.
// clock.go compares this process's clock with the store's.
//
// With TLS every object bears a signature (signature.go), and [plan.Store] says from which generation on one is
// missing. A disk that knows an older generation does not follow it. Signatures do not last, so attest.go makes the
// leader sign again what began its generation.
//
// Anyone who can write the store may have written what is read. So every object is bounded and checked (Valid) before
// it is used. An error says nothing about what is stored, unless it wraps [plan.ErrConflict] or
// [coordinator.ErrUnread].
package generations
