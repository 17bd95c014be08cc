// Package takeover examines a cluster that another program runs: plain etcd, or etcd-manager. It changes nothing there.
//
// [Check] reads the data directories of the members, and finds what would keep this etcd from running on them, each
// with a way out. [embedded.ReadMemberships] reads the lists of members in a directory; this package judges them, and
// compares the directories.
//
// [Look] examines a machine that is to be taken over. It works while the other program runs: the database is locked
// then, so it asks etcd for the members. [Judge] finds what is in the way, and what a node would do. It calls the
// node's own decision, [plan.Observation.Adopting], and decides nothing itself.
//
// [Rehearse] makes a cluster from a backup or from copies, takes it over and gives it back, member by member, while a
// client writes. It uses real processes: nodes of holdfast, and etcd without holdfast. Copies have the IDs and names of
// the real members, and would join their cluster if they could. So everything runs in a network namespace of its own,
// from which nothing else can be reached. If the namespace cannot be made, nothing is rehearsed.
package takeover
