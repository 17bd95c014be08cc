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
// # Where to look
//
//   - table.go has each code with its severity and its cure.
//   - judge.go, node.go, disks.go, cluster.go, rotation.go and vote.go decide when there is a finding, and word it.
//     What a node finds on its own (names, gossip, stores) comes worded from cmd/node/findings.go and the package that
//     it is about.
//   - explain.go has what stops a node, for `status --why`. The sentence of a decision is made with the decision, in
//     embedded/plan.
//   - release.go, takeover.go, downgrade.go and restore.go judge one operation each, for its command and for status.
//   - status.go and facts.go are what is judged; finding.go and report.go what comes out.
//
// Whether there is a quorum comes from raft alone, asked of the members: a linearizable read that was answered. What
// the gossip says of a node can be wrong in many ways (a stray process with its name, a seed that is away), and is a
// warning about that node, as long as raft is connected to its member.
package health
