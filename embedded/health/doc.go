// Package health judges how a cluster is.
//
// Facts come in, findings go out, and nothing is asked on the way: [NodeStatus] is what one node knows of itself (its
// member, disk, volume, backups, certificates, gossip), [ClusterStatus] what the nodes say together, and
// [ClusterStatus.Judge] turns them into a list of [Finding]: a code that stays the same, a severity, what it is about,
// one sentence, and the command that cures it. `holdfast status`, `status --why`, `doctor`, /readyz, the series
// holdfast_finding and the alerts all judge by the same functions, each of what it has looked at: status of what the
// nodes say, doctor also of the store and of Kubernetes' keys, /readyz of this node alone. docs/findings.md has
// the table of all codes, which a test compares with [Kinds].
//
// Whether there is a quorum comes from raft alone, asked of the members: a linearizable read that was answered. What
// the gossip says of a node can be wrong in many ways (a stray process with its name, a seed that is away), and is a
// warning about that node, as long as raft is connected to its member.
package health
