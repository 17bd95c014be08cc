// Package proposal ends a generation of a cluster on an operator's order. The next generation continues with a backup,
// with a survivor's data, or with data that the cluster had continued without. This package makes a proposal, confirms
// it, follows it to its end, or aborts it. The nodes decide and do everything else.
//
// A command fills in an [Operator]: its flags, the configuration, and the node, backups and terminal that it can use.
// Each exported method is one command. The methods share the steps: a [cluster] is the store and the node on this
// machine, and a [view] is the status that the node shows. [cluster.lives] finds out whether it has a leader. A
// [proposal] is put into the store and consented to, and a [follower] follows it.
//
// A cluster that serves ends only through its own leader (R16 of docs/protocol.md), so every proposal says whether a
// leader was seen. Nothing changes before the operator has confirmed. Until the point of no return, the end of the
// command or its timeout aborts the proposal.
package proposal
