// Package health judges the state of a cluster.
//
// Facts come in, findings go out, and nothing is queried on the way. [NodeStatus] is what one node knows of itself: its
// member, disk, volume, backups, certificates and gossip. [ClusterStatus] is what the nodes say together.
// [ClusterStatus.Judge] turns them into a list of [Finding]. Each has a stable code, a severity, a subject, one
// sentence, and the command that cures it.
//
// `holdfast status`, `status --why`, `doctor`, /readyz, the series holdfast_finding and the alerts all judge by the
// same functions, but by different facts. status has what the nodes say. doctor also has the store and Kubernetes'
// keys, and /readyz has this node alone. docs/findings.md has the table of all codes; a test compares it with [Kinds].
//
// # Where to look
//
//   - table.go has each code with its severity and its cure.
//   - judge.go, node.go, disks.go, cluster.go, rotation.go and vote.go decide when there is a finding, and word it.
//     Findings of a node itself (names, gossip, stores) come already worded from cmd/node/findings.go and the package
//     concerned.
//   - explain.go says what stops a node, for `status --why`. The sentence of a decision is made with the decision, in
//     embedded/plan.
//   - release.go, takeover.go, downgrade.go and restore.go judge one operation each, for its command and for status.
//   - status.go and facts.go define the input; finding.go, and the report in facts.go, are the output.
//
// Whether there is a quorum comes from raft alone, through the members: a linearizable read was answered. What the
// gossip says of a node can be wrong in many ways, such as a stray process with its name, or an unreachable seed. While
// raft is connected to the node's member, that is only a warning about the node.
package health
