// Package faults lets everything go wrong on real nodes while etcd's own robustness checker follows what their clients
// see.
//
// A [Run] is a site of the package integration: three holdfast processes on hosts in network namespaces, each with an
// EBS volume of the stand-in, which is a loop device. A [Schedule], drawn from a seed, says what goes wrong and when
// ([Kind]). Meanwhile clients of go.etcd.io/etcd/tests/v3/robustness read, write, watch, compact and take leases, and
// record each request with its times and its answer. When the faults are over and the cluster is healthy, all nodes are
// killed, and the [History] is checked: the clients' records against a model of etcd (linearizability, by porcupine;
// the guarantees of watches; reads at old revisions), with the members' write-ahead logs telling what became of
// requests without an answer.
//
// docs/scenarios.md says how to run it, to see a run again and to read a failure.
//
// # What the checker needs
//
//   - An empty database at revision 1, a last write that succeeds, and no requests but those it knows. So nodes stop
//     without the disruption lock (stop.wait 0s). Keys of holdfast's own are known by their prefix and by the logs; any
//     other stranger who writes makes the history illegal.
//   - The whole log. etcd deletes a WAL file when five newer ones exist (max-wals) and fills 64 MB before it begins
//     one, so in minutes nothing is deleted. [Load] refuses a history of which no member has the first entry. A disk is
//     lost at most once in a run: the two other members' logs are whole, and the replaced one's counts from where it
//     begins.
//   - No alarms. A full disk raises NOSPACE, and the checker knows neither that entry of the log nor that etcd refuses
//     writes behind it. Both are emptied in the copies of the logs, which are what is checked.
//   - Few requests: a hundred a second. A request without an answer may have happened at any later time, so the search
//     grows with the failures. A search that is not over in two minutes is a refusal, with another word: Timeout.
//
// # Generations
//
// A restore or a recovery in the middle of faults ends the history that etcd's model can follow, for it begins with an
// empty database. So [Registers] have a model of their own, checked by porcupine as well: each answer belongs to the
// generation whose cluster ID it bears, a generation begins with what its backup held, and what its leader acknowledged
// before it ended it is in the logs that its members have set aside.
//
// # What is not here
//
// The clock does not jump: time namespaces have no CLOCK_REALTIME, and the machine's belongs to everybody. Delay is
// made by stopping the process again and again (stutter) and by the retransmissions of lost packets (loss), because
// netem is not in every kernel. Faults come one after the other; what overlaps is one and the recovery from the one
// before. The seed decides the faults and not the order in which threads run: a run that is seen again is another one
// of its kind.
package faults
