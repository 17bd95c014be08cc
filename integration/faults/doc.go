// Package faults injects random faults into real nodes, while etcd's own robustness checker records what clients see.
//
// A [Run] is a site of package integration: three holdfast processes on hosts in network namespaces, each with an EBS
// volume of the stand-in, which is a loop device. A [Schedule], drawn from a seed, lists the faults ([Kind]) and their
// times. Meanwhile clients of go.etcd.io/etcd/tests/v3/robustness read, write, watch, compact and take leases. They
// record each request with its times and its answer. After the faults, when the cluster is healthy again, all nodes are
// killed, and the [History] is checked. The checker compares the clients' records with a model of etcd: linearizability
// (by porcupine), the guarantees of watches, and reads at old revisions. The members' write-ahead logs show the outcome
// of requests without an answer.
//
// docs/scenarios.md says how to run it, how to repeat a run, and how to read a failure.
//
// # What the checker needs
//
//   - An empty database at revision 1, a last write that succeeds, and no other requests than it knows. So nodes stop
//     without the disruption lock (stop.wait 0s). holdfast's own writes are recognized by the prefix of their keys in
//     the logs. Any other unknown write makes the history illegal.
//   - The whole log. etcd deletes a WAL file when five newer ones exist (max-wals), and fills 64 MB before it begins
//     another, so within minutes it deletes nothing. [Load] refuses a history in which no member has the first entry.
//     At most one disk is lost in a run. The logs of the two other members are then complete, and that of the replaced
//     member counts from its start.
//   - No alarms. A full disk raises NOSPACE. The checker does not know this log entry, nor that etcd refuses writes
//     after it. Both are emptied in the copies of the logs that are checked.
//   - Few requests: a hundred a second. A request without an answer may have been carried out at any later time, so the
//     search grows with the number of failures. A search that takes longer than a minute ends with [ErrUndecided].
//
// # Generations
//
// etcd's model begins with an empty database, so it cannot follow a restore or a recovery in the middle of faults. For
// these, [Registers] have a model of their own, also checked by porcupine. Each answer belongs to the generation whose
// cluster ID it has. A generation begins with the content of its backup. Everything that its leader acknowledged before
// its end must be in the logs that its members have set aside.
//
// # Limits
//
// The clock does not jump: time namespaces do not have CLOCK_REALTIME, and the machine's clock is shared. Delays come
// from suspending the process again and again (stutter), and from retransmissions of lost packets (loss), because not
// every kernel has netem. Faults come one after the other; a fault can overlap only with the recovery from the last
// one. The seed decides the faults, but not the order in which threads run, so a repeated run is only similar.
package faults
