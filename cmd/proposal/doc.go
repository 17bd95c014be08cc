// Package proposal is how an operator ends a generation of a cluster, so that the next one continues with a backup,
// with what a survivor holds, or with data that the cluster had continued without. A proposal is made, weighed,
// confirmed, followed to its end, or aborted here. The nodes decide and do everything else.
//
// An [Operator] is what a command hands over: what was said with flags, what this machine reaches, and the terminal.
// Each of its exported methods is one command, from the first look to the answer. They share the steps in between:
// [cluster] is reached through the store and the node on this machine, [view] is what that node shows, a [lookout]
// finds out whether the cluster lives, and a [proposal] (proposal.go) is put into the store, consented to,
// and followed by a [follower].
//
// A cluster that serves ends only through its own leader (R16 of docs/protocol.md), so every proposal says whether one
// was seen. Nothing is changed before the operator has confirmed it, and until the point of no return the end of the
// command, or its timeout, aborts what it has proposed.
package proposal
